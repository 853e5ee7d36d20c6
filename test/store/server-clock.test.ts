import { expect, it } from 'vitest'
import { ServerClock } from '../../src/store/optimistic/server-clock.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

const START_US = 1_700_000_000_000_000

it('a decision may take as long as calls usually do, however slow one of them was', () => {
  const runtime = new FakeRuntime()
  const receivedMs = runtime.monotonicMs()
  const quick = { receivedMs, serverUs: START_US, roundTripMs: 1, attempts: 1 }
  const slow = { receivedMs, serverUs: START_US - 1, roundTripMs: 30, attempts: 1 }
  const clock = new ServerClock(runtime, quick)
  const idleUs = clock.toleranceUs(1)
  for (const sample of [quick, slow, quick]) clock.note(sample)
  expect(clock.lowerUs()).toBe(START_US)
  expect(clock.toleranceUs(1)).toBe(idleUs)
  for (let call = 0; call < 10; call += 1) clock.note(slow)
  expect(clock.toleranceUs(1)).toBeGreaterThanOrEqual(2 * 30_000)
})

it('a call that carries much may take as long as such calls do, and others no longer for it', () => {
  const runtime = new FakeRuntime()
  const sample = { receivedMs: runtime.monotonicMs(), serverUs: START_US }
  const lone = { ...sample, roundTripMs: 1, attempts: 1 }
  const full = { ...sample, roundTripMs: 100, attempts: 500 }
  const clock = new ServerClock(runtime, lone)
  const idleUs = clock.toleranceUs(1)
  for (let call = 0; call < 20; call += 1) clock.note(call % 5 === 0 ? full : lone)
  expect(clock.toleranceUs(500)).toBeGreaterThanOrEqual(2 * 100_000)
  expect(clock.toleranceUs(1)).toBe(idleUs)
})

it('that calls take long is forgotten when larger ones take less', () => {
  const runtime = new FakeRuntime()
  const sample = { receivedMs: runtime.monotonicMs(), serverUs: START_US }
  const clock = new ServerClock(runtime, { ...sample, roundTripMs: 500, attempts: 1 })
  for (let call = 0; call < 10; call += 1) clock.note({ ...sample, roundTripMs: 5, attempts: 20 })
  expect(clock.toleranceUs(1)).toBeLessThan(2 * 500_000)
  expect(clock.toleranceUs(20)).toBeLessThan(2 * 500_000)
})
