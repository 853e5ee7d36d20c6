/** Lets a store decide commands by the rules of the core. */
import { mergeViews } from '../core/acquire-all.ts'
import type { Command, ReleaseAll, SeveralCommand } from '../core/command.ts'
import { commitOf } from '../core/commit.ts'
import {
  decide,
  decideSeveral,
  footprintOf,
  footprintsOf,
  viewOf,
  type OutcomeOf,
} from '../core/decide.ts'
import type { LeaseId } from '../core/lease.ts'
import { DERIVATION_DEPTH_MAX } from '../core/limits.ts'
import type { AcquireAllOutcome, ReleasedAll } from '../core/outcome.ts'
import type { Decision, Footprint, RealmView } from '../core/realm.ts'
import { decideReleaseAll } from '../core/release.ts'
import type { Now } from '../core/time.ts'
import type { Store } from '../store-port/store.ts'

/** What a command came to, and when. */
export interface Decided<Outcome> {
  readonly outcome: Outcome
  readonly now: Now
}

export class CommandRunner {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /** Decides again with more to see, as often as a decision depends on derived leases that were not read. */
  async run<C extends Command>(command: C): Promise<Decided<OutcomeOf<C>>> {
    let seen: readonly LeaseId[] = []
    for (let round = 0; ; round += 1) {
      const decided = await this.#runSeeing(command, seen)
      const { outcome } = decided
      if (outcome.kind !== 'look_further' || round > DERIVATION_DEPTH_MAX) return decided
      seen = [...new Set([...seen, ...outcome.leaseIds])]
    }
  }

  #runSeeing<C extends Command>(
    command: C,
    seen: readonly LeaseId[],
  ): Promise<Decided<OutcomeOf<C>>> {
    return this.#store.transact(footprintsSeeing(command, seen), (views, now) => {
      const view = viewOf(views)
      const decision = decide(view, command, now)
      const { outcome, validUntilUs } = decision
      const decided = { outcome, now }
      return { outcome: decided, commit: commitOf(view, decision), validUntilUs }
    })
  }

  async runSeveral(command: SeveralCommand): Promise<Decided<AcquireAllOutcome>> {
    return this.#over(command.members.map(footprintOf), (views, now) => {
      return decideSeveral(views, command, now)
    })
  }

  async releaseAll(command: ReleaseAll): Promise<Decided<ReleasedAll>> {
    return this.#over(command.members.map(footprintOf), (views, now) => {
      return decideReleaseAll(views, command, now)
    })
  }

  async #over<Outcome>(
    footprints: readonly Footprint[],
    judge: (views: readonly RealmView[], now: Now) => Decision<Outcome>,
  ): Promise<Decided<Outcome>> {
    return this.#store.transact(footprints, (views, now) => {
      const decision = judge(views, now)
      const { outcome, validUntilUs } = decision
      const commit = commitOf(mergeViews(views), decision)
      return { outcome: { outcome, now }, commit, validUntilUs }
    })
  }
}

function footprintsSeeing(command: Command, seen: readonly LeaseId[]): readonly Footprint[] {
  const own = footprintsOf(command)
  if (seen.length === 0) return own
  const { resource, extent } = command
  const more = seen.map((leaseId) => {
    return { resource, extent, leaseId, requestId: null, depth: 'entry' } as const
  })
  return [...own, ...more]
}
