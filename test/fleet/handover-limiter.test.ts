import { expect, it } from 'vitest'
import { HandoverLimiter } from '../../src/fleet/fleet-plan.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

const EVERY_MS = 10

/** Handovers through one limiter, each answered when the test says so. */
function handovers(runtime: FakeRuntime, count: number) {
  const limiter = new HandoverLimiter(runtime)
  const answers: (() => void)[] = []
  const ended = Array.from({ length: count }, async () => {
    await limiter.admit()
    await limiter.transfer(() => new Promise<void>((resolve) => answers.push(resolve)))
  })
  return { answers, ended: Promise.all(ended) }
}

it('lets groups begin one after the other, the first ones small', async () => {
  const runtime = new FakeRuntime()
  const { answers, ended } = handovers(runtime, 100)
  const begun: number[] = []
  for (let group = 0; group < 4; group += 1) {
    await runtime.settle()
    begun.push(answers.length)
    for (const answer of answers.splice(0)) answer()
    await runtime.advance(EVERY_MS)
  }
  expect(begun).toEqual([1, 2, 4, 8])
  for (let group = 0; group < 10; group += 1) {
    for (const answer of answers.splice(0)) answer()
    await runtime.advance(EVERY_MS)
  }
  await ended
  expect(runtime.pendingTimers).toBe(0)
})

it('lets no more begin than a store that is slow has answered', async () => {
  const runtime = new FakeRuntime()
  const { answers, ended } = handovers(runtime, 100)
  await runtime.advance(50 * EVERY_MS)
  expect(answers.length).toBe(16)
  answers.shift()?.()
  await runtime.advance(2 * EVERY_MS)
  expect(answers.length).toBe(16)
  for (let turn = 0; turn < 50; turn += 1) {
    for (const answer of answers.splice(0)) answer()
    await runtime.advance(EVERY_MS)
  }
  await ended
  expect(runtime.pendingTimers).toBe(0)
})
