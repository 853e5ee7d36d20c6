import { describe, expect, it } from 'vitest'
import { HolderClock, type Moment } from '../../src/client/holder-clock.ts'
import {
  beginHolding,
  dueWindow,
  isOverForHolder,
  leftMs,
  stepHolding,
  type Holding,
  type HoldingAction,
  type HoldingEvent,
  type HoldingStep,
  type Instant,
} from '../../src/client/holding.ts'
import { LeaseError, type ErrorCode } from '../../src/core/errors.ts'
import { describeEntry, type LeaseInfo } from '../../src/core/lease.ts'
import type { Refusal } from '../../src/core/outcome.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { id, lease, nowAt } from '../core/builders.ts'
import { fc } from '../fast-check.ts'

const clock = new HolderClock(new FakeRuntime())
const TTL_MS = 30_000
/** What a holder counts on of it: one percent is given away. */
const SPAN_MS = 29_700
const FENCE = 7
const GRANTED: LeaseInfo = {
  ...describeEntry(lease({ ttlMs: TTL_MS }), nowAt(1)),
  ...{ ttlMs: TTL_MS, remainingMs: TTL_MS, renewals: 0, fence: FENCE },
}

function moment(ms: number): Moment {
  return { monotonicMs: ms, bootMs: null, wallMs: ms }
}

function at(ms: number): Instant {
  return { clock, now: moment(ms) }
}

function begin(lease: Partial<LeaseInfo> = {}, autoRenew = true): Holding {
  const info = { ...GRANTED, ...lease }
  const term = { from: moment(0), spanMs: info.ttlMs }
  const granted = { lease: info, fence: FENCE, term, autoRenew, limitsHold: false }
  return beginHolding(granted, at(0)).holding
}

/** The last of several events, each at its time. */
function play(
  start: Holding,
  ...events: readonly (readonly [number, HoldingEvent])[]
): HoldingStep {
  let step: HoldingStep = { holding: start, actions: [] }
  for (const [ms, event] of events) step = stepHolding(step.holding, event, at(ms))
  return step
}

const TIME: HoldingEvent = { kind: 'time' }
const DUE = { kind: 'due', newId: () => 'renewal-1' } as const satisfies HoldingEvent

function renewed(fromMs: number, lease: Partial<LeaseInfo> = {}): HoldingEvent {
  const info = { ...GRANTED, renewals: 1, ...lease }
  return { kind: 'renewed', lease: info, from: moment(fromMs) }
}

function failed(code: ErrorCode): HoldingEvent {
  return { kind: 'renewal_failed', error: new LeaseError(code, 'a fault of the test') }
}

function revoking(endUs: number, remainingMs: number): Partial<LeaseInfo> {
  const by = { by: 'operator', reason: null }
  return { revoking: by, deadline: { domain: 'test', us: endUs }, remainingMs }
}

function namesOf({ actions }: HoldingStep): readonly string[] {
  return actions.map((action) => (action.kind === 'notify' ? action.name : action.kind))
}

const NOT_FOUND: Refusal = { kind: 'not_found', leaseId: id(1) }
const TERMINAL: Refusal = { kind: 'terminal', leaseId: id(1), state: 'released' }
const LIMIT: Refusal = { kind: 'renewal_limit', leaseId: id(1), limit: 'its maxRenewals of 0' }
const SOON: Refusal = { kind: 'does_not_extend', leaseId: id(1), expiresAtMs: 9 }

describe('a holding at its boundary ticks', () => {
  it.each([
    ['just before a third, nothing is due', 6_999, DUE, 'held', []],
    ['from a third less a tenth on, a renewal may go', 7_000, DUE, 'held', ['send_renewal']],
    ['just before doubt, it is held', 19_699, TIME, 'held', []],
    ['with a third left, it is uncertain', 19_700, TIME, 'uncertain', ['uncertain']],
    ['just before its deadline, it is not lost', SPAN_MS - 1, TIME, 'uncertain', ['uncertain']],
    ['at its deadline, it is lost and given back', SPAN_MS, TIME, 'lost', ['lost', 'give_back']],
    [
      'a renewal that is confirmed at the deadline changes nothing',
      SPAN_MS,
      renewed(10),
      'lost',
      [...['lost', 'give_back', 'give_back']],
    ],
  ] as const)('%s', (_name, ms, event, state, actions) => {
    const step = play(begin(), [ms, event])
    expect(step.holding.state).toBe(state)
    expect(namesOf(step)).toEqual(actions)
  })

  it('is never uncertain when it does not renew itself', () => {
    const held = begin({}, false)
    expect(play(held, [SPAN_MS - 1, TIME])).toEqual({ holding: held, actions: [] })
    expect(dueWindow(held, at(0))).toEqual({ dueMs: SPAN_MS, earliestMs: SPAN_MS })
  })
})

