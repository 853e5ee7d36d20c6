import { expect, it } from 'vitest'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { FaultyStore } from '../../src/testing/faulty-store.ts'

it('a sweep that hangs does not keep a service from closing', async () => {
  const runtime = new FakeRuntime()
  const weather = (): { before: Promise<void> } => ({ before: new Promise(() => undefined) })
  const store = new FaultyStore({ store: new MemoryStore({ ticks: runtime.ticks }), weather })
  const service = new LeaseService({ store, runtime, sweep: true })
  await runtime.advance(1_000)
  let isClosed = false
  void service.close().then(() => (isClosed = true))
  await runtime.advance(999)
  expect(isClosed).toBe(false)
  await runtime.advance(1)
  expect(isClosed).toBe(true)
  expect(runtime.pendingTimers).toBe(0)
})
