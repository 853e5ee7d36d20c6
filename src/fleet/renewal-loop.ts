/**
 * Renews everything that an instance owns, together with its heartbeat, at a fixed interval. One round is one round trip
 * for each ten thousand sessions. After a round that failed the next one follows soon, until one is confirmed; a
 * round waits for the one before no longer than the call timeout.
 *
 * Between rounds the loop checks the registry's deadlines: a session is lost at its local deadline whether or not any
 * call has returned.
 */
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { batchesOf } from '../runtime/batches.ts'
import { backOffMs } from '../runtime/pause.ts'
import type { Timer } from '../runtime/runtime.ts'
import type { FleetInstance } from './fleet-instance.ts'
import type { Failed, Grant, GrantReply } from './fleet-layout.ts'
import type { SessionRegistry } from './session-registry.ts'

/** Renewals in one call: with many more, the last answers would come too late. */
const RENEW_MAX = 10_000
const RETRY = { firstMs: 50, maxMs: 1_000 }
/** After the host has slept, a timer is late by as long as it slept. */
const CHECK_MS_MAX = 1_000

export class RenewalLoop {
  readonly #instance: FleetInstance
  readonly #registry: SessionRegistry
  readonly #isPublished: () => boolean
  #round: Promise<boolean> | null = null
  #roundTimer: Timer | null = null
  #checkTimer: Timer | null = null
  #failures = 0
  #isStopped = false
  readonly #renewalFault: RepeatedFault
  readonly #heartbeatFault: RepeatedFault

  /** `isPublished`: whether other instances should see the heartbeat. */
  constructor(instance: FleetInstance, registry: SessionRegistry, isPublished: () => boolean) {
    this.#instance = instance
    this.#registry = registry
    this.#isPublished = isPublished
    const clock = { monotonicMs: () => instance.runtime.monotonicMs() }
    this.#renewalFault = new RepeatedFault('fleet/renewal', clock)
    this.#heartbeatFault = new RepeatedFault('fleet/heartbeat', clock)
  }

  /** Runs a round now, or joins the one in progress. True if everything was answered. Never throws. */
  run(): Promise<boolean> {
    if (this.#isStopped) return Promise.resolve(false)
    this.#round ??= this.#runRound().finally(() => (this.#round = null))
    return this.#round
  }

  /**
   * Schedules a check of the deadlines after a grant. All terms have one length, so an earlier grant is due earlier, and
   * a check that is scheduled already comes early enough.
   */
  scheduleCheck(): void {
    if (this.#checkTimer !== null || this.#isStopped) return
    const inMs = this.#registry.nextCheckInMs()
    if (inMs === null) return
    const delayMs = Math.min(CHECK_MS_MAX, Math.max(1, Math.ceil(inMs)))
    const { runtime } = this.#instance
    this.#checkTimer = runtime.setTimer(delayMs, () => this.#check(), { keepAlive: false })
  }

  /** Runs the next round as soon as after a failure. */
  hurry(): void {
    this.#failures = Math.max(1, this.#failures)
    this.#scheduleRound()
  }

  /** Starts no further round; resolves when the last one has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#roundTimer?.cancel()
    await this.#round
    this.#checkTimer?.cancel()
  }

  async #runRound(): Promise<boolean> {
    const { layout } = this.#instance
    const [isRenewed, isSeen] = await Promise.all([
      isDone(this.#renewalFault, this.#renew(this.#registry.grants)),
      isDone(this.#heartbeatFault, layout.heartbeat(this.#isPublished())),
    ])
    const isWhole = isSeen && isRenewed
    this.#failures = isWhole ? 0 : this.#failures + 1
    this.#scheduleRound()
    this.scheduleCheck()
    return isWhole
  }

  /** Tries all; then throws the error of the first that failed. */
  async #renew(grants: readonly Grant[]): Promise<void> {
    const { layout, clock } = this.#instance
    let first: Failed | null = null
    for (const batch of batchesOf(grants, RENEW_MAX)) {
      const sent = clock.now()
      const replies = await layout.renew(batch)
      this.#registry.recordRenewals(batch, replies, sent)
      first ??= replies.find(isFailed) ?? null
    }
    if (first !== null) throw first.error
  }

  #scheduleRound(): void {
    this.#roundTimer?.cancel()
    if (this.#isStopped) return
    const { runtime, settings } = this.#instance
    const { refreshMs } = settings
    const retryMs = Math.min(refreshMs, backOffMs(this.#failures, RETRY))
    const inMs = this.#failures === 0 ? refreshMs : retryMs
    this.#roundTimer = runtime.setTimer(inMs, () => void this.run(), { keepAlive: false })
  }

  #check(): void {
    this.#checkTimer = null
    this.#registry.checkDeadlines()
    this.#registry.prune()
    this.scheduleCheck()
  }
}

function isFailed(reply: GrantReply): reply is Failed {
  return reply.kind === 'failed'
}

/** Reports a failure instead of throwing: the next round makes up for it. */
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
