/**
 * Waits for an upgrade on behalf of a command that has no handle of the lease. The wish stands in the store while this
 * waits; whoever leaves last completes it and wakes the session of the lease. However the wait ends, no wish is left.
 */
import { LeaseError } from '../core/errors.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import { refusalError } from '../core/outcome.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import type { LeaseApi, UpgradeAnswer } from '../service/lease-api.ts'

export interface UpgradeWish {
  readonly leaseId: LeaseId
  readonly holder: string
  /** The lease's, as far as the command knows: with another one no wake-up arrives, and it looks by itself. */
  readonly session: string
  /** 0: do not wait. */
  readonly waitMs: number
  readonly signal: AbortSignal
}

export interface UpgradedLease {
  readonly lease: LeaseInfo
  readonly changed: boolean
}

/** A wake-up may be lost where another process of the same session listens too, so this looks by itself as well. */
const LOOK_EVERY_MS = 500

/** Null when the signal aborted before the upgrade was done. */
export async function upgradeLease(
  api: LeaseApi,
  wish: UpgradeWish,
): Promise<UpgradedLease | null> {
  const { leaseId, holder, session, waitMs, signal } = wish
  const untilMs = systemRuntime.monotonicMs() + waitMs
  const request = { id: leaseId, holder, sequential: true }
  const first = await api.upgrade({ ...request, mayWait: waitMs > 0 })
  if (first.kind === 'upgraded') return first
  if (first.kind !== 'upgrading') throw refused(first)
  const bell = await Bell.of(api, session)
  const onAbort = (): void => bell.ring()
  signal.addEventListener('abort', onAbort)
  try {
    for (;;) {
      const leftMs = untilMs - systemRuntime.monotonicMs()
      if (signal.aborted || leftMs <= 0) return await giveUp(api, wish)
      await bell.rung(Math.min(leftMs, LOOK_EVERY_MS))
      const answer = await api.upgrade({ ...request, mayWait: true })
      if (answer.kind === 'upgraded') return { ...answer, changed: true }
      if (answer.kind !== 'upgrading') throw refused(answer)
    }
  } finally {
    signal.removeEventListener('abort', onAbort)
    bell.stop()
  }
}

/** Takes the wish back, unless it was fulfilled in this very moment. */
async function giveUp(api: LeaseApi, wish: UpgradeWish): Promise<UpgradedLease | null> {
  const { leaseId, holder, waitMs, signal } = wish
  const answer = await api.withdrawUpgrade({ id: leaseId, holder })
  if (answer.kind === 'upgraded') return { ...answer, changed: true }
  if (answer.kind !== 'upgrade_withdrawn') throw refused(answer)
  if (signal.aborted) return null
  const message = `the others did not leave within ${waitMs} ms, and lease ${leaseId} stays shared`
  throw new LeaseError('WAIT_TIMEOUT', message, { details: { leaseId, waitedMs: waitMs } })
}

function refused(answer: Exclude<UpgradeAnswer, { kind: 'upgraded' }>): Error {
  const isRefusal = answer.kind !== 'upgrade_withdrawn' && answer.kind !== 'upgrading'
  return isRefusal ? refusalError(answer) : new Error(`an upgrade cannot be ${answer.kind} here`)
}

/** Rings when the session of the lease is woken, or when somebody rings it. */
class Bell {
  readonly #unsubscribe: () => void
  #waiting: (() => void) | null = null
  #rang = false

  private constructor(unsubscribe: () => void) {
    this.#unsubscribe = unsubscribe
  }

  static async of(api: LeaseApi, session: string): Promise<Bell> {
    let bell: Bell | null = null
    const unsubscribe = await api.onWake({ session }, () => bell?.ring())
    bell = new Bell(unsubscribe)
    return bell
  }

  ring(): void {
    this.#rang = true
    this.#waiting?.()
  }

  async rung(withinMs: number): Promise<void> {
    if (!this.#rang) {
      await new Promise<void>((resolve) => {
        const timer = systemRuntime.setTimer(withinMs, resolve, { keepAlive: true })
        this.#waiting = () => {
          timer.cancel()
          resolve()
        }
      })
    }
    this.#waiting = null
    this.#rang = false
  }

  stop(): void {
    this.#unsubscribe()
  }
}
