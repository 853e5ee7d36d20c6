import { describe, expect, it } from 'vitest'
import { nextStep, type Progress } from '../../src/client/wait-step.ts'
import { LeaseError, type ErrorCode } from '../../src/core/errors.ts'
import type { WaitAnswer } from '../../src/client/pending-request.ts'

const start = { failures: 0, coversAbsence: false, againWithinMs: Number.POSITIVE_INFINITY }
const fresh: Progress = { question: 'acquire', hasQueued: false, ...start }
const waiting: Progress = { question: 'claim', hasQueued: true, ...start }

const AGAIN = { kind: 'ask', question: 'acquire' } as const

const queued: WaitAnswer = {
  kind: 'queued',
  blockers: [],
  waitMs: 100,
  keepAliveMs: 40,
  checkAfterMs: 40,
}

function answered(progress: Progress, answer: WaitAnswer): unknown {
  return nextStep(progress, { kind: 'answered', answer })
}

function failed(progress: Progress, code: ErrorCode, failures: number): unknown {
  const error = new LeaseError(code, 'a fault of the test')
  return nextStep({ ...progress, failures }, { kind: 'failed', error })
}

describe('the next step of a wait', () => {
  it('is over when the answer is definite', () => {
    const held: WaitAnswer = {
      kind: 'held',
      resource: 'work:W-1',
      blockers: [],
      retryAfterMs: 5,
      notWaiting: 'not_asked',
    }
    expect(answered(fresh, held)).toMatchObject({ kind: 'held' })
    const expired: WaitAnswer = { kind: 'expired', leaseId: 'a', terminatedAtMs: 1 }
    expect(answered(waiting, expired)).toMatchObject({ kind: 'refused' })
  })

  it('is to claim when queued, and to file again when dropped', () => {
    expect(answered(fresh, queued)).toEqual({ kind: 'queued', queued })
    const dropped = answered(waiting, { kind: 'dropped', leaseId: 'a' })
    expect(dropped).toEqual({ kind: 'ask', question: 'acquire', afterMs: 0 })
  })

  it.each(['STORE_UNAVAILABLE', 'STORE_CONFLICT'] as const)(
    'is to tell at once that the store is away (%s), unless a ticket is filed',
    (code) => {
      expect(failed(fresh, code, 1)).toMatchObject({ kind: 'failed', leftBehind: false })
      expect(failed(waiting, code, 1)).toEqual({ kind: 'ask', question: 'claim', afterMs: 50 })
      expect(failed(waiting, code, 99)).toEqual({ kind: 'ask', question: 'claim', afterMs: 1_000 })
    },
  )

  it.each(['STORE_UNAVAILABLE', 'STORE_OUTCOME_UNKNOWN'] as const)(
    'is to ask again as long as the caller said (%s)',
    (code) => {
      const patient = { ...fresh, coversAbsence: true }
      expect(failed(patient, code, 99)).toEqual({ ...AGAIN, afterMs: 1_000 })
    },
  )

  it('is to ask the same again when the answer was lost, but not for ever', () => {
    expect(failed(fresh, 'STORE_OUTCOME_UNKNOWN', 1)).toEqual({ ...AGAIN, afterMs: 50 })
    expect(failed(fresh, 'STORE_OUTCOME_UNKNOWN', 2)).toEqual({ ...AGAIN, afterMs: 100 })
    const last = failed(fresh, 'STORE_OUTCOME_UNKNOWN', 3)
    expect(last).toMatchObject({ kind: 'failed', leftBehind: true })
    expect(failed(waiting, 'STORE_OUTCOME_UNKNOWN', 99)).toMatchObject({ kind: 'ask' })
  })

  it('is to give up when the time for a first answer is used up', () => {
    const late = { ...fresh, againWithinMs: 50 }
    expect(failed(late, 'STORE_OUTCOME_UNKNOWN', 1)).toMatchObject({ kind: 'failed' })
    const inTime = { ...fresh, againWithinMs: 51 }
    expect(failed(inTime, 'STORE_OUTCOME_UNKNOWN', 1)).toMatchObject({ kind: 'ask' })
    const queued = { ...waiting, againWithinMs: 50 }
    expect(failed(queued, 'STORE_OUTCOME_UNKNOWN', 1)).toMatchObject({ kind: 'ask' })
  })

  it('is to give up on errors that asking again cannot mend, leaving nothing behind', () => {
    expect(failed(fresh, 'CLOSED', 1)).toMatchObject({ kind: 'failed', leftBehind: false })
    expect(failed(waiting, 'CLOSED', 1)).toMatchObject({ kind: 'failed', leftBehind: true })
  })
})
