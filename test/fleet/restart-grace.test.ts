import { expect, it } from 'vitest'
import { HolderClock } from '../../src/client/holder-clock.ts'
import { RestartGrace } from '../../src/fleet/restart-grace.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

const TTL_MS = 10_000

it('after a restart nobody is disturbed until every holder’s own view is over, and not much longer', async () => {
  const runtime = new FakeRuntime()
  const grace = new RestartGrace(new HolderClock(runtime), TTL_MS)
  expect(grace.isRunning).toBe(false)
  grace.disconnected()
  expect(grace.isRunning).toBe(false)
  await runtime.advance(TTL_MS / 2)
  grace.restarted()
  expect(grace.isRunning).toBe(true)
  await runtime.advance(TTL_MS / 2)
  expect(grace.isRunning).toBe(true)
  await runtime.advance(TTL_MS / 50)
  expect(grace.isRunning).toBe(false)
})

it('a server that was never seen to go counts from its return', async () => {
  const runtime = new FakeRuntime()
  const grace = new RestartGrace(new HolderClock(runtime), TTL_MS)
  grace.restarted()
  await runtime.advance(TTL_MS)
  expect(grace.isRunning).toBe(true)
})
