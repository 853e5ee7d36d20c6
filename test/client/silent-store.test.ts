import { describe, expect, it } from 'vitest'
import { failWith, first, follow, hang, newStage } from './harness.ts'

const RESOURCE = 'work:W-1'

describe('a waiter whose time is over', () => {
  it.each(['acquire', 'claim'] as const)(
    'is not told that the resource was taken when the store never answered its %s',
    async (method) => {
      const { alice, bob, advance } = newStage()
      await alice.tenure.acquire(RESOURCE)
      bob.faults.when(method, hang)
      const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 20_000 }))
      await advance(20_000)
      const error = waiting.error()
      expect(error).toMatchObject({ code: 'WAIT_TIMEOUT', effect: 'unknown' })
      expect(error.message).toMatch(/the store did not answer: no answer for \d+ ms$/)
      expect(error.details['store']).toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN' })
    },
  )

  it('is told who is in the way when the store was away meanwhile but has answered since', async () => {
    const { alice, bob, advance } = newStage()
    await alice.tenure.acquire(RESOURCE)
    bob.faults.when('claim', first(1, failWith('STORE_UNAVAILABLE')))
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 10_000 }))
    await advance(10_000)
    const error = waiting.error()
    expect(error).toMatchObject({ code: 'WAIT_TIMEOUT', effect: 'none' })
    expect(error.message).toBe(
      'work:W-1 did not become free within 10000 ms: "alice" is in the way',
    )
    expect(error.details['store']).toBeUndefined()
  })
})
