/**
 * Changes of a lease's mode, one at a time: an upgrade, which is a wait for the other sharers to leave, and a downgrade.
 *
 * An upgrade that was given up is taken back, and if it had been completed meanwhile the lease is shared again: a holder
 * that heard that it did not get what it asked for must not keep others out. A later upgrade waits until that is done,
 * since an undoing that comes late would undo the wrong one.
 */
import { LeaseError } from '../core/errors.ts'
import type { LeaseId } from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { DowngradeAnswer, LeaseApi, UpgradeAnswer } from '../service/lease-api.ts'
import type { ModeChange } from './contract.ts'
import type { AnswerListener, LeaseTarget, RequestContext } from './lease-requests.ts'
import type { PendingRequest, WaitAnswer } from './pending-request.ts'
import { retry } from './retry.ts'
import { isUpgradeTurn } from './waiter-turn.ts'
import { Wait, type WaitContext } from './waiting.ts'

const DOWNGRADE_WITHIN_MS = 10_000
/**
 * No wake-up reminds a holder of its upgrade twice, so it asks by itself now and then, and soon enough for a cycle to be
 * broken within a second if it is this one's to break. A question is a read.
 */
const UPGRADE_CHECK_MS_MAX = 750

/** What an upgrade asks of the client beside its requests. */
export interface UpgradeContext extends RequestContext {
  readonly waitContext: WaitContext
  readonly sequential: boolean
  /** What an upgrade that is asked for now is said to be under. */
  underNow(): readonly LeaseId[] | null
}

export interface AskedUpgrade {
  readonly waitMs: number | 'configured'
  readonly signal: AbortSignal | undefined
}

export class LeaseMode {
  readonly #context: UpgradeContext
  readonly #target: LeaseTarget
  readonly #listener: AnswerListener
  #upgrading: Promise<ModeChange> | null = null
  #wait: Wait | null = null
  /** Why an upgrade ends whose wait had not begun yet. */
  #cancelled: LeaseError | null = null
  #undoing: Promise<unknown> | null = null
  /** Counts upgrades, so that the undoing of one never touches the next. */
  #upgrades = 0
  #isTakenBack = false

  constructor(context: UpgradeContext, target: LeaseTarget, listener: AnswerListener) {
    this.#context = context
    this.#target = target
    this.#listener = listener
  }

  /**
   * The last upgrade was given up. Whatever is heard of it now, the lease counts as shared: its undoing may have reached
   * the store already.
   */
  get isTakenBack(): boolean {
    return this.#isTakenBack
  }

