/**
 * The core on a store: turns requests into commands, lets the store decide them, and answers questions about what is
 * kept. It has no rules of its own; whatever a lease may do is decided in the core.
 */
import type {
  Derive,
  Release,
  SeveralCommand,
  Spend,
  Upgrade,
  WithdrawUpgrade,
} from '../core/command.ts'
import { compareTickets } from '../core/conflict.ts'
import type { OutcomeOf } from '../core/decide.ts'
import { closedError, isLeaseError, LeaseError } from '../core/errors.ts'
import type { ClaimOutcome, Queued, QueuedAll, ReleaseOutcome, Waiting } from '../core/outcome.ts'
import {
  describeEntry,
  isWaiting,
  type CycleStep,
  type Entry,
  type EntryState,
  type LeaseId,
  type LeaseInfo,
  type Ticket,
} from '../core/lease.ts'
import { INSPECT_LIMIT_MAX, LIST_LIMIT_MAX } from '../core/limits.ts'
import { parseSettingValue, refuseMeaninglessOverride } from '../core/settings.ts'
import type { SettingRow, Settings } from '../core/settings.ts'
import type { Now } from '../core/time.ts'
import { REQUESTS, type RequestOf } from '../protocol/requests.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { sessionDigest } from './session-digest.ts'
import type { EntryQuery, Store } from '../store-port/store.ts'
import { cleanUp, placesToSettle, Sweeper } from './cleanup.ts'
import * as commands from './commands.ts'
import { CommandRunner, type Decided, RefusalCounter, reuseOf } from './commands.ts'
import { DeadlockSearch, findCycles } from './deadlock-search.ts'
import type {
  AcquireAllAnswer,
  AcquireAllRequest,
  AcquireAnswer,
  AcquireRequest,
  AdoptRequest,
  AdvanceAnswer,
  AdvanceRequest,
  Requester,
  ClaimAllRequest,
  ClaimAnswer,
  CleanupResult,
  DeriveRequest,
  DowngradeAnswer,
  HandOffWaiter,
  HistoryEntry,
  HistoryFilter,
  HolderRequest,
  InspectRequest,
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
  RevokeAllRequest,
  RevokeAnswer,
  RevokeRequest,
  SettingChange,
  StoreDescription,
  SpendAnswer,
  SpendRequest,
  TicketRef,
  TransferAnswer,
  TransferRequest,
  TrespassAnswer,
  TrespassRequest,
  UpdateAnswer,
  UpdateRequest,
  Unsubscribe,
  UpgradeAnswer,
  UpgradeRequest,
  WakeSignal,
  WatchFilter,
  WatchLocals,
  WithdrawAnswer,
  WithdrawRequest,
} from './lease-api.ts'
import { LeaseQuestions } from './lease-questions.ts'
import { WaiterQueues } from './waiter-queues.ts'
import { watchLedger } from './watch.ts'

export interface LeaseServiceOptions {
  readonly store: Store
  readonly runtime: Runtime
  /** Whether this process takes part in the background sweep. */
  readonly sweep?: boolean
  /** The service that sweeps the same store in this process: what concerns all its clients is shared with it. */
  readonly sharing?: LeaseService
  /** What closing does to a store that others use as well, instead of closing it. */
  readonly leave?: () => Promise<void>
}

/** Where its calls go while it is open. */
interface ServiceParts {
  readonly store: Store
  readonly runner: CommandRunner
  readonly questions: LeaseQuestions
}

export class LeaseService implements LeaseApi {
  /**
   * Waiters of this process. When one of its clients releases what the first of them waits for, the release carries that
   * waiter's claim: what would have been an offer, a wake-up and a claim is one commit. If it is not the waiter's turn
   * after all, because a ticket of another process is before it, nothing has happened to its own.
   */
  readonly #handOffs: WaiterQueues<HandOffWaiter>
  readonly #parts: ServiceParts
  readonly #runtime: Runtime
  readonly #leave: () => Promise<void>
  readonly #sweeper: Sweeper | null
  readonly #refusals: RefusalCounter
  readonly #deadlocks: DeadlockSearch
  /** Whether others use the search and the counter as well. */
  readonly #isSharing: boolean
  readonly #subscriptions = new Set<Unsubscribe>()
  #isClosed = false

