/**
 * Brings wake-ups of the client's session to what they concern: a ticket that may have an offer, or a lease that another
 * client may have ended.
 *
 * The subscription is made in the background when the first ticket is filed, or when a lease has been held for a
 * moment, so that a client that is served at once and done at once does not pay for it. Whatever happened before it stood is made
 * up for by one look at everything. If it fails, waiters still look on their own, holders still renew, and it is tried again
 * after growing pauses for as long as anything is held or waited for.
 *
 * A signal without ids may be no more than "something was committed somewhere", and come often. So it only makes
 * tickets and leases look, which costs reads, and looking at leases never takes more than a small part of the time.
 */
import type { LeaseId } from '../core/lease.ts'
import { LIST_LIMIT_MAX } from '../core/limits.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { backOffMs } from '../runtime/pause.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { TransientMap } from '../runtime/transient-map.ts'
import type { LeaseApi, Unsubscribe } from '../service/lease-api.ts'
import type { TakeOver } from './background-work.ts'
import type { HolderClock } from './holder-clock.ts'
import type { LeaseHandle } from './lease-handle.ts'
import type { Wait } from './waiting.ts'

/** Up to so many leases are looked up one by one; beyond, one list is cheaper. */
const LOOKUPS_MAX = 100
/** A lease held for less than this is not worth a subscription. */
const HOLD_BEFORE_LISTENING_MS = 50
/** After a subscription that failed. */
const LISTEN_AGAIN = { firstMs: 1_000, maxMs: 10_000 } as const
/** After a look at all leases, this many times its duration pass before the next. */
const REST_FACTOR = 20

export interface WakeRouterOptions {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly clock: HolderClock
  readonly holder: string
  readonly session: string
  readonly background: TakeOver
  /** Looks that fail while the store is away: there are as many of them as leases and waits. */
  readonly looks: RepeatedFault
}

export class WakeRouter {
  readonly waits: TransientMap<LeaseId, Wait> = new TransientMap()
  readonly handles: TransientMap<LeaseId, LeaseHandle> = new TransientMap()
  readonly #options: WakeRouterOptions
  readonly #fault: RepeatedFault
  #subscription: 'none' | 'pending' | Unsubscribe = 'none'
  #closed = false
  #listenTimer: Timer | null = null
  #restTimer: Timer | null = null
  #looking = false
  #lookAgain = false

  constructor(options: WakeRouterOptions) {
    this.#options = options
    this.#fault = new RepeatedFault('client/wake-ups', options.runtime)
  }

  /** Sees to it that wake-ups arrive; returns at once. */
  listen(): void {
    this.#listenTimer?.cancel()
    this.#listenTimer = null
    if (this.#subscription !== 'none' || this.#closed) return
    this.#subscription = 'pending'
    this.#options.background('client/wake-ups', this.#subscribe())
  }

  /** As `listen`, if anything is still held, or waited for, in a moment. */
  listenSoon(inMs: number = HOLD_BEFORE_LISTENING_MS): void {
    if (this.#subscription !== 'none' || this.#closed || this.#listenTimer !== null) return
    const onTimer = (): void => {
      this.#listenTimer = null
      if (this.handles.size + this.waits.size > 0) this.listen()
    }
    this.#listenTimer = this.#options.runtime.setTimer(inMs, onTimer, { keepAlive: false })
  }

  close(): void {
    this.#closed = true
    this.#listenTimer?.cancel()
    this.#restTimer?.cancel()
    if (typeof this.#subscription === 'function') this.#subscription()
    this.#subscription = 'none'
  }

  async #subscribe(): Promise<void> {
    const { api, session } = this.#options
    try {
      const unsubscribe = await api.onWake({ session }, ({ leaseIds }) => this.#route(leaseIds))
      if (this.#closed) return unsubscribe()
      this.#subscription = unsubscribe
      this.#route(null)
      this.#fault.succeeded()
    } catch (error) {
      this.#subscription = 'none'
      this.#fault.failed(error)
      this.listenSoon(backOffMs(this.#fault.count, LISTEN_AGAIN))
    }
  }

  #route(leaseIds: readonly LeaseId[] | null): void {
    if (this.#closed) return
    if (leaseIds === null) {
      for (const wait of this.waits.values()) wait.hint()
      for (const handle of this.handles.values()) handle.hint()
      this.#lookAtAll()
      return
    }
    for (const leaseId of leaseIds) {
      this.waits.get(leaseId)?.wake()
      const handle = this.handles.get(leaseId)
      handle?.wake()
      if (handle !== undefined) this.lookLater(handle)
    }
  }

  /** One look at a time, and one more later if a signal came meanwhile. */
  #lookAtAll(): void {
    if (this.handles.size === 0 || this.#closed) return
    this.#lookAgain = this.#looking
    if (this.#looking) return
    this.#looking = true
    const { runtime, background } = this.#options
    const startMs = runtime.monotonicMs()
    const rest = (): void => {
      if (this.#closed) return
      const restMs = (runtime.monotonicMs() - startMs) * REST_FACTOR
      this.#restTimer = runtime.setTimer(restMs, () => this.#rested(), { keepAlive: false })
    }
    background(
      'client/look',
      this.#findEnded()
        .finally(rest)
        .then(...this.#noted),
    )
  }

  #rested(): void {
    this.#restTimer = null
    this.#looking = false
    if (this.#lookAgain) this.#lookAtAll()
  }

  async #findEnded(): Promise<void> {
    const held = [...this.handles.values()]
    const suspects = held.length <= LOOKUPS_MAX ? held : await this.#notListed(held)
    await Promise.all(suspects.map((handle) => this.lookAt(handle)))
  }

  /**
   * What a list does not show need not have ended, since it may be cut short; what it shows may have changed: its
   * holder is asked to finish, or it was upgraded.
   */
  async #notListed(held: readonly LeaseHandle[]): Promise<readonly LeaseHandle[]> {
    const { api, holder, session } = this.#options
    const mine = { holder, session, state: 'active', limit: LIST_LIMIT_MAX } as const
    const { leases } = await api.list(mine)
    const calm = leases.filter((lease) => lease.revoking === null)
    const known = new Map(calm.map((lease) => [lease.id, lease.fence]))
    return held.filter((handle) => known.get(handle.id) !== handle.fence)
  }

  /** Finds out, in the background, how the store sees a lease. */
  lookLater(handle: LeaseHandle): void {
    this.#options.background('client/look', this.lookAt(handle).then(...this.#noted))
  }

  get #noted(): [() => void, (error: unknown) => void] {
    const { looks } = this.#options
    return [() => looks.succeeded(), (error) => looks.failed(error)]
  }

  /** What is left of the lease is counted from before the store was asked. */
  async lookAt(handle: LeaseHandle): Promise<void> {
    if (handle.isOver) return
    const { api, clock } = this.#options
    const sent = clock.now()
    handle.onLooked(await api.get({ id: handle.id }), sent)
  }
}
