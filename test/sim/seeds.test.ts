/**
 * A hundred worlds and some, always the same ones. No promise may be broken in any of them, and together they must have
 * seen every fault and every outcome: a simulation in which nothing happens proves nothing. `npm run proof` plays a
 * thousand more.
 */
import { describe, expect, it } from 'vitest'
import { canHappen, FAULT_KINDS } from '../../sim/log.ts'
import { failureLines, Tally } from '../../sim/report.ts'
import { runSeed } from '../../sim/run-seed.ts'
import { SHAPES } from '../../sim/shapes.ts'

const SEEDS = 120
const SEEDS_PER_TEST = 10

/** What must have occurred: answers of the service, ends of calls, and what holders and resources saw. */
const OUTCOMES = [
  ...['acquire: granted', 'acquire: queued', 'acquire: held', 'acquire: repeated'],
  ...['acquire: expired', 'acquire: terminal'],
  ...['claim: granted', 'claim: queued', 'claim: dropped', 'claim: terminal', 'claim: repeated'],
  ...['withdraw: withdrawn', 'renew: renewed', 'renew: renewal_limit', 'renew: does_not_extend'],
  ...['renew: expired', 'renew: terminal', 'release: released', 'release: expired'],
  ...['release: terminal', 'revoke: revoked', 'revoke: expired', 'revoke: terminal'],
  ...['acquire: WAIT_TIMEOUT', 'acquire: ABORTED', 'acquire: RESOURCE_HELD'],
  ...['acquire: LEASE_TERMINAL', 'acquire: LEASE_EXPIRED', 'acquire: STORE_OUTCOME_UNKNOWN'],
  ...['acquire: STORE_UNAVAILABLE', 'acquire: STORE_CONFLICT', 'try_acquire: granted'],
  ...['try_acquire: held', 'with_lease: done', 'with_lease: LEASE_LOST', 'renew: RENEWAL_LIMIT'],
  ...['renew: RENEWAL_DOES_NOT_EXTEND', 'renew: LEASE_LOST', 'release: LEASE_LOST'],
  ...['release: LEASE_EXPIRED', 'release: STORE_OUTCOME_UNKNOWN', 'revoke: done'],
  ...['revoke: LEASE_TERMINAL', 'release_all: done', 'is_held: done', 'cleanup: done'],
  ...['close: done', 'signal: LEASE_LOST', 'handle: renewed', 'handle: uncertain'],
  ...['handle: recovered', 'write: accepted', 'write: refused by its fence'],
  ...['lease.issued', 'lease.renewed', 'lease.released', 'lease.expired', 'lease.revoked'],
  ...['lease.unlocked', 'lease.queued', 'lease.offered', 'lease.failed', 'lease.denied'],
  // A request is filed before anybody looks for cycles, so its first answer never tells of one.
  ...['acquire: DEADLOCK', 'claim: deadlock', 'claim: waiting', 'acquire: held by its own'],
  ...['acquire_all: granted_all', 'acquire_all: queued_all', 'acquire_all: held'],
  ...[
    'claim_all: deadlock',
    'claim_all: granted_all',
    'claim_all: queued_all',
    'claim_all: dropped',
  ],
  ...['acquire_all: granted', 'acquire_all: WAIT_TIMEOUT', 'acquire_all: ABORTED'],
  ...['acquire_all: RESOURCE_HELD', 'acquire_all: DEADLOCK', 'upgrade: upgraded'],
  ...['upgrade: upgrading', 'upgrade: deadlock', 'upgrade: done', 'upgrade: WAIT_TIMEOUT'],
  ...['upgrade: DEADLOCK', 'upgrade: LEASE_LOST', 'downgrade: downgraded', 'downgrade: done'],
  ...['transfer: transferred', 'transfer: nobody_waiting', 'transfer: done'],
  ...['transfer: WAIT_TIMEOUT', 'adopt: granted', 'adopt: expired', 'adopt: LEASE_EXPIRED'],
  ...['handle: revoking', 'lease.revoking', 'lease.upgrading', 'lease.upgraded'],
  ...['lease.downgraded', 'lease.transferred', 'lease.adopted', 'lease.accounted'],
  ...['derive: granted', 'derive: repeated', 'derive: invalid_derivation', 'derive: held'],
  ...['derive: expired', 'derive: INVALID_DERIVATION', 'derive: RESOURCE_HELD'],
  ...['derive: LEASE_LOST', 'spend: spent', 'spend: budget_exhausted', 'spend: expired'],
  ...['spend: done', 'spend: BUDGET_EXHAUSTED', 'spend: LEASE_LOST'],
]

const tally = new Tally()

describe('every promise is kept', () => {
  for (let first = 1; first <= SEEDS; first += SEEDS_PER_TEST) {
    const last = first + SEEDS_PER_TEST - 1
    it(`in the worlds of seeds ${first} to ${last}`, async () => {
      const failures: string[] = []
      for (let seed = first; seed <= last; seed += 1) {
        const report = await runSeed(seed)
        tally.add(report)
        failures.push(...failureLines(report))
      }
      expect(failures).toEqual([])
    })
  }

  it('although every fault was injected', () => {
    const possible = FAULT_KINDS.filter((kind) => canHappen(kind, 'memory'))
    expect(possible.filter((kind) => !tally.faults.has(kind))).toEqual([])
  })

  it('in worlds of every shape that makes them hard to keep', () => {
    expect(SHAPES.filter((shape) => !tally.outcomes.has(shape))).toEqual([])
  })

  it('and every outcome occurred', () => {
    expect(OUTCOMES.filter((outcome) => !tally.outcomes.has(outcome))).toEqual([])
  })
})
