/**
 * The life of a command: it is made of a request, decided by a store that goes by the rules of the core, and its outcome becomes
 * an answer.
 *
 *  - Nothing is checked here, because every request was read by its description (`src/protocol`) where it entered the service.
 *    What was left out gets its default.
 *  - A repeated request is distinguished from a reused id, and what was refused is counted.
 */
import { DIMENSIONS } from '../core/budget.ts'
import type {
  Acquire,
  AcquireAll,
  Adopt,
  Advance,
  ClaimAll,
  ClaimOffer,
  Derive,
  Downgrade,
  KeepAlive,
  Release,
  ReleaseAll,
  Renew,
  Revoke,
  Spend,
  TakeUp,
  Transfer,
  Trespass,
  Update,
  Upgrade,
  Wait,
  Withdraw,
  WithdrawUpgrade,
  Command,
  SeveralCommand,
} from '../core/command.ts'
import { blockersOf, compareTickets } from '../core/conflict.ts'
import type { Authority } from '../core/delegation.ts'
import { invalid, isLeaseError } from '../core/errors.ts'
import {
  describeEntry,
  isHeld,
  isWaiting,
  type Claim,
  type Entry,
  type LeaseId,
} from '../core/lease.ts'
import { CLAIM_WINDOW_MS_DEFAULT, DERIVATION_DEPTH_MAX } from '../core/limits.ts'
import type {
  Granted,
  ReleaseOutcome,
  AcquireAllOutcome,
  MissingRead,
  NeedsMoreReads,
  Refusal,
  ReleaseAllOutcome,
} from '../core/outcome.ts'
import { isTree, type Extent, type Reach, type Resource } from '../core/resource.ts'
import { NO_SCOPE, UNLIMITED_SCOPE, type Scope } from '../core/scope.ts'
import type { Now } from '../core/time.ts'
import { mergeViews } from '../core/acquire-all.ts'
import { commitOf } from '../core/commit.ts'
import {
  decide,
  decideSeveral,
  readSetOf,
  readSetsOf,
  viewOf,
  type OutcomeOf,
} from '../core/decide.ts'
import type { LeaseDenied, LeaseEvent, LeaseEventType } from '../core/event.ts'
import type { Decision, ReadSet, RealmView } from '../core/realm.ts'
import { RefusalTable } from '../core/refusal.ts'
import { decideReleaseAll } from '../core/release.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { Requester, Decide, HistoryQuery, Position, Store } from '../store-port/store.ts'
import { sessionDigest } from './session-digest.ts'
import type {
  AcquireAllRequest,
  AcquireAnswer,
  AcquireRequest,
  AdoptRequest,
  AdvanceRequest,
  ClaimAllRequest,
  DeriveRequest,
  HolderRequest,
  Inspection,
  ReleaseAllRequest,
  ReleaseAnswer,
  ReleaseRequest,
  RenewRequest,
  RevokeRequest,
  SpendRequest,
  TicketRef,
  TransferRequest,
  TrespassRequest,
  UpdateRequest,
  UpgradeRequest,
  WithdrawRequest,
} from './lease-api.ts'

/** Where a lease is to be found. */
export interface Place {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
}

export function acquireCommand(request: AcquireRequest): Acquire {
  const { ttlMs, maxRenewals, maxHoldMs, breakGraceMs, slots } = request
  const command: Acquire = {
    kind: 'acquire',
    leaseId: request.id,
    resource: request.resource,
    mode: request.mode ?? (slots === undefined ? 'exclusive' : 'shared'),
    extent: request.extent ?? 'exact',
    slots: slots ?? null,
    holder: request.holder,
    session: sessionDigest(request.session),
    ttlMs: ttlMs ?? null,
    isRenewed: request.isRenewed === true,
    maxRenewals: maxRenewals ?? null,
    maxHoldMs: maxHoldMs ?? null,
    priority: request.priority ?? 0,
    lockDelayMs: request.lockDelayMs ?? 0,
    breakable: request.breakable ?? false,
    breakGraceMs: breakGraceMs ?? null,
    reason: request.reason ?? null,
    metadata: request.metadata ?? null,
    wait: waitOf(request.waitMs),
    claimWindowMs: request.claimWindowMs ?? CLAIM_WINDOW_MS_DEFAULT,
  }
  const { under, sequential, behindOwn, tokenName } = request
  const authority = authorityOf(request)
  const isPlain =
    authority === null && under === undefined && sequential !== true && behindOwn !== true
  if (isPlain && tokenName === undefined) return command
  return {
    ...command,
    ...(authority === null ? {} : { authority }),
    ...(under === undefined ? {} : { under: withoutRepeats(under) }),
    ...(sequential === true ? { sequential } : {}),
    ...(behindOwn === true ? { behindOwn } : {}),
    ...(tokenName === undefined ? {} : { tokenName }),
  }
}

