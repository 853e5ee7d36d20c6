/**
 * Renews everything that an instance owns, together with its heartbeat, at a fixed pace. One round of it is one round
 * trip for each ten thousand sessions. A round that failed is followed by another soon, until one is confirmed; a
 * round never waits for the one before longer than the call timeout.
 *
 * Between rounds it watches the clock for the book: a session is lost at its local deadline whether or not any call
 * has returned.
 */
import type { HolderClock } from '../client/holder-clock.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { backOffMs } from './answer-within.ts'
import type { Failed, FleetLayout, Grant, GrantReply } from './fleet-layout.ts'
import { inParts } from './in-parts.ts'
import type { SessionBook } from './session-book.ts'

export interface HeartParts {
  readonly layout: FleetLayout
  readonly book: SessionBook
  readonly runtime: Runtime
  readonly clock: HolderClock
  readonly refreshMs: number
  /** Whether there is a heartbeat to be shown. */
  readonly isShown: () => boolean
}

/** Of one call: with many more, the last answers would come too late. */
const RENEW_MAX = 10_000
const RETRY_FIRST_MS = 50
const RETRY_MS_MAX = 1_000
/** A host that slept has timers that are late by as long as it slept. */
const LOOK_MS_MAX = 1_000

export class Heart {
  readonly #parts: HeartParts
  #beating: Promise<boolean> | null = null
  #beatTimer: Timer | null = null
  #lookTimer: Timer | null = null
  #failures = 0
  #isStopped = false
  readonly #renewalFault: RepeatedFault
  readonly #heartbeatFault: RepeatedFault

  constructor(parts: HeartParts) {
    this.#parts = parts
    const clock = { monotonicMs: () => parts.runtime.monotonicMs() }
    this.#renewalFault = new RepeatedFault('fleet/renewal', clock)
    this.#heartbeatFault = new RepeatedFault('fleet/heartbeat', clock)
  }

  /** One round now; then on at the pace. True if everything was answered. Never throws. */
  beat(): Promise<boolean> {
    if (this.#isStopped) return Promise.resolve(false)
    this.#beating ??= this.#round().finally(() => (this.#beating = null))
    return this.#beating
  }

  /**
   * Something was granted: the clock must be watched for it. All terms are of one length, so what was granted before
   * is due before, and a look that is planned already is early enough.
   */
  watch(): void {
    if (this.#lookTimer !== null || this.#isStopped) return
    const { book, runtime } = this.#parts
    const inMs = book.nextLookInMs()
    if (inMs === null) return
    const delayMs = Math.min(LOOK_MS_MAX, Math.max(1, Math.ceil(inMs)))
    this.#lookTimer = runtime.setTimer(delayMs, () => this.#look(), { keepAlive: false })
  }

  /** The next round is due sooner than the pace would have it. */
  hurry(): void {
    this.#failures = Math.max(1, this.#failures)
    this.#arm()
  }

  /** No round begins after it; resolves when the last one has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#beatTimer?.cancel()
    await this.#beating
    this.#lookTimer?.cancel()
  }

  async #round(): Promise<boolean> {
    const { layout, book, isShown } = this.#parts
    const [isRenewed, isSeen] = await Promise.all([
      isDone(this.#renewalFault, this.#renew(book.grants)),
      isDone(this.#heartbeatFault, layout.beat(isShown())),
    ])
    const isWhole = isSeen && isRenewed
    this.#failures = isWhole ? 0 : this.#failures + 1
    this.#arm()
    this.watch()
    return isWhole
  }

  /** Throws what was answered to the first that failed, when all have been tried. */
  async #renew(grants: readonly Grant[]): Promise<void> {
    const { layout, book, clock } = this.#parts
    let first: Failed | null = null
    for (const part of inParts(grants, RENEW_MAX)) {
      const sent = clock.now()
      const replies = await layout.renew(part)
      book.renewals(part, replies, sent)
      first ??= replies.find(isFailed) ?? null
    }
    if (first !== null) throw first.error
  }

  #arm(): void {
    this.#beatTimer?.cancel()
    if (this.#isStopped) return
    const { runtime, refreshMs } = this.#parts
    const retryMs = backOffMs(this.#failures, { firstMs: RETRY_FIRST_MS, mostMs: RETRY_MS_MAX })
    const inMs = this.#failures === 0 ? refreshMs : Math.min(refreshMs, retryMs)
    this.#beatTimer = runtime.setTimer(inMs, () => void this.beat(), { keepAlive: false })
  }

  #look(): void {
    this.#lookTimer = null
    this.#parts.book.look()
    this.#parts.book.prune()
    this.watch()
  }
}

function isFailed(reply: GrantReply): reply is Failed {
  return reply.kind === 'failed'
}

/** The round that follows a failure makes up for it. */
async function isDone(fault: RepeatedFault, work: Promise<void>): Promise<boolean> {
  try {
    await work
    fault.succeeded()
    return true
  } catch (error) {
    fault.failed(error)
    return false
  }
}
