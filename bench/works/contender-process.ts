/** One of several processes whose workers want the same resource. Its parent tells it what to do, message by message. */
import { contend, type ContendOptions } from '../measure/contend.ts'
import type { Turns } from '../measure/turns.ts'
import { messageOf } from '../result.ts'
import { withPause, type OpenSystem, type Place, type StoreName } from '../system.ts'
import { systemNamed } from '../systems/all-systems.ts'

export interface SystemKey {
  readonly store: StoreName
  readonly name: string
  /** Of whoever polls. */
  readonly pauseMs: number | null
}

type Task =
  | { readonly kind: 'open'; readonly place: Place; readonly workers: number }
  | { readonly kind: 'contend'; readonly options: ContendOptions }
  | { readonly kind: 'close' }

/** An answer has the number of its order: one that comes late must not be taken for that of the next. */
export type Order = Task & { readonly number: number; readonly system: SystemKey }

export type Reply = { readonly number: number } & (
  | { readonly kind: 'done'; readonly turns: Turns | null }
  | { readonly kind: 'failed'; readonly error: string }
)

const open = new Map<string, OpenSystem>()

async function obey(order: Order): Promise<Turns | null> {
  const { store, name, pauseMs } = order.system
  const key = `${store} ${name}`
  const system = open.get(key)
  switch (order.kind) {
    case 'open': {
      const paused = withPause(systemNamed(store, name), pauseMs)
      open.set(key, await paused.open(order.place, order.workers))
      return null
    }
    case 'contend':
      if (system === undefined) throw new Error(`${name} is not open on ${store}`)
      return contend(system, order.options)
    case 'close':
      open.delete(key)
      await system?.close()
      return null
  }
}

process.on('message', (order: Order) => {
  const { number } = order
  const reply = (said: Reply): void => void process.send?.(said)
  obey(order).then(
    (turns) => reply({ number, kind: 'done', turns }),
    (error: unknown) => reply({ number, kind: 'failed', error: messageOf(error) }),
  )
})
process.once('disconnect', () => process.exit(0))
