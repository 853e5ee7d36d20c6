/**
 * Changes of a lease's mode, one at a time: an upgrade that waits for the other sharers to leave, and a downgrade.
 *
 * An upgrade that was given up is taken back, and if it had been completed meanwhile the lease is shared again: whoever
 * was told that it did not get what it wanted must not keep others out. A later upgrade waits until that is done, since
 * an undoing that comes late would undo the wrong one.
 */
import { LeaseError } from '../core/errors.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { DowngradeAnswer, LeaseApi } from '../service/lease-api.ts'
import type { ModeChange } from './contract.ts'
import type { HolderClock, Moment } from './holder-clock.ts'
import { retry } from './retry.ts'
import type { LeaseTarget } from './lease-release.ts'
import { upgradeErrand } from './wait-errand.ts'
import { Wait, type WaitParts } from './waiting.ts'

const DOWNGRADE_WITHIN_MS = 10_000

export interface ModeParts {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly clock: HolderClock
  readonly target: LeaseTarget
  readonly waitParts: () => WaitParts
  readonly sequential: boolean
  /** What an upgrade that is asked for now is said to be under. */
  readonly underOf: () => readonly LeaseId[] | null
  /** The store said how the lease stands; `sent`: before it was asked. */
  readonly onChanged: (lease: LeaseInfo, sent: Moment) => void
  readonly onRefused: (refusal: Refusal) => void
}

export interface UpgradeWish {
  readonly waitMs: number | 'configured'
  readonly signal: AbortSignal | undefined
}

export class LeaseMode {
  readonly #parts: ModeParts
  #upgrading: Promise<ModeChange> | null = null
  #wait: Wait | null = null
  #undoing: Promise<unknown> | null = null
  /** Counts upgrades, so that the undoing of one never touches the next. */
  #wishes = 0
  #isTakenBack = false

  constructor(parts: ModeParts) {
    this.#parts = parts
  }

  /**
   * The last upgrade was given up. Whatever is heard of it now, the lease counts as shared: its undoing may have reached
   * the store already.
   */
  get isTakenBack(): boolean {
    return this.#isTakenBack
  }

  /** Joins an upgrade that is under way. */
  upgrade(wish: UpgradeWish): Promise<ModeChange> {
    this.#upgrading ??= this.#upgrade(wish).finally(() => {
      this.#upgrading = null
      this.#wait = null
    })
    return this.#upgrading
  }

  async downgrade(): Promise<ModeChange> {
    this.cancel(() => new LeaseError('ABORTED', 'the upgrade was taken back by a downgrade'))
    await this.#undoing
    const answer = await this.#sendDowngrade()
    if (answer.kind === 'downgraded') return { changed: answer.changed }
    this.#parts.onRefused(answer)
    throw refusalError(answer)
  }

  /** Ends an upgrade that is under way with this error, which is made only if there is one. */
  cancel(why: () => LeaseError): void {
    this.#wait?.cancel(why())
  }

  /** The lease's own name was called. */
  wake(): void {
    this.#wait?.wake()
  }

  /** Something changed that may or may not concern the lease. */
  hint(): void {
    this.#wait?.hint()
  }

  async #upgrade({ waitMs, signal }: UpgradeWish): Promise<ModeChange> {
    const { api, target, clock, onRefused, onChanged, sequential } = this.#parts
    const under = this.#parts.underOf()
    const beganMs = clock.now().monotonicMs
    await this.#undoing
    this.#wishes += 1
    this.#isTakenBack = false
    const wish = this.#wishes
    const spentMs = clock.now().monotonicMs - beganMs
    const leftMs = waitMs === 'configured' ? waitMs : Math.max(0, Math.ceil(waitMs - spentMs))
    const undo = (): Promise<unknown> => this.#undo(wish)
    const errand = upgradeErrand({
      api,
      target,
      under,
      sequential,
      waitMs: leftMs,
      onRefused,
      undo,
    })
    const wait = new Wait(this.#parts.waitParts(), errand)
    this.#wait = wait
    const outcome = await wait.run(signal)
    if (outcome.kind === 'held') throw refusalError(outcome)
    for (const { lease, term } of outcome.grants) onChanged(lease, term.from)
    return { changed: true }
  }

  #undo(wish: number): Promise<unknown> {
    if (wish === this.#wishes) this.#isTakenBack = true
    const undoing = this.#takeBack(wish)
    // Only the end matters here: a failure goes to the wait that was given up, which tries again and reports it.
    const settled = Promise.allSettled([undoing])
    this.#undoing = settled
    void settled.then(() => {
      if (this.#undoing === settled) this.#undoing = null
    })
    return undoing
  }

  async #takeBack(wish: number): Promise<void> {
    if (wish !== this.#wishes) return
    const answer = await this.#parts.api.withdrawUpgrade(this.#parts.target)
    if (answer.kind === 'upgraded' && wish === this.#wishes) await this.#sendDowngrade()
  }

  async #sendDowngrade(): Promise<DowngradeAnswer> {
    const { api, runtime, clock, target, onChanged } = this.#parts
    const request = { ...target, requestId: runtime.uuid() }
    const sent = clock.now()
    const limits = { runtime, withinMs: DOWNGRADE_WITHIN_MS }
    const answer = await retry(limits, async () => api.downgrade(request))
    if (answer.kind === 'downgraded') onChanged(answer.lease, sent)
    return answer
  }
}
