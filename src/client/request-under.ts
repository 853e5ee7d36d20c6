/**
 * What a request is under: leases that its holder cannot release before the request ends.
 *
 *  1. Work that `withLease` runs is inside its lease and all that enclose it, never inside those of sibling branches
 *     (`enclosingLeases`).
 *  2. A client that has made no call for one claim window, apart from what it waits for, stands still: its plain leases are
 *     taken to be released only after its plain waits have ended, which is how a cycle is found that no request spoke of.
 *     At the client's next call that is over at once (`Standstill`, `ImpliedUnder`).
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { LeaseId } from '../core/lease.ts'
import { CLAIM_WINDOW_MS_DEFAULT, UNDER_MAX } from '../core/limits.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'

interface Enclosure {
  readonly client: object
  readonly leaseId: LeaseId
  readonly outer: Enclosure | null
}

/**
 * Made by the first `withLease` of the process: from then on every await of the process is dearer (2.2 times on Node 20),
 * which costs nothing where `withLease` is not used.
 */
let enclosures: AsyncLocalStorage<Enclosure | null> | null = null

/** Runs work inside a lease of this client. */
export function runInside<Result>(
  { client, leaseId }: Pick<Enclosure, 'client' | 'leaseId'>,
  work: () => Result,
): Result {
  enclosures ??= new AsyncLocalStorage()
  const outer = enclosures.getStore() ?? null
  return enclosures.run({ client, leaseId, outer }, work)
}

/**
 * Tells listeners of an event. They are inside of nothing: an event is noticed in whatever work first looks at a lease, or by a
 * timer that was set in any.
 */
export function runOutside(tell: () => void): void {
  if (enclosures === null) tell()
  else enclosures.run(null, tell)
}

/**
 * The leases of this client that the caller runs inside of, the innermost first; null if there are none. Work may leave
 * something behind that goes on when its lease is over, and then is inside of that no more.
 */
export function enclosingLeases(
  client: object,
  isHeld: (leaseId: LeaseId) => boolean,
): readonly LeaseId[] | null {
  const leaseIds: LeaseId[] = []
  let each = enclosures?.getStore() ?? null
  for (; each !== null && leaseIds.length < UNDER_MAX; each = each.outer) {
    if (each.client === client && isHeld(each.leaseId)) leaseIds.push(each.leaseId)
  }
  return leaseIds.length === 0 ? null : leaseIds
}

export interface StandstillOptions {
  readonly runtime: Runtime
  readonly claimWindowMs: number | null
  /** What the client holds by plain calls. */
  readonly leases: () => Promise<Iterable<LeaseId>> | Iterable<LeaseId>
}

export class Standstill {
  readonly #options: StandstillOptions
  readonly #listeners = new Set<() => void>()
  readonly #stillListeners = new Set<() => void>()
  #timer: Timer | null = null
  #look: Promise<readonly LeaseId[]> | null = null
  #lastCallMs: number

  constructor(options: StandstillOptions) {
    this.#options = options
    this.#lastCallMs = options.runtime.monotonicMs()
  }

  /** The client has made a call. */
  called(): void {
    this.#lastCallMs = this.#options.runtime.monotonicMs()
    for (const listener of [...this.#listeners]) listener()
    this.#watch()
  }

  /** Hears the next calls, until it is forgotten. */
  onCall(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Hears whenever the client comes to stand still, until it is forgotten. */
  onStill(listener: () => void): () => void {
    this.#stillListeners.add(listener)
    this.#watch()
    return () => {
      this.#stillListeners.delete(listener)
      if (this.#stillListeners.size > 0) return
      this.#timer?.cancel()
      this.#timer = null
    }
  }

  get isStill(): boolean {
    return this.#stillInMs <= 0
  }

  get #stillInMs(): number {
    const { runtime, claimWindowMs } = this.#options
    const movedMs = runtime.monotonicMs() - this.#lastCallMs
    return (claimWindowMs ?? CLAIM_WINDOW_MS_DEFAULT) - movedMs
  }

  /** One timer however often the client moves. */
  #watch(): void {
    if (this.#timer !== null || this.#stillListeners.size === 0 || this.isStill) return
    const look = (): void => {
      this.#timer = null
      if (!this.isStill) return this.#watch()
      for (const listener of [...this.#stillListeners]) listener()
    }
    const { runtime } = this.#options
    this.#timer = runtime.setTimer(Math.ceil(this.#stillInMs), look, { keepAlive: false })
  }

  /**
   * What a plain wait is under now; nothing while the client moves. Waits that ask in the same moment, as their keep-alives
   * do, share one look at what the client holds, which may be much.
   */
  impliedLeases(): Promise<readonly LeaseId[]> {
    this.#look ??= this.#lookThrough().finally(() => (this.#look = null))
    return this.#look
  }

  async #lookThrough(): Promise<readonly LeaseId[]> {
    if (!this.isStill) return NONE
    const leaseIds = [...(await this.#options.leases())].sort()
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

/** What one wait has said to the store about what it is under. */
export class ImpliedUnder {
  readonly #standstill: Standstill
  readonly #onOver: () => void
  /** Null: the store may or may not have heard what was said. */
  #said: readonly LeaseId[] | null = NONE
  #forget: (() => void) | null = null
  readonly #forgetStill: () => void

  /**
   * `onOver` is called when the client has moved and the store does not know it yet, `onStill` when it has come to stand
   * still.
   */
  constructor(
    standstill: Standstill,
    { onOver, onStill }: { readonly onOver: () => void; readonly onStill: () => void },
  ) {
    this.#standstill = standstill
    this.#onOver = onOver
    this.#forgetStill = standstill.onStill(onStill)
  }

  /** What has to be said with the next question, if anything has changed. */
  async news(): Promise<{ readonly implied?: readonly LeaseId[] }> {
    if (this.#said?.length === 0 && !this.#standstill.isStill) return NO_NEWS
    const implied = await this.#standstill.impliedLeases()
    if (implied.join() === this.#said?.join()) return NO_NEWS
    this.#said = implied
    this.#forget?.()
    this.#forget = null
    if (implied.length > 0) this.#forget = this.#standstill.onCall(this.#onOver)
    return { implied }
  }

  /** The question that said it may not have arrived, or the ticket is another one. */
  forget(): void {
    if (this.#said?.length !== 0) this.#said = null
  }

  end(): void {
    this.#forget?.()
    this.#forgetStill()
  }
}

const NO_NEWS: { readonly implied?: readonly LeaseId[] } = {}
