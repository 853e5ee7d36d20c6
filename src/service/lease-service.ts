/**
 * The core on a store: turns requests into commands, lets the store decide them, and answers questions about what is
 * kept. It has no rules of its own; whatever a lease may do is decided in the core.
 */
import { mergeViews } from '../core/acquire-all.ts'
import type {
  Command,
  Derive,
  SeveralCommand,
  Spend,
  Upgrade,
  WithdrawUpgrade,
} from '../core/command.ts'
import { commitOf } from '../core/commit.ts'
import {
  decide,
  decideSeveral,
  footprintOf,
  footprintsOf,
  viewOf,
  type OutcomeOf,
} from '../core/decide.ts'
import { parseHolder, parseLeaseId } from '../core/input.ts'
import {
  describeEntry,
  isWaiting,
  type CycleStep,
  type Entry,
  type EntryState,
  type Lease,
  type LeaseId,
  type LeaseInfo,
  type Ticket,
} from '../core/lease.ts'
import { DERIVATION_DEPTH_MAX, LIST_LIMIT_MAX } from '../core/limits.ts'
import type { Refusal } from '../core/outcome.ts'
import { decideReleaseAll } from '../core/release.ts'
import type { Extent, Resource } from '../core/resource.ts'
import { parseSettingValue, refuseMeaninglessOverride } from '../core/settings.ts'
import type { SettingKey, SettingRow, Settings } from '../core/settings.ts'
import type { Now } from '../core/time.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { EntryQuery, Store } from '../store-port/store.ts'
import { grantedAnswer, inspectionOf, releaseAnswer, releaseRefOf } from './answers.ts'
import { cleanUp } from './cleanup.ts'
import * as commands from './commands.ts'
import { deriveCommand, isShort, spendCommand } from './delegation-commands.ts'
import { findCycle, findCycleOf, lastToWish, type Cycle } from './deadlock.ts'
import type {
  AcquireAllAnswer,
  AcquireAllRequest,
  AcquireAnswer,
  AcquireRequest,
  AdoptRequest,
  ClaimAnswer,
  CleanupResult,
  DeriveRequest,
  DowngradeAnswer,
  HistoryFilter,
  HolderRequest,
  Inspection,
  LeaseApi,
  LeaseList,
  LeaseRef,
  LedgerEntry,
  ListFilter,
  ReleaseAllRequest,
  ReleaseAnswer,
  ReleaseRequest,
  RenewAnswer,
  RenewRequest,
  RevokeAnswer,
  RevokeRequest,
  SettingTarget,
  StoreDescription,
  SpendAnswer,
  SpendRequest,
  TicketRef,
  TransferAnswer,
  TransferRequest,
  Unsubscribe,
  UpgradeAnswer,
  UpgradeRequest,
  WakeSignal,
  WatchFilter,
  WithdrawAnswer,
} from './lease-api.ts'
import { LeaseQuestions } from './lease-questions.ts'
import { Sweeper } from './sweeper.ts'
import { watchLedger } from './watch.ts'

export interface LeaseServiceOptions {
  readonly store: Store
  readonly runtime: Runtime
  /** Whether this process takes part in the background sweep. */
  readonly sweep?: boolean
}

interface Decided<Outcome> {
  readonly outcome: Outcome
  readonly now: Now
  /** Whether the decision has seen nobody else there. */
  readonly isAlone: boolean
}

export class LeaseService implements LeaseApi {
  readonly #store: Store
  readonly #runtime: Runtime
  readonly #questions: LeaseQuestions
  readonly #sweeper: Sweeper | null

  constructor({ store, runtime, sweep = false }: LeaseServiceOptions) {
    this.#store = store
    this.#runtime = runtime
    this.#questions = new LeaseQuestions(store)
    this.#sweeper = sweep ? new Sweeper(this, runtime) : null
  }

  get store(): StoreDescription {
    return this.#store.description
  }

