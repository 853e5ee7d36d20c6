/**
 * The one function that knows what leases do: a view of the realm, a command and the time go in, an outcome and the
 * events that make it true come out. Pure; it may be called any number of times for one command.
 */
import { decideAcquireAll } from './acquire-all.ts'
import { decideAcquire } from './acquire.ts'
import { decideAdopt } from './adopt.ts'
import { decideAdvance } from './advance.ts'
import { decideClaim, decideKeepAlive, decideTakeUp } from './claim.ts'
import { decideClaimAll } from './claim-all.ts'
import type { Command, Settle, SeveralCommand } from './command.ts'
import { decideDerive } from './derive.ts'
import { Draft } from './draft.ts'
import type {
  AcquireAllOutcome,
  AcquireOutcome,
  AdvanceOutcome,
  ClaimOutcome,
  DowngradeOutcome,
  KeepAliveOutcome,
  Refusal,
  ReleaseOutcome,
  RenewOutcome,
  RevokeOutcome,
  SettleOutcome,
  SpendOutcome,
  TakeUpOutcome,
  TransferOutcome,
  TrespassOutcome,
  UpdateOutcome,
  UpgradeOutcome,
  Withdrawn,
} from './outcome.ts'
import type { Decision, ReadSet, RealmView, Urgency } from './realm.ts'
import { decideRelease } from './release.ts'
import { decideRenew } from './renew.ts'
import { decideRevoke } from './revoke.ts'
import { settle } from './settle.ts'
import { decideSpend } from './spend.ts'
import type { Now } from './time.ts'
import { decideTransfer } from './transfer.ts'
import { decideTrespass } from './trespass.ts'
import { decideUpdate } from './update.ts'
import { decideDowngrade, decideUpgrade, decideWithdrawUpgrade } from './upgrade.ts'
import { decideRefuseDeadlock, decideWithdraw } from './withdraw.ts'

/** What each command can come to. */
interface OutcomeByKind {
  acquire: AcquireOutcome
  claim: ClaimOutcome
  keep_alive: KeepAliveOutcome
  take_up: TakeUpOutcome
  withdraw: Withdrawn | Refusal
  refuse_deadlock: Withdrawn | Refusal
  renew: RenewOutcome
  release: ReleaseOutcome
  revoke: RevokeOutcome
  upgrade: UpgradeOutcome
  withdraw_upgrade: UpgradeOutcome
  downgrade: DowngradeOutcome
  update: UpdateOutcome
  transfer: TransferOutcome
  adopt: AcquireOutcome
  advance: AdvanceOutcome
  settle: SettleOutcome
  derive: AcquireOutcome
  spend: SpendOutcome
  trespass: TrespassOutcome
}

export type OutcomeOf<C extends Command> = OutcomeByKind[C['kind']]

export function decide<C extends Command>(
  view: RealmView,
  command: C,
  now: Now,
): Decision<OutcomeOf<C>> {
  return decideAny(view, command, now) as Decision<OutcomeOf<C>>
}

function decideAny(view: RealmView, command: Command, now: Now): Decision<OutcomeOf<Command>> {
  switch (command.kind) {
    case 'acquire':
      return decideAcquire(view, command, now)
    case 'claim':
      return decideClaim(view, command, now)
    case 'keep_alive':
      return decideKeepAlive(view, command, now)
    case 'take_up':
      return decideTakeUp(view, command, now)
    case 'withdraw':
      return decideWithdraw(view, command, now)
    case 'refuse_deadlock':
      return decideRefuseDeadlock(view, command, now)
    case 'renew':
      return decideRenew(view, command, now)
    case 'release':
      return decideRelease(view, command, now)
    case 'revoke':
      return decideRevoke(view, command, now)
    case 'upgrade':
      return decideUpgrade(view, command, now)
    case 'withdraw_upgrade':
      return decideWithdrawUpgrade(view, command, now)
    case 'downgrade':
      return decideDowngrade(view, command, now)
    case 'update':
      return decideUpdate(view, command, now)
    case 'transfer':
      return decideTransfer(view, command, now)
    case 'adopt':
      return decideAdopt(view, command, now)
    case 'advance':
      return decideAdvance(view, command, now)
    case 'settle':
      return decideSettle(view, command, now)
    case 'derive':
      return decideDerive(view, command, now)
    case 'spend':
      return decideSpend(view, command, now)
    case 'trespass':
      return decideTrespass(view, command, now)
  }
}

