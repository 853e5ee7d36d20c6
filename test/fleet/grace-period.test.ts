import { expect, it } from 'vitest'
import { HolderClock } from '../../src/client/holder-clock.ts'
import { GracePeriod } from '../../src/fleet/lease-layout.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

const TTL_MS = 10_000

it('after a loss nobody is disturbed until every holder’s own view is over, and not much longer', async () => {
  const runtime = new FakeRuntime()
  const rest = new GracePeriod(new HolderClock(runtime))
  expect(rest.leftMs).toBe(0)
  rest.begin(TTL_MS)
  await runtime.advance(TTL_MS)
  expect(rest.leftMs).toBeGreaterThan(0)
  await runtime.advance(TTL_MS / 50)
  expect(rest.leftMs).toBe(0)
})

it('a second loss counts from itself', async () => {
  const runtime = new FakeRuntime()
  const rest = new GracePeriod(new HolderClock(runtime))
  rest.begin(TTL_MS)
  await runtime.advance(TTL_MS / 2)
  rest.begin(TTL_MS)
  await runtime.advance(TTL_MS)
  expect(rest.leftMs).toBeGreaterThan(0)
})

it('is no shorter because somebody sets the wall clock forward', async () => {
  const runtime = new FakeRuntime({ hasBootClock: false })
  const rest = new GracePeriod(new HolderClock(runtime))
  rest.begin(TTL_MS)
  runtime.stepWall(2 * TTL_MS)
  await runtime.advance(TTL_MS)
  expect(rest.leftMs).toBeGreaterThan(0)
  await runtime.advance(TTL_MS / 50)
  expect(rest.leftMs).toBe(0)
})