/** A request that names a scope or a budget has no more than that; one that names neither has everything. */
function authorityOf({ scope, budget }: AcquireRequest): Authority | null {
  if (scope === undefined && budget === undefined) return null
  return {
    scope: scope === undefined ? UNLIMITED_SCOPE : wholeScope(scope),
    limits: budget ?? {},
  }
}

/** A set that was left out allows nothing. */
function wholeScope(scope: Partial<Scope> | undefined): Scope {
  return { ...NO_SCOPE, ...scope }
}

/** All members are asked for alike. */
export function acquireAllCommand(request: AcquireAllRequest): AcquireAll {
  const { members, group, ...common } = request
  const commands = members.map((member) => acquireCommand({ ...common, ...member }))
  return { kind: 'acquire_all', group, members: commands }
}

export function claimAllCommand({ tickets }: ClaimAllRequest): ClaimAll {
  return { kind: 'claim_all', members: tickets.map(claimCommand) }
}

function waitOf(waitMs: AcquireRequest['waitMs']): Wait {
  if (waitMs === undefined || waitMs === 'configured') return { kind: 'configured' }
  return waitMs === 0 ? { kind: 'none' } : { kind: 'up_to', waitMs }
}

export function claimCommand(ticket: TicketRef): ClaimOffer {
  return { kind: 'claim', ...ticketPlace(ticket), ...claimHints(ticket) }
}

export function keepAliveCommand(ticket: TicketRef): KeepAlive {
  return { kind: 'keep_alive', ...ticketPlace(ticket), ...claimHints(ticket) }
}

function claimHints({ implied, behindOwn }: TicketRef): Pick<ClaimOffer, 'implied' | 'behindOwn'> {
  return {
    ...(implied === undefined ? {} : { implied: withoutRepeats(implied) }),
    ...(behindOwn === true ? { behindOwn } : {}),
  }
}

function withoutRepeats(leaseIds: readonly LeaseId[]): readonly LeaseId[] {
  return [...new Set(leaseIds)]
}

export function takeUpCommand(ticket: TicketRef): TakeUp {
  return { kind: 'take_up', ...ticketPlace(ticket) }
}

export function withdrawCommand(ticket: WithdrawRequest): Withdraw {
  return { kind: 'withdraw', ...ticketPlace(ticket), why: ticket.why }
}

/** From here on inwards a session is known by its digest alone. */
function ticketPlace(
  ticket: Omit<TicketRef, 'expects' | 'implied' | 'behindOwn'>,
): Place & { readonly holder: string; readonly session: string } {
  return {
    leaseId: ticket.id,
    resource: ticket.resource,
    extent: ticket.extent ?? 'exact',
    holder: ticket.holder,
    session: sessionDigest(ticket.session),
  }
}

export function renewCommand(request: RenewRequest, place: Place): Renew {
  // Not a spread of the place: V8 takes ten times as long for it, and this is done for every renewal.
  return {
    kind: 'renew',
    leaseId: place.leaseId,
    resource: place.resource,
    extent: place.extent,
    holder: request.holder,
    ttlMs: request.ttlMs ?? null,
    requestId: request.requestId ?? null,
  }
}

export function releaseCommand(
  request: Pick<ReleaseRequest, 'holder' | 'session' | 'releaseReason' | 'requestId' | 'note'>,
  place: Place,
): Release {
  const command: { -readonly [Name in keyof Release]: Release[Name] } = {
    kind: 'release',
    leaseId: place.leaseId,
    resource: place.resource,
    extent: place.extent,
    holder: request.holder,
    releaseReason: request.releaseReason ?? 'voluntary',
    requestId: request.requestId ?? null,
  }
  if (request.session !== undefined) command.session = sessionDigest(request.session)
  if (request.note !== undefined) command.note = request.note
  return command
}