describe('a renewal', () => {
  it('extends the term from before it was first sent', () => {
    const { holding } = play(begin(), [10_000, DUE], [12_000, renewed(10_000)])
    expect(leftMs(holding, at(12_000))).toBe(SPAN_MS - 2_000)
  })

  it('of two that were confirmed, counts with the later end, in whatever order they arrive', () => {
    const { holding } = play(begin(), [12_000, renewed(10_000)], [13_000, renewed(5_000)])
    expect(leftMs(holding, at(13_000))).toBe(SPAN_MS - 3_000)
  })

  it('without an answer is sent once more when doubt begins, and not a third time', () => {
    const { holding } = play(begin(), [10_000, DUE])
    expect(dueWindow(holding, at(10_000)).dueMs).toBe(19_700)
    const again = play(holding, [19_700, DUE])
    expect(namesOf(again)).toEqual(['uncertain', 'send_renewal'])
    expect(dueWindow(again.holding, at(19_700)).dueMs).toBe(SPAN_MS)
  })

  it('that the store counts keeps its id and its first send until it has a definite answer', () => {
    const counted = begin({ maxRenewals: 3 })
    const lost = play(counted, [10_000, DUE], [10_500, failed('STORE_OUTCOME_UNKNOWN')])
    const again = play(lost.holding, [11_000, { kind: 'due', newId: () => 'another' }])
    const sent = { requestId: 'renewal-1', firstSent: moment(10_000) }
    expect(again.actions).toEqual([{ kind: 'send_renewal', renewal: sent }])
    const fresh = play(again.holding, [11_500, renewed(10_000, { maxRenewals: 3 })], [
      ...[21_000, { kind: 'due', newId: () => 'another' }],
    ] as const)
    expect(fresh.actions).toMatchObject([{ renewal: { requestId: 'another' } }])
  })

  it('that fails makes it uncertain at once, and the next confirmation held again', () => {
    const doubted = play(begin(), [10_000, DUE], [10_500, failed('STORE_UNAVAILABLE')])
    expect(namesOf(doubted)).toEqual(['uncertain'])
    expect(dueWindow(doubted.holding, at(10_500)).dueMs).toBe(10_600)
    expect(namesOf(play(doubted.holding, [10_700, renewed(10_600)]))).toEqual([
      'recovered',
      'renewed',
    ])
  })

  it.each([
    ['the store does not know it', NOT_FOUND, 'lost', ['lost']],
    ['it has ended', TERMINAL, 'lost', ['lost']],
    ['it is at its limit', LIMIT, 'held', ['look']],
    ['it came too soon', SOON, 'held', []],
  ] as const)('that is refused because %s decides', (_name, refusal, state, actions) => {
    const step = play(begin(), [10_000, DUE], [10_100, { kind: 'renewal_refused', refusal }])
    expect(step.holding.state).toBe(state)
    expect(namesOf(step)).toEqual(actions)
  })

  it('that is confirmed after the loss gives the lease back, unless a lock delay was asked for', () => {
    const lost = play(begin(), [SPAN_MS, TIME])
    expect(namesOf(play(lost.holding, [SPAN_MS + 1, renewed(SPAN_MS - 9)]))).toEqual(['give_back'])
    const delayed = play(begin({ lockDelayMs: 5_000 }), [SPAN_MS, TIME])
    expect(namesOf(delayed)).toEqual(['lost'])
    expect(namesOf(play(delayed.holding, [SPAN_MS + 1, renewed(SPAN_MS - 9)]))).toEqual([])
  })
})

