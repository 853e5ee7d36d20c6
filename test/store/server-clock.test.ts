import { expect, it } from 'vitest'
import { ServerClock } from '../../src/store/optimistic/server-clock.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

const START_US = 1_700_000_000_000_000

it('a decision may take as long as calls usually do, however slow one of them was', () => {
  const runtime = new FakeRuntime()
  const receivedMs = runtime.monotonicMs()
  const quick = { receivedMs, serverUs: START_US, roundTripMs: 1 }
  const slow = { receivedMs, serverUs: START_US - 1, roundTripMs: 30 }
  const clock = new ServerClock(runtime, quick)
  const idleUs = clock.toleranceUs()
  for (const sample of [quick, slow, quick]) clock.note(sample)
  expect(clock.lowerUs()).toBe(START_US)
  expect(clock.toleranceUs()).toBe(idleUs)
  for (let call = 0; call < 10; call += 1) clock.note(slow)
  expect(clock.toleranceUs()).toBeGreaterThanOrEqual(2 * 30_000)
})