export function releaseAllCommand(request: ReleaseAllRequest): ReleaseAll {
  const { members, ...common } = request
  const commands = members.map(({ id: leaseId, resource, extent = 'exact', requestId, note }) => {
    const last = note === undefined ? {} : { note }
    return releaseCommand({ ...common, ...last, requestId }, { leaseId, resource, extent })
  })
  return { kind: 'release_all', members: commands }
}

export function revokeCommand(request: RevokeRequest, place: Place): Revoke {
  return {
    kind: 'revoke',
    ...place,
    by: request.by,
    reason: request.reason ?? null,
    graceMs: request.graceMs ?? 0,
    requestId: request.requestId ?? null,
  }
}

export function upgradeCommand(request: UpgradeRequest, place: Place): Upgrade {
  const { holder, mayWait, under, implied = false, sequential } = request
  return {
    kind: 'upgrade',
    ...place,
    holder,
    mayWait,
    ...(under === undefined ? {} : { under: { leaseIds: withoutRepeats(under), implied } }),
    ...(sequential === true ? { sequential } : {}),
  }
}

export function withdrawUpgradeCommand({ holder }: HolderRequest, place: Place): WithdrawUpgrade {
  return { kind: 'withdraw_upgrade', ...place, holder }
}

export function downgradeCommand(request: HolderRequest, place: Place): Downgrade {
  const { holder, requestId = null } = request
  return { kind: 'downgrade', ...place, holder, requestId }
}

export function updateCommand(request: UpdateRequest, place: Place): Update {
  const { holder, reason = null, metadata = null, requestId = null } = request
  return { kind: 'update', ...place, holder, note: { reason, metadata }, requestId }
}

export function trespassCommand(request: TrespassRequest, place: Place): Trespass {
  const { by, target, reason = null, requestId = null } = request
  return { kind: 'trespass', ...place, by, target, reason, requestId }
}

export function transferCommand(request: TransferRequest, place: Place): Transfer {
  const { holder, to, newId: newLeaseId, requestId = null } = request
  return {
    kind: 'transfer',
    ...place,
    holder,
    to,
    ...(to === null ? {} : { toSession: sessionDigest(to) }),
    newLeaseId,
    requestId,
  }
}

export function advanceCommand(request: AdvanceRequest, place: Place): Advance {
  const { holder, from, count = 1, reason = null, requestId = null } = request
  return { kind: 'advance', ...place, holder, from, count, reason, requestId }
}

export function adoptCommand({ holder, session }: AdoptRequest, place: Place): Adopt {
  return { kind: 'adopt', ...place, holder, session: sessionDigest(session) }
}

/** Without a resource a child has its parent's, shared; with one of its own it has that alone. */
export function deriveCommand(request: DeriveRequest, parent: Place): Derive {
  const { resource = parent.resource, audience, tokenName } = request
  const isOwn = request.resource !== undefined
  const extent = request.extent ?? (isOwn ? 'exact' : parent.extent)
  if (extent === 'subtree' && !isTree(resource)) {
    throw invalid('extent', 'must be exact for a kind that is not a tree', extent)
  }
  return {
    kind: 'derive',
    leaseId: request.id,
    parentId: parent.leaseId,
    resource,
    extent,
    mode: request.mode ?? (isOwn ? 'exclusive' : 'shared'),
    holder: request.holder,
    session: sessionDigest(request.session),
    by: request.by,
    ttlMs: request.ttlMs ?? null,
    scope: wholeScope(request.scope),
    budget: request.budget ?? {},
    ...(audience === undefined ? {} : { audience }),
    ...(tokenName === undefined ? {} : { tokenName }),
    reason: request.reason ?? null,
  }
}

export function spendCommand(request: SpendRequest, place: Place): Spend {
  const { holder, amounts, requestId = null } = request
  return { kind: 'spend', ...place, holder, amounts, requestId }
}

/** A claim that is never made: what blocks it is what would block a new request. */
function probeClaim(resource: Resource): Claim {
  return {
    id: '',
    resource,
    mode: 'exclusive',
    extent: 'exact',
    holder: '',
    session: '',
    ttlMs: 1,
    maxRenewals: -1,
    maxHoldMs: null,
    slots: null,
    lockDelayMs: 0,
    breakable: false,
    reason: null,
    metadata: null,
    createdAtMs: 0,
    recorded: false,
  }
}

export function grantedAnswer(granted: Granted, now: Now): AcquireAnswer {
  const { kind, lease, repeated } = granted
  return { kind, lease: describeEntry(lease, now), repeated }
}