describe('a holder that is asked to finish', () => {
  const asked = play(begin(), [
    ...[
      5_000,
      { kind: 'looked', lease: { ...GRANTED, ...revoking(9, 2_001) }, sent: moment(4_000) },
    ],
  ] as const)

  it('counts on the grace from before it looked, and renews no more', () => {
    expect(namesOf(asked)).toEqual(['revoking'])
    expect(leftMs(asked.holding, at(5_000))).toBe(980)
    expect(namesOf(play(asked.holding, [5_600, DUE]))).toEqual(['uncertain'])
  })

  it('is not given more time by a renewal that was confirmed before', () => {
    const { holding } = play(asked.holding, [5_100, renewed(4_900)])
    expect(leftMs(holding, at(5_100))).toBe(880)
  })

  it('was revoked when the grace is used up: the ledger says so, and nothing is given back', () => {
    const over = play(asked.holding, [5_980, TIME])
    expect(over.holding.loss?.details['reason']).toBe('revoked')
    expect(namesOf(over)).toEqual(['lost'])
  })
})

describe('the end of a holding', () => {
  it('is final: nothing but its own release that was refused changes it', () => {
    const released = play(begin(), [1_000, { kind: 'released' }])
    expect(released.holding.state).toBe('released')
    expect(namesOf(play(released.holding, [2_000, renewed(500)]))).toEqual([])
    const refused = play(released.holding, [2_000, { kind: 'release_refused', refusal: NOT_FOUND }])
    expect(refused.holding.loss?.details['reason']).toBe('not_found')
  })

  it('by a release of what was lost already gives it back, lock delay or not', () => {
    const lost = play(begin({ lockDelayMs: 5_000 }), [SPAN_MS, TIME])
    expect(namesOf(play(lost.holding, [SPAN_MS, { kind: 'released' }]))).toEqual(['give_back'])
  })

  it('is a transfer where the lease is gone while its transfer is under way', () => {
    const gone = play(
      begin(),
      [1_000, { kind: 'transferring', isOpen: true }],
      [2_000, { kind: 'renewal_refused', refusal: TERMINAL }],
    )
    expect(gone.holding.loss?.details['reason']).toBe('transferred')
  })

  it('of an abandoned lease is left to the store', () => {
    const { holding } = play(begin(), [1_000, { kind: 'abandoned' }])
    expect(dueWindow(holding, at(1_000)).dueMs).toBe(SPAN_MS)
    expect(namesOf(play(holding, [SPAN_MS, TIME]))).toEqual(['lost'])
  })
})

describe('what a store describes', () => {
  it('in another order than it happened, leaves the highest fence and its mode', () => {
    const shared = begin({ mode: 'shared' })
    const upgraded = { ...GRANTED, fence: 9, mode: 'exclusive' } as const
    const older = { ...GRANTED, mode: 'shared' } as const
    const sent = moment(900)
    const step = play(shared, [1_000, { kind: 'described', lease: upgraded, sent }])
    expect(namesOf(step)).toEqual(['new_fence'])
    const { holding } = play(step.holding, [1_100, { kind: 'described', lease: older, sent }])
    expect([holding.fence, holding.mode, holding.info.fence]).toEqual([9, 'exclusive', 9])
  })
})

/**
 * One lease in a store whose clock may run one percent faster or slower than the holder's, renewals that arrive late, out
 * of order or not at all, and a holder that reads its clock whenever it likes.
 */
type Act =
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'tick' | 'send' | 'revoke' | 'look' | 'release' | 'fail' }
  | { readonly kind: 'deliver'; readonly index: number }
  | { readonly kind: 'ask_to_finish'; readonly graceMs: number }

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.nat(12_000) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom('tick' as const, 'look' as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('send' as const, 'fail' as const) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('deliver' as const), index: fc.nat(3) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('revoke' as const, 'release' as const) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('ask_to_finish' as const), graceMs: fc.nat(9_000) }),
  },
)

class StoreAndHolder {
  readonly #rate: number
  #ms = 0
  #endUs: number
  #isRevoked = false
  #isAsked = false
  #renewals = 0
  readonly #answers: HoldingEvent[] = []
  holding: Holding
  readonly seen: string[] = []

  constructor(rate: number) {
    this.#rate = rate
    this.#endUs = this.#storeUs + TTL_MS * 1000
    this.holding = begin()
  }