  /** Joins an upgrade that is under way. */
  upgrade(asked: AskedUpgrade): Promise<ModeChange> {
    this.#upgrading ??= this.#upgrade(asked).finally(() => {
      this.#upgrading = null
      this.#wait = null
      this.#cancelled = null
    })
    return this.#upgrading
  }

  async downgrade(): Promise<ModeChange> {
    this.cancel(() => new LeaseError('ABORTED', 'the upgrade was taken back by a downgrade'))
    await this.#undoing
    const answer = await this.#sendDowngrade()
    if (answer.kind === 'downgraded') return { changed: answer.changed }
    this.#listener.onRefused(answer)
    throw refusalError(answer)
  }

  /** Ends an upgrade that is under way with this error, which is made only if there is one. */
  cancel(why: () => LeaseError): void {
    if (this.#wait !== null) this.#wait.cancel(why())
    else if (this.#upgrading !== null) this.#cancelled ??= why()
  }

  /** A wake-up names the lease. */
  wake(): void {
    this.#wait?.wake()
  }

  /** Something changed that may or may not concern the lease. */
  hint(): void {
    this.#wait?.hint()
  }

  async #upgrade({ waitMs, signal }: AskedUpgrade): Promise<ModeChange> {
    const { api, clock, sequential, waitContext } = this.#context
    const under = this.#context.underNow()
    const beganMs = clock.now().monotonicMs
    await this.#undoing
    if (this.#cancelled !== null) throw this.#cancelled
    this.#upgrades += 1
    this.#isTakenBack = false
    const upgrade = this.#upgrades
    const spentMs = clock.now().monotonicMs - beganMs
    const leftMs = waitMs === 'configured' ? waitMs : Math.max(0, Math.ceil(waitMs - spentMs))
    const request = pendingUpgrade({
      ...{ api, target: this.#target, under, sequential, waitMs: leftMs },
      onRefused: (refusal) => this.#listener.onRefused(refusal),
      undo: () => this.#undo(upgrade),
    })
    const wait = new Wait(waitContext, request)
    this.#wait = wait
    const outcome = await wait.run(signal)
    if (outcome.kind === 'held') throw refusalError(outcome)
    for (const { lease, term } of outcome.grants) this.#listener.onDescribed(lease, term.from)
    return { changed: true }
  }

  #undo(upgrade: number): Promise<unknown> {
    if (upgrade === this.#upgrades) this.#isTakenBack = true
    const undoing = this.#takeBack(upgrade)
    // Only the end matters here: a failure goes to the wait that was given up, which tries again and reports it.
    const settled = Promise.allSettled([undoing])
    this.#undoing = settled
    void settled.then(() => {
      if (this.#undoing === settled) this.#undoing = null
    })
    return undoing
  }

  async #takeBack(upgrade: number): Promise<void> {
    if (upgrade !== this.#upgrades) return
    const answer = await this.#context.api.withdrawUpgrade(this.#target)
    if (answer.kind === 'upgraded' && upgrade === this.#upgrades) await this.#sendDowngrade()
  }

  async #sendDowngrade(): Promise<DowngradeAnswer> {
    const { api, runtime, clock } = this.#context
    const request = { ...this.#target, requestId: runtime.uuid() }
    const sent = clock.now()
    const limits = { runtime, withinMs: DOWNGRADE_WITHIN_MS }
    const answer = await retry(limits, async () => api.downgrade(request))
    if (answer.kind === 'downgraded') this.#listener.onDescribed(answer.lease, sent)
    return answer
  }
}

export interface PendingUpgradeOptions {
  readonly api: LeaseApi
  readonly target: LeaseTarget
  readonly waitMs: number | 'configured'
  /** What it is said to be under. */
  readonly under: readonly LeaseId[] | null
  readonly sequential: boolean
  readonly onRefused: (refusal: Refusal) => void
  /** Takes the upgrade request back, and whatever came of it. */
  readonly undo: () => Promise<unknown>
}

/** The wait to be the only holder of what is shared now. */
export function pendingUpgrade(options: PendingUpgradeOptions): PendingRequest {
  const { api, target, onRefused, sequential } = options
  const { id: leaseId, resource, extent } = target
  let under = options.under
  const ask = async (waitMs: number): Promise<WaitAnswer> => {
    const waits = under === null ? {} : { under, implied: options.under === null }
    const answer = await api.upgrade({ ...target, ...waits, sequential, mayWait: waitMs > 0 })
    const read = upgraded(answer, waitMs)
    if (!isProgress(read)) onRefused(read)
    return read
  }
  return {
    subject: `an exclusive ${resource}`,
    waitMs: options.waitMs,
    hasParts: false,
    isPlain: options.under === null,
    file: async (waitMs) => {
      if (waitMs !== 'configured') return ask(waitMs)
      return ask((await api.settings({ resource })).acquisition_timeout_ms)
    },
    claim: ({ implied }) => {
      if (implied !== undefined) under = implied
      return ask(1)
    },
    // The lease itself lives on.
    lapsesAfterMs: Infinity,
    withdraw: options.undo,
    awaitHandOff: () => null,
    placeAt: () => null,
    isForeign: () => false,
    mayBeTurn: async () => {
      const { leases } = await api.inspect({ resource, extent })
      return isUpgradeTurn(leaseId, leases)
    },
  }
}

function isProgress(answer: WaitAnswer): answer is Exclude<WaitAnswer, Refusal> {
  return ['granted', 'queued', 'waiting', 'dropped'].includes(answer.kind)
}

/** The deadline does not move with an upgrade, so its answer is read as the repeat of an older grant. */
function upgraded(answer: UpgradeAnswer, waitMs: number): WaitAnswer {
  if (answer.kind === 'upgraded') return { kind: 'granted', lease: answer.lease, repeated: true }
  if (answer.kind === 'upgrade_withdrawn') return { kind: 'dropped', leaseId: answer.leaseId }
  if (answer.kind !== 'upgrading') return answer
  const { blockers } = answer
  const checkAfterMs = Math.min(answer.checkAfterMs, UPGRADE_CHECK_MS_MAX)
  return { kind: 'queued', blockers, waitMs, checkAfterMs, keepAliveMs: checkAfterMs }
}