export function releaseAnswer(outcome: ReleaseOutcome, now: Now): ReleaseAnswer {
  if (outcome.kind !== 'released') return outcome
  return { kind: 'released', lease: describeEntry(outcome.lease, now) }
}

export function inspectionOf(
  { resource, extent }: Reach,
  entries: readonly Entry[],
  now: Now,
): Omit<Inspection, 'cycles'> {
  const leases = entries.filter((entry) => isHeld(entry, now)).sort((a, b) => a.fence - b.fence)
  const queue = entries.filter((entry) => isWaiting(entry, now)).sort(compareTickets)
  const probe = { ...probeClaim(resource), extent }
  return {
    resource,
    leases: leases.map((lease) => describeEntry(lease, now)),
    queue: queue.map((ticket) => describeEntry(ticket, now)),
    blockers: blockersOf(probe, [...leases, ...queue, ...lockDelays(entries)], now),
  }
}

function lockDelays(entries: readonly Entry[]): readonly Entry[] {
  return entries.filter((entry) => entry.kind === 'lease' && entry.lockedUntil !== null)
}

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
  run<C extends Command>(command: C, requester?: Requester): Promise<Decided<OutcomeOf<C>>> {
    return this.#runSeeing(command, NOTHING_SEEN, requester).then((decided) => {
      if (!needsMoreReads(decided.outcome)) return this.#counted(decided)
      const look = readMore(decided.outcome, (seen) => this.#runSeeing(command, seen, requester))
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
    requester: Requester | undefined,
  ): Promise<Decided<OutcomeOf<C>>> {
    const decideNow: Decide<Decided<OutcomeOf<C>>> = (views, now) => {
      const view = seeing(viewOf(views), seen)
      const decision = decide(view, command, now)
      const { outcome, validUntilUs, events, refusals } = decision
      const decided = { outcome, now, hadEffect: events.length > 0, refusals }
      return { outcome: decided, commit: commitOf(view, decision), validUntilUs }
    }
    return this.#store.transact(withMore(readSetsOf(command), seen), decideNow, requester)
  }

  async runSeveral(
    command: SeveralCommand,
    requester?: Requester,
  ): Promise<Decided<AcquireAllOutcome>> {
    const decideAll = (views: readonly RealmView[], now: Now): Decision<AcquireAllOutcome> => {
      return decideSeveral(views, command, now)
    }
    return this.#over(command.members, decideAll, requester)
  }

  async releaseAll(command: ReleaseAll): Promise<Decided<ReleaseAllOutcome>> {
    return this.#over(command.members, (views, now) => decideReleaseAll(views, command, now))
  }

  async #over<Outcome extends { readonly kind: string }>(
    members: readonly Command[],
    decide: (views: readonly RealmView[], now: Now) => Decision<Outcome>,
    requester?: Requester,
  ): Promise<Decided<Outcome>> {
    const own = members.map(readSetOf)
    const look = (seen: readonly MissingRead[]): Promise<Decided<Outcome>> => {
      const decideNow: Decide<Decided<Outcome>> = (views, now) => {
        const ofMembers = viewsOfMembers(views, own.length, seen)
        const decision = decide(ofMembers, now)
        const { outcome, validUntilUs, events, refusals } = decision
        const hadEffect = events.length > 0
        const commit = commitOf(mergeViews(ofMembers), decision)
        return { outcome: { outcome, now, hadEffect, refusals }, commit, validUntilUs }
      }
      return this.#store.transact(withMore(own, seen), decideNow, requester)
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

/** Commands whose answer says how much, how far or to whom. */
type CountedCommand = Spend | Advance | Transfer

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

/** Under the id of another request no caller may hear that something was carried out that was not. */
function isEffectOf(event: LeaseEvent, command: CountedCommand): boolean {
  switch (command.kind) {
    case 'spend': {
      if (event.type !== 'lease.accounted' || event.change.kind !== 'spent') return false
      const { amounts } = event.change
      return DIMENSIONS.every((one) => (amounts[one] ?? 0) === (command.amounts[one] ?? 0))
    }
    case 'advance': {
      const to = command.from + command.count
      return event.type === 'lease.advanced' && event.from === command.from && event.to === to
    }
    case 'transfer':
      return event.type === 'lease.transferred' && event.to === command.to
  }
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