  constructor({ store, runtime, sweep = false, sharing, leave }: LeaseServiceOptions) {
    this.#handOffs = sharing === undefined ? new WaiterQueues(1) : sharing.#handOffs
    this.#runtime = runtime
    this.#leave = leave ?? (() => store.close())
    this.#refusals = sharing === undefined ? new RefusalCounter(store, runtime) : sharing.#refusals
    const runner = new CommandRunner(store, this.#refusals)
    this.#parts = { store, runner, questions: new LeaseQuestions(store) }
    this.#isSharing = sharing !== undefined
    this.#deadlocks =
      sharing === undefined ? new DeadlockSearch({ store, runtime, runner }) : sharing.#deadlocks
    this.#sweeper = sweep ? new Sweeper(this, runtime) : null
  }

  get store(): StoreDescription {
    return this.#parts.store.description
  }

  get #open(): ServiceParts {
    if (this.#isClosed) throw closedError()
    return this.#parts
  }

  async acquire(asked: AcquireRequest, requester?: Requester): Promise<AcquireAnswer> {
    const request = REQUESTS.acquire.read(asked)
    const { outcome, now } = await this.#open.runner.run(
      commands.acquireCommand(request),
      requester,
    )
    if (outcome.kind === 'queued' && mayCloseCycle(request)) {
      this.#deadlocks.lookAround([outcome.leaseId])
    }
    return outcome.kind === 'granted' ? commands.grantedAnswer(outcome, now) : outcome
  }

  async acquireAll(asked: AcquireAllRequest, requester?: Requester): Promise<AcquireAllAnswer> {
    const request = REQUESTS.acquireAll.read(asked)
    const answer = await this.#runSeveral(commands.acquireAllCommand(request), requester)
    if (answer.kind === 'queued_all' && mayCloseCycle(request)) {
      this.#deadlocks.lookAround(answer.leaseIds)
    }
    return answer
  }

  async claimAll(asked: ClaimAllRequest, requester?: Requester): Promise<AcquireAllAnswer> {
    const request = REQUESTS.claimAll.read(asked)
    const answer = await this.#runSeveral(commands.claimAllCommand(request), requester)
    const isImplied = request.tickets.some(
      ({ implied }) => implied !== undefined && implied.length > 0,
    )
    if (answer.kind === 'queued_all' && (isImplied || isYoung(answer))) {
      this.#deadlocks.lookAround(answer.leaseIds)
    }
    return answer
  }