  async acquire(request: AcquireRequest): Promise<AcquireAnswer> {
    const { outcome, now, isAlone } = await this.#run(commands.acquireCommand(request))
    if (outcome.kind === 'queued') return (await this.#breakCycle([outcome.leaseId])) ?? outcome
    if (outcome.kind !== 'granted') return outcome
    if (!isAlone) await this.#breakCyclesOf(outcome.lease)
    return grantedAnswer(outcome, now)
  }

  async acquireAll(request: AcquireAllRequest): Promise<AcquireAllAnswer> {
    return this.#runSeveral(commands.acquireAllCommand(request))
  }

  async claimAll(tickets: readonly TicketRef[]): Promise<AcquireAllAnswer> {
    return this.#runSeveral(commands.claimAllCommand(tickets))
  }

  async #runSeveral(command: SeveralCommand): Promise<AcquireAllAnswer> {
    const footprints = command.members.map((member) => footprintOf(member))
    const { outcome, now, isAlone } = await this.#store.transact(footprints, (views, at) => {
      const decision = decideSeveral(views, command, at)
      const { validUntilUs } = decision
      const isAlone = decision.entries.size <= command.members.length
      const decided = { outcome: decision.outcome, now: at, isAlone }
      return { outcome: decided, commit: commitOf(mergeViews(views), decision), validUntilUs }
    })
    if (outcome.kind === 'queued_all') return (await this.#breakCycle(outcome.leaseIds)) ?? outcome
    if (outcome.kind !== 'granted_all') return outcome
    const [first] = outcome.leases
    if (first !== undefined && !isAlone) await this.#breakCyclesOf(first)
    return { ...outcome, leases: outcome.leases.map((lease) => describeEntry(lease, now)) }
  }

  /**
   * Refuses the youngest ticket of a circle that one of these tickets or upgrades is part of; says so if it is one of
   * them. A search that fails changes nothing: whoever waits goes on waiting, and its next renewal looks again.
   */
  async #breakCycle(leaseIds: readonly LeaseId[]): Promise<Refusal | null> {
    try {
      const { entries } = await this.#store.find({ ids: leaseIds, limit: leaseIds.length })
      for (const entry of entries) {
        const cycle = await findCycle(this.#store, entry)
        if (cycle === null) continue
        const refused = await this.#refuse(cycle, entry)
        const leaseId = refused.find((id) => leaseIds.includes(id))
        if (leaseId !== undefined) return { kind: 'deadlock', leaseId, cycle: cycle.steps }
      }
    } catch {
      return null
    }
    return null
  }

  /**
   * A circle may also be closed by somebody who gets something while it waits for something else: by a transfer, or past
   * a ticket that comes after it. Then nobody has filed anything, and whoever got it looks.
   */
  async #breakCyclesOf({ session }: Lease): Promise<void> {
    try {
      const query = { session, states: ['pending'], limit: 1 } as const
      const [waiting] = (await this.#store.find(query)).entries
      const cycle = waiting === undefined ? null : await findCycleOf(this.#store, waiting)
      if (cycle !== null && waiting !== undefined) await this.#refuse(cycle, waiting)
    } catch {
      // The next sign of life of whoever waits looks again.
    }
  }

  /**
   * The ids of those that were refused: a ticket, with all that can only be served together with it. Where all in the
   * circle wish to be upgraded it is the last to wish, who gives up by itself when it looks: if everybody took back its
   * own wish, two who wish in the same moment would both be refused.
   */
  async #refuse(cycle: Cycle, closer: Entry): Promise<readonly LeaseId[]> {
    const { youngest } = cycle
    if (youngest === null) {
      const { id: leaseId, resource, extent, holder } = closer
      if ((await lastToWish(this.#store, cycle.ids)) !== leaseId) return []
      await this.#run({ kind: 'withdraw_upgrade', leaseId, resource, extent, holder })
      return [leaseId]
    }
    const together = youngest.group === null ? [youngest] : await this.#groupOf(youngest)
    for (const { id: leaseId, resource, extent } of together) {
      const place = { leaseId, resource, extent }
      await this.#run({ kind: 'refuse_deadlock', ...place, cycle: cycle.steps })
    }
    return together.map(({ id }) => id)
  }

  async #groupOf({ session, group }: Ticket): Promise<readonly Entry[]> {
    const query = { session, states: ['pending'], limit: LIST_LIMIT_MAX } as const
    const { entries } = await this.#store.find(query)
    return entries.filter((entry) => entry.kind === 'ticket' && entry.group === group)
  }

  async claim(ticket: TicketRef): Promise<ClaimAnswer> {
    const { outcome, now } = await this.#run(commands.claimCommand(ticket))
    if (outcome.kind === 'queued') return (await this.#breakCycle([outcome.leaseId])) ?? outcome
    if (outcome.kind !== 'granted') return outcome
    if (outcome.lease.id !== ticket.leaseId) await this.#breakCyclesOf(outcome.lease)
    return grantedAnswer(outcome, now)
  }

  async withdraw(
    ticket: TicketRef & { readonly why: 'timed_out' | 'aborted' },
  ): Promise<WithdrawAnswer> {
    const { outcome } = await this.#run(commands.withdrawCommand(ticket))
    return outcome
  }

  async renew(request: RenewRequest): Promise<RenewAnswer> {
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.leaseId }
    const { outcome, now } = await this.#run(commands.renewCommand(request, place))
    if (outcome.kind !== 'renewed') return outcome
    return { kind: 'renewed', lease: describeEntry(outcome.lease, now) }
  }

  async release(request: ReleaseRequest): Promise<ReleaseAnswer> {
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.leaseId }
    const { outcome, now } = await this.#run(commands.releaseCommand(request, place))
    return releaseAnswer(outcome, now)
  }

  async releaseAll(request: ReleaseAllRequest): Promise<readonly ReleaseAnswer[]> {
    const command = commands.releaseAllCommand(request)
    const footprints = command.members.map((member) => footprintOf(member))
    const { outcome, now } = await this.#store.transact(footprints, (views, at) => {
      const decision = decideReleaseAll(views, command, at)
      const decided = { outcome: decision.outcome, now: at }
      const { validUntilUs } = decision
      return { outcome: decided, commit: commitOf(mergeViews(views), decision), validUntilUs }
    })
    return Promise.all(
      outcome.outcomes.map(async (one, index) => {
        const member = command.members[index]
        if (one.kind !== 'look_further' || member === undefined) return releaseAnswer(one, now)
        return this.release(releaseRefOf(member))
      }),
    )
  }

  async revoke(request: RevokeRequest): Promise<RevokeAnswer> {
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.leaseId }
    const { outcome } = await this.#run(commands.revokeCommand(request, place))
    return outcome
  }

  async upgrade(request: UpgradeRequest): Promise<UpgradeAnswer> {
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.leaseId }
    return this.#upgradeAnswer(commands.upgradeCommand(request, place))
  }

  async withdrawUpgrade(request: HolderRequest): Promise<UpgradeAnswer> {
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.leaseId }
    return this.#upgradeAnswer(commands.withdrawUpgradeCommand(request, place))
  }

  async #upgradeAnswer(command: Upgrade | WithdrawUpgrade): Promise<UpgradeAnswer> {
    const { outcome, now } = await this.#run(command)
    if (outcome.kind === 'upgrading') return (await this.#breakCycle([outcome.leaseId])) ?? outcome
    if (outcome.kind !== 'upgraded') return outcome
    return { ...outcome, lease: describeEntry(outcome.lease, now) }
  }

  async downgrade(request: HolderRequest): Promise<DowngradeAnswer> {
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.leaseId }
    const { outcome, now } = await this.#run(commands.downgradeCommand(request, place))
    if (outcome.kind !== 'downgraded') return outcome
    return { ...outcome, lease: describeEntry(outcome.lease, now) }
  }

  async transfer(request: TransferRequest): Promise<TransferAnswer> {
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.leaseId }
    const { outcome, now } = await this.#run(commands.transferCommand(request, place))
    if (outcome.kind !== 'transferred') return outcome
    const { lease } = outcome
    if (lease !== null) await this.#breakCyclesOf(lease)
    return { kind: 'transferred', lease: lease === null ? null : describeEntry(lease, now) }
  }

  async adopt(request: AdoptRequest): Promise<AcquireAnswer> {
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.leaseId }
    const { outcome, now } = await this.#run(commands.adoptCommand(request, place))
    if (outcome.kind !== 'granted') return outcome
    await this.#breakCyclesOf(outcome.lease)
    return grantedAnswer(outcome, now)
  }

  async derive(request: DeriveRequest): Promise<AcquireAnswer> {
    const place = await this.#locate(request.parent)
    if (place === null) return { kind: 'not_found', leaseId: request.parent.leaseId }
    const command = deriveCommand(request, place)
    const { outcome, now } = await this.#runSettled(command, place)
    return outcome.kind === 'granted' ? grantedAnswer(outcome, now) : outcome
  }

  async spend(request: SpendRequest): Promise<SpendAnswer> {
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.leaseId }
    const { outcome, now } = await this.#runSettled(spendCommand(request, place), place)
    return outcome.kind === 'spent'
      ? { ...outcome, lease: describeEntry(outcome.lease, now) }
      : outcome
  }

  /** A budget may be short only because nobody has settled yet what children have left of theirs. */
  async #runSettled<C extends Derive | Spend>(
    command: C,
    place: commands.Place,
  ): Promise<Decided<OutcomeOf<C>>> {
    const first = await this.#run(command)
    if (!isShort(first.outcome)) return first
    await this.#run({ kind: 'settle', ...place })
    return this.#run(command)
  }

  async revokeAll(holder: string, by: string, reason?: string): Promise<number> {
    const states: readonly EntryState[] = ['active', 'pending']
    const query = { holder: parseHolder(holder), states, limit: LIST_LIMIT_MAX }
    const tried = new Set<LeaseId>()
    let ended = 0
    for (;;) {
      const { entries } = await this.#store.find({ ...query, deadline: 'running' })
      const fresh = entries.filter((entry) => !tried.has(entry.id))
      if (fresh.length === 0) return ended
      for (const entry of fresh) tried.add(entry.id)
      ended += await this.#revokeEntries(fresh, by, reason)
    }
  }

  async get(leaseId: LeaseId): Promise<LeaseInfo | null> {
    return this.#questions.get(leaseId)
  }

  async list(filter: ListFilter): Promise<LeaseList> {
    return this.#questions.list(filter)
  }

  async inspect(resource: Resource, extent: Extent = 'exact'): Promise<Inspection> {
    const query = { overlapping: { resource, extent }, limit: LIST_LIMIT_MAX } as const
    const { entries, now } = await this.#store.find(query)
    const cycles = await this.#cyclesOf(entries.filter((entry) => isWaiting(entry, now)))
    return { ...inspectionOf({ resource, extent }, entries, now), cycles }
  }

  /** Circles in which one of the first in a queue is caught; they last no longer than until somebody breaks them. */
  async #cyclesOf(queue: readonly Ticket[]): Promise<readonly (readonly CycleStep[])[]> {
    const found = new Map<string, readonly CycleStep[]>()
    for (const ticket of queue.slice(0, CYCLES_SHOWN_MAX)) {
      const cycle = await findCycle(this.#store, ticket)
      if (cycle !== null) found.set(cycle.ids.toSorted().join(), cycle.steps)
    }
    return [...found.values()]
  }

  async history(filter: HistoryFilter): Promise<readonly LedgerEntry[]> {
    return this.#questions.history(filter)
  }

  watch(filter: WatchFilter): AsyncIterable<LedgerEntry> {
    return watchLedger(
      { store: this.#store, runtime: this.#runtime, settle: () => this.#settle() },
      filter,
    )
  }

  async cleanup(): Promise<CleanupResult> {
    return cleanUp(this.#store, () => this.#settle())
  }

  async settingRows(): Promise<readonly SettingRow[]> {
    return this.#questions.settingRows()
  }

  async settings(resource: Resource | null): Promise<Settings> {
    return this.#questions.settings(resource)
  }

  async configure(key: SettingKey, value: string | null, target: SettingTarget): Promise<void> {
    refuseMeaninglessOverride(key, target.scope)
    const text = value === null ? null : String(parseSettingValue(key, value))
    await this.#store.configure({ key, value: text, ...target })
  }

  async onWake(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    return this.#store.subscribe(session, listener)
  }

  async close(): Promise<void> {
    await this.#sweeper?.stop()
    await this.#store.close()
  }

  /** Decides again with more to see, as often as a decision depends on derived leases that were not read. */
  async #run<C extends Command>(command: C): Promise<Decided<OutcomeOf<C>>> {
    let seen: readonly LeaseId[] = []
    for (let round = 0; ; round += 1) {
      const decided = await this.#runSeeing(command, seen)
      const { outcome } = decided
      if (outcome.kind !== 'look_further' || round > DERIVATION_DEPTH_MAX) return decided
      seen = [...new Set([...seen, ...outcome.leaseIds])]
    }
  }

  async #runSeeing<C extends Command>(
    command: C,
    seen: readonly LeaseId[],
  ): Promise<Decided<OutcomeOf<C>>> {
    const { resource, extent } = command
    const more = seen.map((leaseId) => {
      return { resource, extent, leaseId, requestId: null, depth: 'entry' } as const
    })
    return this.#store.transact([...footprintsOf(command), ...more], (views, now) => {
      const view = viewOf(views)
      const decision = decide(view, command, now)
      const { outcome, validUntilUs } = decision
      const decided = { outcome, now, isAlone: decision.entries.size <= 1 }
      return { outcome: decided, commit: commitOf(view, decision), validUntilUs }
    })
  }

  /** Where a lease is: from whoever knows it, else from the store. */
  async #locate(ref: LeaseRef): Promise<commands.Place | null> {
    const leaseId = parseLeaseId(ref.leaseId)
    if (ref.resource !== undefined) {
      return { leaseId, resource: ref.resource, extent: ref.extent ?? 'exact' }
    }
    const found = await this.#store.find({ ids: [leaseId], limit: 1 })
    const entry = found.entries[0]
    return entry === undefined ? null : { leaseId, resource: entry.resource, extent: entry.extent }
  }

  async #revokeEntries(entries: readonly Entry[], by: string, reason?: string): Promise<number> {
    const answers = await Promise.all(
      entries.map(async (entry) => {
        const { id: leaseId, resource, extent } = entry
        const request = {
          leaseId,
          resource,
          extent,
          by,
          ...(reason === undefined ? {} : { reason }),
        }
        const answer = await this.revoke(request)
        return answer.kind === 'revoked' && entry.kind === 'lease' ? 1 : 0
      }),
    )
    return answers.reduce<number>((sum, one) => sum + one, 0)
  }

  /** Settles one batch of what is over; tells how many leases expired and whether there may be more. */
  async #settle(): Promise<{ readonly expired: number; readonly more: boolean }> {
    const query: EntryQuery = { deadline: 'passed', limit: SETTLE_BATCH }
    const { entries, more } = await this.#store.find(query)
    const places = new Map(entries.map((entry) => [entry.resource, entry]))
    const settled = await Promise.all(
      [...places.values()].map(async ({ id, resource, extent }) => {
        const { outcome } = await this.#run({ kind: 'settle', leaseId: id, resource, extent })
        return outcome.expired
      }),
    )
    return { expired: settled.reduce((sum, one) => sum + one, 0), more }
  }
}

const SETTLE_BATCH = 500
const CYCLES_SHOWN_MAX = 4
