import { getEventListeners } from 'node:events'
import { expect, it, onTestFinished } from 'vitest'
import { onAbort } from '../../src/runtime/abort-listeners.ts'
import { follow, newStage, statesOf } from './harness.ts'

it('twenty waits on one shutdown signal add one listener, end with it, and leave none', async () => {
  const { world, alice, bob, advance } = newStage()
  await alice.tenure.acquireAll(Array.from({ length: 20 }, (_, index) => `work:W-${index}`))
  const shutdown = new AbortController()
  const { signal } = shutdown
  const waits = Array.from({ length: 20 }, (_, index) =>
    follow(bob.tenure.acquire(`work:W-${index}`, { waitMs: 60_000, signal })),
  )
  const quick = await bob.tenure.acquire('work:free', { signal })
  await advance(10)
  expect(getEventListeners(signal, 'abort')).toHaveLength(1)
  shutdown.abort()
  await advance(0)
  expect(new Set(waits.map((wait) => wait.error().code))).toEqual(new Set(['ABORTED']))
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  expect(quick.state).toBe('held')
  expect(await statesOf(world, 'bob')).toEqual(['active'])
})

it('twenty listeners on the signal of a lease or of several make Node warn of nothing', async () => {
  const { alice } = newStage()
  const warnings: string[] = []
  const hear = ({ name }: Error): void => void warnings.push(name)
  process.on('warning', hear)
  onTestFinished(() => void process.off('warning', hear))
  const lease = await alice.tenure.acquire('work:A')
  const set = await alice.tenure.acquireAll(['work:B', 'work:C'])
  for (const { signal } of [lease, set]) {
    for (let count = 0; count < 20; count += 1) signal.addEventListener('abort', () => count)
  }
  // Warnings are told in the next tick.
  await new Promise<void>((resolve) => void setImmediate(resolve))
  expect(warnings).toEqual([])
})

it('a signal that nobody waits for any more has no listener', () => {
  const { signal } = new AbortController()
  const heard: string[] = []
  const stops = ['a', 'b'].map((name) => onAbort(signal, () => heard.push(name)))
  for (const stop of stops) stop()
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  expect(heard).toEqual([])
})
