/**
 * Whether a client stands still: it has made no call for one claim window, apart from what it waits for. Then its plain
 * leases are taken to be released only after its plain waits have ended, which is how a cycle is found that nobody spoke
 * of. At the client's next call that is over at once.
 */
import type { LeaseId } from '../core/lease.ts'
import { CLAIM_WINDOW_MS_DEFAULT, UNDER_MAX } from '../core/limits.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'

export interface StandstillParts {
  readonly runtime: Runtime
  readonly claimWindowMs: number | null
  /** What the client holds by plain calls. */
  readonly leases: () => Promise<Iterable<LeaseId>> | Iterable<LeaseId>
}

export class Standstill {
  readonly #parts: StandstillParts
  readonly #listeners = new Set<() => void>()
  #lastCallMs: number

  constructor(parts: StandstillParts) {
    this.#parts = parts
    this.#lastCallMs = parts.runtime.monotonicMs()
  }

  /** The client has made a call. */
  called(): void {
    this.#lastCallMs = this.#parts.runtime.monotonicMs()
    for (const listener of [...this.#listeners]) listener()
  }

  /** Hears the next calls, until it is forgotten. */
  onCall(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  get isStill(): boolean {
    const { runtime, claimWindowMs } = this.#parts
    return runtime.monotonicMs() - this.#lastCallMs >= (claimWindowMs ?? CLAIM_WINDOW_MS_DEFAULT)
  }

  /** What a plain wait is under now; nothing while the client moves. */
  async impliedLeases(): Promise<readonly LeaseId[]> {
    if (!this.isStill) return NONE
    const leaseIds = [...(await this.#parts.leases())].sort()
    return this.isStill ? leaseIds.slice(0, UNDER_MAX) : NONE
  }
}

const NONE: readonly LeaseId[] = []

/** What a session holds, in whatever process it was acquired. */
export async function leasesOf(
  api: Pick<LeaseApi, 'list'>,
  { holder, session }: { readonly holder: string; readonly session: string },
): Promise<readonly LeaseId[]> {
  const filter = { holder, session, state: 'active', limit: UNDER_MAX } as const
  const { leases } = await api.list(filter)
  return leases.map(({ id }) => id)
}

/** What one wait has told the store about what it is under. */
export class ImpliedUnder {
  readonly #standstill: Standstill
  readonly #onOver: () => void
  /** Null: the store may or may not have heard what it was told. */
  #told: readonly LeaseId[] | null = NONE
  #forget: (() => void) | null = null

  /** `onOver` is called when the client has moved and the store does not know it yet. */
  constructor(standstill: Standstill, onOver: () => void) {
    this.#standstill = standstill
    this.#onOver = onOver
  }

  /** What has to be told with the next question, if anything has changed. */
  async news(): Promise<{ readonly implied?: readonly LeaseId[] }> {
    if (this.#told?.length === 0 && !this.#standstill.isStill) return NO_NEWS
    const implied = await this.#standstill.impliedLeases()
    if (implied.join() === this.#told?.join()) return NO_NEWS
    this.#told = implied
    this.end()
    if (implied.length > 0) this.#forget = this.#standstill.onCall(this.#onOver)
    return { implied }
  }

  /** The question that told it may not have arrived, or the ticket is another one. */
  forget(): void {
    if (this.#told?.length !== 0) this.#told = null
  }

  end(): void {
    this.#forget?.()
    this.#forget = null
  }
}

const NO_NEWS: { readonly implied?: readonly LeaseId[] } = {}
