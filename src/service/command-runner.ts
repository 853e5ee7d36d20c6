/**
 * Lets a store decide commands by the rules of the core, distinguishes a repeated request from a reused id, and counts
 * what was refused.
 */
import { mergeViews } from '../core/acquire-all.ts'
import type { Command, ReleaseAll, SeveralCommand } from '../core/command.ts'
import { commitOf } from '../core/commit.ts'
import {
  decide,
  decideSeveral,
  type OutcomeOf,
  readSetOf,
  readSetsOf,
  viewOf,
} from '../core/decide.ts'
import { isLeaseError } from '../core/errors.ts'
import type { LeaseDenied, LeaseEvent, LeaseEventType } from '../core/event.ts'
import type { LeaseId } from '../core/lease.ts'
import { DERIVATION_DEPTH_MAX } from '../core/limits.ts'
import type {
  AcquireAllOutcome,
  MissingRead,
  NeedsMoreReads,
  Refusal,
  ReleaseAllOutcome,
} from '../core/outcome.ts'
import type { Decision, ReadSet, RealmView } from '../core/realm.ts'
import { RefusalTable } from '../core/refusal.ts'
import { decideReleaseAll } from '../core/release.ts'
import { type CountedCommand, isEffectOf } from '../core/same-request.ts'
import type { Now } from '../core/time.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { HistoryQuery, Position, Store } from '../store-port/store.ts'

/** What a command came to, and when. */
export interface Decided<Outcome> {
  readonly outcome: Outcome
  readonly now: Now
  /** Whether anything happened: a repeated request, and one that is refused, has no effect of its own. */
  readonly hadEffect: boolean
  /** What is to be counted beside the ledger. */
  readonly refusals: readonly LeaseDenied[]
}

export class CommandRunner {
  readonly #store: Store
  readonly #refusals: RefusalCounter

  constructor(store: Store, refusals: RefusalCounter) {
    this.#store = store
    this.#refusals = refusals
  }

  /** Not an asynchronous function: what each one more costs every command, only a few have a use for. */
  run<C extends Command>(command: C): Promise<Decided<OutcomeOf<C>>> {
    return this.#runSeeing(command, NOTHING_SEEN).then((decided) => {
      if (!needsMoreReads(decided.outcome)) return this.#counted(decided)
      const look = readMore(decided.outcome, (seen) => this.#runSeeing(command, seen))
      return look.then((further) => this.#counted(further))
    })
  }

  #counted<Outcome>(decided: Decided<Outcome>): Decided<Outcome> {
    this.#refusals.note(decided.refusals)
    return decided
  }

  #runSeeing<C extends Command>(
    command: C,
    seen: readonly MissingRead[],
  ): Promise<Decided<OutcomeOf<C>>> {
    return this.#store.transact(withMore(readSetsOf(command), seen), (views, now) => {
      const view = seeing(viewOf(views), seen)
      const decision = decide(view, command, now)
      const { outcome, validUntilUs, events, refusals } = decision
      const decided = { outcome, now, hadEffect: events.length > 0, refusals }
      return { outcome: decided, commit: commitOf(view, decision), validUntilUs }
    })
  }

  async runSeveral(command: SeveralCommand): Promise<Decided<AcquireAllOutcome>> {
    return this.#over(command.members, (views, now) => decideSeveral(views, command, now))
  }

  async releaseAll(command: ReleaseAll): Promise<Decided<ReleaseAllOutcome>> {
    return this.#over(command.members, (views, now) => decideReleaseAll(views, command, now))
  }

  async #over<Outcome extends { readonly kind: string }>(
    members: readonly Command[],
    decide: (views: readonly RealmView[], now: Now) => Decision<Outcome>,
  ): Promise<Decided<Outcome>> {
    const own = members.map(readSetOf)
    const look = (seen: readonly MissingRead[]): Promise<Decided<Outcome>> => {
      return this.#store.transact(withMore(own, seen), (views, now) => {
        const ofMembers = viewsOfMembers(views, own.length, seen)
        const decision = decide(ofMembers, now)
        const { outcome, validUntilUs, events, refusals } = decision
        const hadEffect = events.length > 0
        const commit = commitOf(mergeViews(ofMembers), decision)
        return { outcome: { outcome, now, hadEffect, refusals }, commit, validUntilUs }
      })
    }
    const decided = await look(NOTHING_SEEN)
    const last = needsMoreReads(decided.outcome) ? await readMore(decided.outcome, look) : decided
    return this.#counted(last)
  }
}

const NOTHING_SEEN: readonly MissingRead[] = []

/** Decides again with more to see, as often as a decision depends on derived leases that were not read. */
async function readMore<Outcome extends { readonly kind: string }>(
  first: NeedsMoreReads,
  look: (seen: readonly MissingRead[]) => Promise<Decided<Outcome>>,
): Promise<Decided<Outcome>> {
  const seen = new Map<LeaseId, MissingRead>()
  let unseen = first.unseen
  for (let round = 1; ; round += 1) {
    for (const one of unseen) seen.set(one.leaseId, one)
    const decided = await look([...seen.values()])
    const { outcome } = decided
    if (!needsMoreReads(outcome) || round > DERIVATION_DEPTH_MAX) return decided
    unseen = outcome.unseen
  }
}

