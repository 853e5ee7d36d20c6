/** A number that grows whenever an event may have changed what is to be said of a resource. */
import { useRef } from 'preact/hooks'
import { useFeed } from '../feed-context.ts'
import { every } from '../page-runtime.ts'
import { useEffect } from 'preact/hooks'
import { useSignal } from '@preact/signals'

const LOOK_AGAIN_MS = 5_000

export function useVersionOf(resource: string): number {
  const feed = useFeed()
  const looks = useSignal(0)
  const seen = useRef({ position: '', count: 0 })
  useEffect(() => every(LOOK_AGAIN_MS, () => (looks.value += 1)), [])
  void feed.version.value
  const { rows } = feed.log
  const last = rows.at(-1)?.position ?? ''
  if (last !== seen.current.position) {
    const from = rows.findIndex(({ position }) => position === seen.current.position)
    const isTouched = rows.slice(from + 1).some(({ event }) => touches(event.resource, resource))
    seen.current = { position: last, count: seen.current.count + (isTouched ? 1 : 0) }
  }
  return seen.current.count + looks.value
}

/** The same, or one above the other. */
function touches(one: string, other: string): boolean {
  return one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`)
}