  get #storeUs(): number {
    return this.#ms * this.#rate * 1000
  }

  /** Whether the store would grant the resource to another now, without a revocation that the holder may not know. */
  get isFree(): boolean {
    return !this.#isRevoked && this.#storeUs >= this.#endUs
  }

  #info(): LeaseInfo {
    const leftMs = Math.ceil((this.#endUs - this.#storeUs) / 1000)
    const deadline = { domain: 'test', us: this.#endUs }
    const asked = this.#isAsked ? { by: 'operator', reason: null } : null
    const own = { fence: FENCE, renewals: this.#renewals, deadline, revoking: asked }
    return { ...GRANTED, ...own, remainingMs: Math.max(0, leftMs) }
  }

  #step(event: HoldingEvent): void {
    const before = this.holding
    const step = stepHolding(before, event, at(this.#ms))
    this.holding = step.holding
    if (before.state === 'lost') expect(step.holding.state, 'I6').toBe('lost')
    if (before.state === 'released') {
      expect(['released', 'lost'], 'I6').toContain(step.holding.state)
    }
    for (const action of step.actions) this.#check(action, before)
    this.seen.push(...namesOf(step))
  }

  /** I3: a holder gives back only what it has stopped using; I6: nothing is sent for a lease that is over. */
  #check(action: HoldingAction, before: Holding): void {
    if (action.kind === 'give_back') expect(this.holding.state).toBe('lost')
    if (action.kind !== 'send_renewal') return
    expect(isOverForHolder(before)).toBe(false)
    this.#renew()
  }

  #renew(): void {
    const from = moment(this.#ms)
    if (this.#isRevoked || this.#storeUs >= this.#endUs) {
      this.#answers.push({ kind: 'renewal_refused', refusal: NOT_FOUND })
    } else if (!this.#isAsked) {
      this.#renewals += 1
      this.#endUs = this.#storeUs + TTL_MS * 1000
      this.#answers.push({ kind: 'renewed', lease: this.#info(), from })
    } else this.#answers.push({ kind: 'renewal_refused', refusal: LIMIT })
  }

  play(one: Act): void {
    if (one.kind === 'pass') this.#ms += one.ms
    if (one.kind === 'tick') this.#step(DUE)
    if (one.kind === 'send' && !isOverForHolder(this.holding)) {
      this.#step({ ...DUE, isAsked: true })
      this.#renew()
    }
    if (one.kind === 'fail') this.#step(failed('STORE_OUTCOME_UNKNOWN'))
    if (one.kind === 'deliver') {
      const [answer] = this.#answers.splice(one.index % Math.max(1, this.#answers.length), 1)
      if (answer !== undefined) this.#step(answer)
    }
    if (one.kind === 'look') this.#look()
    if (one.kind === 'release') this.#step({ kind: 'released' })
    if (one.kind === 'revoke') this.#isRevoked = true
    if (one.kind === 'ask_to_finish' && this.#storeUs < this.#endUs) {
      this.#isAsked = true
      this.#endUs = Math.min(this.#endUs, this.#storeUs + one.graceMs * 1000)
    }
    this.#step(TIME)
  }

  #look(): void {
    const isThere = !this.#isRevoked && this.#storeUs < this.#endUs
    const lease = isThere ? this.#info() : null
    this.#step({ kind: 'looked', lease, sent: moment(this.#ms) })
  }
}

describe('whatever arrives, in whatever order', () => {
  const acts = fc.array(act, { maxLength: 40 })
  const rate = fc.constantFrom(0.99, 1, 1.01)

  it('a holder believes in its lease no longer than the store does, and never again after its end', () => {
    fc.assert(
      fc.property(acts, rate, (script, storeRate) => {
        const world = new StoreAndHolder(storeRate)
        // Until it hears of a shorter end, only the fence protects: I4 excepts a revocation, with grace or without.
        let isRevoked = false
        for (const one of script) {
          isRevoked ||= one.kind === 'ask_to_finish'
          world.play(one)
          if (!isOverForHolder(world.holding) && (!isRevoked || one.kind === 'look')) {
            expect(world.isFree, 'I4').toBe(false)
          }
        }
        expect(world.seen.filter((name) => name === 'lost').length).toBeLessThanOrEqual(1)
      }),
      { numRuns: 500 },
    )
  })

  it('a holder whose renewals are answered in time never loses its lease', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(3_000), { maxLength: 60 }), rate, (delays, storeRate) => {
        const world = new StoreAndHolder(storeRate)
        for (const ms of delays) {
          world.play({ kind: 'tick' })
          world.play({ kind: 'pass', ms })
          world.play({ kind: 'deliver', index: 0 })
        }
        expect(world.seen).not.toContain('uncertain')
        expect(world.holding.state).toBe('held')
      }),
    )
  })
})