function needsMoreReads(outcome: { readonly kind: string }): outcome is NeedsMoreReads {
  return outcome.kind === 'look_further'
}

function withMore(own: readonly ReadSet[], seen: readonly MissingRead[]): readonly ReadSet[] {
  if (seen.length === 0) return own
  const more = seen.map(({ leaseId, resource }): ReadSet => {
    return { resource, extent: 'exact', leaseId, requestId: null, depth: 'entry' }
  })
  return [...own, ...more]
}

/** What was read beyond the members is shown with the first of them, whose settings and fences stay its own. */
function viewsOfMembers(
  views: readonly RealmView[],
  count: number,
  seen: readonly MissingRead[],
): readonly RealmView[] {
  const [first, ...others] = views.slice(0, count)
  if (first === undefined || views.length === count) return views
  return [seeing(viewOf([first, ...views.slice(count)]), seen), ...others]
}

/** Whatever was looked for and is not there is gone, and nothing has to wait for it. */
function seeing(view: RealmView, seen: readonly MissingRead[]): RealmView {
  if (seen.length === 0) return view
  const absent = seen.filter(({ leaseId }) => !view.entries.has(leaseId))
  return { ...view, absent: new Set(absent.map(({ leaseId }) => leaseId)) }
}

const EFFECTS: Readonly<Record<CountedCommand['kind'], LeaseEventType>> = {
  spend: 'lease.accounted',
  advance: 'lease.advanced',
  transfer: 'lease.transferred',
}

const PAGE = 1_000

/**
 * Refuses a command that was answered without any effect of its own, as a repeat is, but asks for something else than
 * the first under its id did; null for a true repeat. Where no history is kept, there is nothing to compare it with, and
 * the id alone decides.
 */
export async function reuseOf(store: Store, command: CountedCommand): Promise<Refusal | null> {
  const event = await effectOf(store, command)
  if (event === null || isEffectOf(event, command)) return null
  return { kind: 'request_reused', leaseId: command.leaseId }
}

/** The newest first: what is repeated was most likely asked a moment ago. */
async function effectOf(
  store: Store,
  { kind, leaseId, requestId }: CountedCommand,
): Promise<LeaseEvent | null> {
  const query: HistoryQuery = { leaseId, types: [EFFECTS[kind]], newestFirst: true, limit: PAGE }
  let after: Position | undefined
  for (;;) {
    const page = await store.history(after === undefined ? query : { ...query, after })
    const found = page.find(({ event }) => event.requestId === requestId)
    if (found !== undefined) return found.event
    if (page.length < PAGE) return null
    after = page.at(-1)?.position
  }
}

const COUNT_EVERY_MS = 1_000

/**
 * Counts refusals in the store, beside its ledger (core/refusal.ts). No request waits for it: a refusal is answered first. The first is
 * counted at once, those of the next second in one call. A process that is killed meanwhile takes its last second along.
 *
 * If that fails it is reported, and tried again unless the store may have counted already.
 */
export class RefusalCounter {
  readonly #store: Store
  readonly #runtime: Runtime
  readonly #fault: RepeatedFault
  #waiting = new RefusalTable()
  #timer: Timer | null = null
  #counting: Promise<void> = Promise.resolve()
  #notBeforeMs = -Infinity
  #closed = false

  constructor(store: Store, runtime: Runtime) {
    this.#store = store
    this.#runtime = runtime
    this.#fault = new RepeatedFault('service/refusals', runtime)
  }

  note(refusals: readonly LeaseDenied[]): void {
    if (refusals.length === 0) return
    this.#waiting.add(refusals.map((event) => ({ event, count: 1 })))
    this.#schedule()
  }

  /** Ends when the store has been asked to count all that was noted so far. */
  count(): Promise<void> {
    this.#counting = this.#counting.then(() => this.#countWaiting())
    return this.#counting
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.count()
  }

  #schedule(): void {
    if (this.#timer !== null || this.#closed) return
    const nowMs = this.#runtime.monotonicMs()
    const waitMs = this.#notBeforeMs - nowMs
    if (waitMs <= 0) {
      this.#notBeforeMs = nowMs + COUNT_EVERY_MS
      return void this.count()
    }
    this.#timer = this.#runtime.setTimer(waitMs, () => void this.count(), { keepAlive: false })
  }

  async #countWaiting(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    if (this.#waiting.isEmpty) return
    this.#notBeforeMs = this.#runtime.monotonicMs() + COUNT_EVERY_MS
    const refusals = this.#waiting.inOrder()
    this.#waiting = new RefusalTable()
    try {
      await this.#store.countRefusals(refusals)
      this.#fault.succeeded()
    } catch (error) {
      this.#fault.failed(error)
      if (!isLeaseError(error) || error.effect !== 'none') return
      this.#waiting.add(refusals)
      this.#schedule()
    }
  }
}