  async #runSeveral(command: SeveralCommand, requester?: Requester): Promise<AcquireAllAnswer> {
    const { outcome, now } = await this.#open.runner.runSeveral(command, requester)
    if (outcome.kind !== 'granted_all') return outcome
    return { ...outcome, leases: outcome.leases.map((lease) => describeEntry(lease, now)) }
  }

  async claim(asked: TicketRef, requester?: Requester): Promise<ClaimAnswer> {
    const ticket = REQUESTS.claim.read(asked)
    const { outcome, now } = await this.#claim(ticket, requester)
    if (outcome.kind === 'granted') return commands.grantedAnswer(outcome, now)
    if (outcome.kind !== 'queued' && outcome.kind !== 'waiting') return outcome
    const isImplied = ticket.implied !== undefined && ticket.implied.length > 0
    if (isImplied || isYoung(outcome)) this.#deadlocks.lookAround([ticket.id])
    return outcome
  }

  /**
   * A notified waiter, and one that only keeps its ticket alive, commit against their own ticket only; where that is not
   * as they expect, they fall back to a full claim.
   */
  async #claim(ticket: TicketRef, requester?: Requester): Promise<Decided<ClaimOutcome | Waiting>> {
    if (ticket.expects === 'offer') {
      const command = commands.takeUpCommand(ticket)
      const { outcome, ...rest } = await this.#open.runner.run(command, requester)
      if (outcome.kind === 'granted') return { outcome, ...rest }
    }
    if (ticket.expects === 'nothing') {
      const command = commands.keepAliveCommand(ticket)
      const { outcome, ...rest } = await this.#open.runner.run(command, requester)
      if (outcome.kind === 'waiting' || outcome.kind === 'dropped') return { outcome, ...rest }
    }
    return this.#open.runner.run(commands.claimCommand(ticket), requester)
  }

  async withdraw(asked: WithdrawRequest, requester?: Requester): Promise<WithdrawAnswer> {
    const command = commands.withdrawCommand(REQUESTS.withdraw.read(asked))
    const { outcome } = await this.#open.runner.run(command, requester)
    return outcome
  }

  async renew(asked: RenewRequest): Promise<RenewAnswer> {
    const request = REQUESTS.renew.read(asked)
    const place = knownPlace(request) ?? (await this.#locate(request))
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    const { outcome, now } = await this.#open.runner.run(commands.renewCommand(request, place))
    if (outcome.kind !== 'renewed') return outcome
    return { kind: 'renewed', lease: describeEntry(outcome.lease, now) }
  }

  async release(asked: ReleaseRequest): Promise<ReleaseAnswer> {
    const request = REQUESTS.release.read(asked)
    const place = knownPlace(request) ?? (await this.#locate(request))
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    const command = commands.releaseCommand(request, place)
    const waiter = this.#handOffs.first(place.resource)
    // One that is asking by itself at this moment is not passed by: none behind it is next.
    const { outcome, now } = await (waiter?.isReady() === true
      ? this.#handOver(command, waiter)
      : this.#open.runner.run(command))
    return commands.releaseAnswer(outcome, now)
  }

  #handOver(command: Release, waiter: HandOffWaiter): Promise<Decided<ReleaseOutcome>> {
    // A service that was closed refuses before the waiter, which may be another client's, relies on the release.
    const { runner } = this.#open
    const settle = waiter.carryClaim()
    const decided = runner.run({ ...command, handOffTo: waiter.id })
    settle(decided.then(({ outcome, now }) => claimedAnswer(outcome, now)))
    return decided
  }

  standBy(waiter: HandOffWaiter): Unsubscribe {
    this.#handOffs.add(waiter)
    return () => this.#handOffs.remove(waiter)
  }

  async releaseAll(asked: ReleaseAllRequest): Promise<readonly ReleaseAnswer[]> {
    const command = commands.releaseAllCommand(REQUESTS.releaseAll.read(asked))
    const { outcome, now } = await this.#open.runner.releaseAll(command)
    if (outcome.kind === 'look_further') return command.members.map(() => outcome)
    return outcome.outcomes.map((one) => commands.releaseAnswer(one, now))
  }

  async revoke(asked: RevokeRequest): Promise<RevokeAnswer> {
    const request = REQUESTS.revoke.read(asked)
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    const { outcome } = await this.#open.runner.run(commands.revokeCommand(request, place))
    return outcome
  }

  async upgrade(asked: UpgradeRequest): Promise<UpgradeAnswer> {
    const request = REQUESTS.upgrade.read(asked)
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    return this.#upgradeAnswer(commands.upgradeCommand(request, place))
  }

  async withdrawUpgrade(asked: HolderRequest): Promise<UpgradeAnswer> {
    const request = REQUESTS.withdrawUpgrade.read(asked)
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    return this.#upgradeAnswer(commands.withdrawUpgradeCommand(request, place))
  }

  async #upgradeAnswer(command: Upgrade | WithdrawUpgrade): Promise<UpgradeAnswer> {
    const { outcome, now } = await this.#open.runner.run(command)
    if (outcome.kind === 'upgrading')
      return (await this.#deadlocks.refusalOf(outcome.leaseId)) ?? outcome
    if (outcome.kind !== 'upgraded') return outcome
    return { ...outcome, lease: describeEntry(outcome.lease, now) }
  }

  async downgrade(asked: HolderRequest): Promise<DowngradeAnswer> {
    const request = REQUESTS.downgrade.read(asked)
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    const { outcome, now } = await this.#open.runner.run(commands.downgradeCommand(request, place))
    if (outcome.kind !== 'downgraded') return outcome
    return { ...outcome, lease: describeEntry(outcome.lease, now) }
  }

  async update(asked: UpdateRequest): Promise<UpdateAnswer> {
    const request = REQUESTS.update.read(asked)
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    const { outcome, now } = await this.#open.runner.run(commands.updateCommand(request, place))
    if (outcome.kind !== 'updated') return outcome
    return { ...outcome, lease: describeEntry(outcome.lease, now) }
  }

  async trespass(asked: TrespassRequest): Promise<TrespassAnswer> {
    const request = REQUESTS.trespass.read(asked)
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    const { outcome, now } = await this.#open.runner.run(commands.trespassCommand(request, place))
    if (outcome.kind !== 'trespassed') return outcome
    return { ...outcome, lease: describeEntry(outcome.lease, now) }
  }

  async transfer(asked: TransferRequest): Promise<TransferAnswer> {
    const request = REQUESTS.transfer.read(asked)
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    const command = commands.transferCommand(request, place)
    const { outcome, now, hadEffect } = await this.#open.runner.run(command)
    if (outcome.kind !== 'transferred') return outcome
    const reuse = hadEffect ? null : await reuseOf(this.#open.store, command)
    if (reuse !== null) return reuse
    const { lease } = outcome
    if (lease !== null) this.#deadlocks.lookAtWaitsOf(lease.holder)
    return { kind: 'transferred', lease: lease === null ? null : describeEntry(lease, now) }
  }

  async adopt(asked: AdoptRequest): Promise<AcquireAnswer> {
    const request = REQUESTS.adopt.read(asked)
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    const { outcome, now } = await this.#open.runner.run(commands.adoptCommand(request, place))
    return outcome.kind === 'granted' ? commands.grantedAnswer(outcome, now) : outcome
  }

  async derive(asked: DeriveRequest): Promise<AcquireAnswer> {
    const request = REQUESTS.derive.read(asked)
    const place = await this.#locate(request.parent)
    if (place === null) return { kind: 'not_found', leaseId: request.parent.id }
    const command = commands.deriveCommand(request, place)
    const { outcome, now } = await this.#runSettled(command, place)
    return outcome.kind === 'granted' ? commands.grantedAnswer(outcome, now) : outcome
  }

  async spend(asked: SpendRequest): Promise<SpendAnswer> {
    const request = REQUESTS.spend.read(asked)
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    const command = commands.spendCommand(request, place)
    const { outcome, now, hadEffect } = await this.#runSettled(command, place)
    if (outcome.kind !== 'spent') return outcome
    const reuse = hadEffect ? null : await reuseOf(this.#open.store, command)
    if (reuse !== null) return reuse
    return { ...outcome, lease: describeEntry(outcome.lease, now) }
  }

  /** A budget may be short only because what children have left of theirs is not settled yet. */
  async #runSettled<C extends Derive | Spend>(
    command: C,
    place: commands.Place,
  ): Promise<Decided<OutcomeOf<C>>> {
    const first = await this.#open.runner.run(command)
    if (!isShort(first.outcome)) return first
    await this.#open.runner.run({ kind: 'settle', ...place })
    return this.#open.runner.run(command)
  }

  async advance(asked: AdvanceRequest): Promise<AdvanceAnswer> {
    const request = REQUESTS.advance.read(asked)
    const place = await this.#locate(request)
    if (place === null) return { kind: 'not_found', leaseId: request.id }
    const command = commands.advanceCommand(request, place)
    const { outcome, now, hadEffect } = await this.#open.runner.run(command)
    if (outcome.kind !== 'advanced') return outcome
    const reuse = hadEffect ? null : await reuseOf(this.#open.store, command)
    if (reuse !== null) return reuse
    return { ...outcome, lease: describeEntry(outcome.lease, now) }
  }

  async revokeAll(asked: RevokeAllRequest): Promise<number> {
    const { holder, ...why } = REQUESTS.revokeAll.read(asked)
    const states: readonly EntryState[] = ['active', 'pending']
    const query = { holder, states, limit: LIST_LIMIT_MAX }
    const tried = new Set<LeaseId>()
    let ended = 0
    try {
      for (;;) {
        const { entries } = await this.#open.store.find({ ...query, deadline: 'running' })
        const fresh = entries.filter((entry) => !tried.has(entry.id))
        if (fresh.length === 0) return ended
        for (const entry of fresh) tried.add(entry.id)
        ended += await this.#revokeEntries(fresh, why)
      }
    } catch (error) {
      throw tried.size === 0 ? error : afterOthers(error)
    }
  }

  async get(request: RequestOf<'get'>): Promise<LeaseInfo | null> {
    return this.#open.questions.get(REQUESTS.get.read(request))
  }

  async list(filter: ListFilter): Promise<LeaseList> {
    return this.#open.questions.list(REQUESTS.list.read(filter))
  }

  async inspect(request: InspectRequest): Promise<Inspection> {
    const { resource, extent = 'exact' } = REQUESTS.inspect.read(request)
    const query = { overlapping: { resource, extent }, limit: INSPECT_LIMIT_MAX } as const
    const { entries, now } = await this.#open.store.find(query)
    const queue = entries.filter((entry) => isWaiting(entry, now)).sort(compareTickets)
    const cycles = await this.#cyclesOf(queue)
    return { ...commands.inspectionOf({ resource, extent }, entries, now), cycles }
  }

  /** Cycles in which one of the first in a queue is caught; they last no longer than until a search breaks them. */
  async #cyclesOf(queue: readonly Ticket[]): Promise<readonly (readonly CycleStep[])[]> {
    const parts = { store: this.#open.store, runtime: this.#runtime }
    const cycles = await findCycles(parts, queue.slice(0, CYCLES_SHOWN_MAX))
    const found = new Map(cycles.map(({ ids, steps }) => [ids.toSorted().join(), steps]))
    return [...found.values()]
  }

  /** What this process has refused and not counted yet is counted first. */
  async history(filter: HistoryFilter): Promise<readonly HistoryEntry[]> {
    const asked = REQUESTS.history.read(filter)
    if (asked.refusals !== false) await this.#refusals.count()
    return this.#open.questions.history(asked)
  }

  watch(asked: WatchFilter, locals: WatchLocals = {}): AsyncIterable<LedgerEntry> {
    const sources = {
      store: () => this.#open.store,
      follow: (listener: () => void) => this.#track(this.#open.store.follow(listener)),
      settle: () => this.#settle(),
      runtime: this.#runtime,
    }
    return watchLedger({ ...sources, ...locals }, REQUESTS.watch.read(asked))
  }

  async cleanup(): Promise<CleanupResult> {
    return cleanUp(this.#open.store, () => this.#settle())
  }

  async settingRows(): Promise<readonly SettingRow[]> {
    return this.#open.questions.settingRows()
  }

  async settings(request: RequestOf<'settings'>): Promise<Settings> {
    return this.#open.questions.settings(REQUESTS.settings.read(request))
  }

  async configure(change: SettingChange): Promise<void> {
    const { key, value, ...target } = REQUESTS.configure.read(change)
    refuseMeaninglessOverride(key, target.scope)
    const text = value === null ? null : String(parseSettingValue(key, value))
    await this.#open.store.configure({ key, value: text, ...target })
  }

  async onWake(
    request: RequestOf<'wakes'>,
    listener: (signal: WakeSignal) => void,
  ): Promise<Unsubscribe> {
    const { session } = REQUESTS.wakes.read(request)
    return this.#track(await this.#open.store.subscribe(sessionDigest(session), listener))
  }

  /** Ends with this service, if not before: the store may go on for others. */
  #track(unsubscribe: Unsubscribe): Unsubscribe {
    const once = (): void => {
      if (this.#subscriptions.delete(once)) unsubscribe()
    }
    this.#subscriptions.add(once)
    if (this.#isClosed) once()
    return once
  }

  /** Waits for what goes on after an answer: searches for cycles and counting, which no caller waits for. */
  async settled(): Promise<void> {
    await Promise.all([this.#deadlocks.idle(), this.#refusals.count()])
  }

  async close(): Promise<void> {
    await endsWithin(this.#runtime, CLOSE_WITHIN_MS, this.#atRest())
    this.#isClosed = true
    for (const unsubscribe of [...this.#subscriptions]) unsubscribe()
    await this.#leave()
  }

  async #atRest(): Promise<void> {
    await this.#sweeper?.stop()
    if (!this.#isSharing) await Promise.all([this.#deadlocks.close(), this.#refusals.close()])
  }

  /** Where a lease is: from the caller if it says so, else from the store. */
  async #locate(ref: LeaseRef): Promise<commands.Place | null> {
    const known = knownPlace(ref)
    if (known !== null) return known
    const { id: leaseId } = ref
    const found = await this.#open.store.find({ ids: [leaseId], limit: 1 })
    const entry = found.entries[0]
    return entry === undefined ? null : { leaseId, resource: entry.resource, extent: entry.extent }
  }

  async #revokeEntries(
    entries: readonly Entry[],
    why: Pick<RevokeRequest, 'by' | 'reason'>,
  ): Promise<number> {
    const answers = await Promise.all(
      entries.map(async (entry) => {
        const { id, resource, extent } = entry
        const answer = await this.revoke({ id, resource, extent, ...why })
        return answer.kind === 'revoked' && entry.kind === 'lease' ? 1 : 0
      }),
    )
    return answers.reduce<number>((sum, one) => sum + one, 0)
  }

  /** Settles one batch of what is over; returns how many leases expired and whether there may be more. */
  async #settle(): Promise<{ readonly expired: number; readonly more: boolean }> {
    const query: EntryQuery = { deadline: 'passed', limit: SETTLE_BATCH }
    const { entries, more } = await this.#open.store.find(query)
    const settled = await Promise.all(
      placesToSettle(entries).map(async ({ id, resource, extent }) => {
        const { outcome } = await this.#open.runner.run({
          kind: 'settle',
          leaseId: id,
          resource,
          extent,
        })
        return outcome.kind === 'settled' ? outcome.expired : 0
      }),
    )
    return { expired: settled.reduce((sum, one) => sum + one, 0), more }
  }
}

/** How long closing waits for what goes on in the background, on which no answer depends. */
const CLOSE_WITHIN_MS = 1_000
const SETTLE_BATCH = 500
const CYCLES_SHOWN_MAX = 4

/** A request that waits under something, or that passes others, may leave a request waiting for ever; another cannot. */
function mayCloseCycle({ under = [], priority = 0 }: AcquireRequest | AcquireAllRequest): boolean {
  return under.length > 0 || priority !== 0
}

/** That nothing happened holds for the one call that failed, and not for those that went along with it. */
function afterOthers(cause: unknown): unknown {
  if (!isLeaseError(cause)) return cause
  const { code, message, details } = cause
  return new LeaseError(code, message, { details, cause, effect: 'unknown' })
}

/** Whether a ticket has not waited for much longer than one keep-alive. */
function isYoung({ waitedMs, keepAliveMs }: Queued | QueuedAll | Waiting): boolean {
  return waitedMs < 2 * keepAliveMs
}

function claimedAnswer(outcome: ReleaseOutcome, now: Now): ClaimAnswer | null {
  const lease = outcome.kind === 'released' ? outcome.claimed : undefined
  return lease === undefined
    ? null
    : commands.grantedAnswer({ kind: 'granted', lease, repeated: false }, now)
}

function knownPlace({ id: leaseId, resource, extent = 'exact' }: LeaseRef): commands.Place | null {
  return resource === undefined ? null : { leaseId, resource, extent }
}

/** A budget that is short may be short only because nothing has settled yet what children have left of theirs. */
function isShort(outcome: OutcomeOf<Derive | Spend>): boolean {
  if (outcome.kind === 'budget_exhausted') return true
  return outcome.kind === 'invalid_derivation' && outcome.shortage !== undefined
}
