import { expect, it } from 'vitest'
import { ServerClock } from '../../src/store/speculation/server-clock.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

const START_US = 1_700_000_000_000_000

it('a decision may take as long as the calls of late, however quick the one that told the time', () => {
  const runtime = new FakeRuntime()
  const receivedMs = runtime.monotonicMs()
  const quick = { receivedMs, serverUs: START_US, roundTripMs: 1 }
  const clock = new ServerClock(runtime, quick)
  const idleUs = clock.toleranceUs()
  clock.note({ receivedMs, serverUs: START_US - 1, roundTripMs: 30 })
  expect(clock.lowerUs()).toBe(START_US)
  expect(clock.toleranceUs()).toBeGreaterThanOrEqual(120_000)
  for (let call = 0; call < 50; call += 1) clock.note(quick)
  expect(clock.toleranceUs()).toBe(idleUs)
})