function decideSettle(view: RealmView, command: Settle, now: Now): Decision<SettleOutcome> {
  const draft = new Draft(view, now, command)
  settle(draft)
  const decision = draft.answer({ kind: 'settled' } as const)
  if (decision.outcome.kind === 'look_further') return { ...decision, outcome: decision.outcome }
  const expired = decision.events.filter((event) => {
    return event.type === 'lease.expired' && event.before === 'active'
  }).length
  return { ...decision, outcome: { kind: 'settled', expired } }
}

/** Decides a command about several resources; `views` are those of its members, in the same order. */
export function decideSeveral(
  views: readonly RealmView[],
  command: SeveralCommand,
  now: Now,
): Decision<AcquireAllOutcome> {
  return command.kind === 'acquire_all'
    ? decideAcquireAll(views, command, now)
    : decideClaimAll(views, command, now)
}

/** What must be read to decide a command: its own place and, for a transfer, whatever has the receiver's id already. */
export function readSetsOf(command: Command): readonly ReadSet[] {
  const own = readSetOf(command)
  if (command.kind === 'derive') {
    return [own, { ...own, leaseId: command.parentId, requestId: null, depth: 'entry' }]
  }
  if (command.kind !== 'transfer' || command.to === null) return [own]
  return [own, { ...own, leaseId: command.newLeaseId, requestId: null, depth: 'entry' }]
}

/** The views of a command's read sets as one. */
export function viewOf(views: readonly RealmView[]): RealmView {
  const view = views[0]
  if (view === undefined) throw new Error('a command needs a view to be decided on')
  if (views.length === 1) return view
  const { lastFence, ticketCount, prior, settings } = view
  const entries = new Map(views.flatMap((one) => [...one.entries]))
  return {
    ...{ entries, lastFence, ticketCount, prior, settings },
    get epoch() {
      return view.epoch
    },
  }
}

/** Commands that depend on their own entry alone, so that no stranger can make them miss. */
const ENTRY_ONLY: ReadonlySet<Command['kind']> = new Set<Command['kind']>([
  'renew',
  'advance',
  'spend',
  'trespass',
  'keep_alive',
  'take_up',
])

/** What must be read to decide a command at its own place. */
export function readSetOf(command: Command): ReadSet {
  const readSet: { -readonly [Name in keyof ReadSet]: ReadSet[Name] } = {
    resource: command.resource,
    extent: command.extent,
    leaseId: command.leaseId,
    requestId: requestIdOf(command),
    depth: ENTRY_ONLY.has(command.kind) ? 'entry' : 'claims',
  }
  if (command.kind === 'acquire' && command.sequential === true) readSet.isWhole = true
  const urgency = URGENCIES[command.kind]
  if (urgency !== undefined) readSet.urgency = urgency
  return readSet
}

const URGENCIES: Readonly<Partial<Record<Command['kind'], Urgency>>> = {
  renew: 'lease',
  keep_alive: 'place',
  claim: 'place',
  take_up: 'place',
}

/**
 * A requester is known by the id that it chose for its lease: where no history is kept, that is all that is left of an
 * ended one, and when it was given a lease that was transferred to it, only that leads from the one id to the other.
 */
function requestIdOf(command: Command): string | null {
  const { kind } = command
  if (kind === 'acquire' || kind === 'claim' || kind === 'withdraw' || kind === 'derive') {
    return command.leaseId
  }
  return 'requestId' in command ? command.requestId : null
}
