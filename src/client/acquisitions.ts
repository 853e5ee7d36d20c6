/**
 * Everything a client waits for and holds: it runs the waits, turns grants into handles, and gives all of it back at
 * the end.
 *
 * Work that no caller waits for is kept account of here, so that nothing rejects into the void and `close` leaves
 * nothing behind: no timer, no subscription, no ticket, and no lease but those that were abandoned on purpose.
 */
import { LeaseError } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import type { Held } from '../core/outcome.ts'
import { realmOf } from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { AcquireRequest, LeaseApi } from '../service/lease-api.ts'
import { FenceMemory, isStale, type SeenFence } from './fence-memory.ts'
import { HolderClock } from './holder-clock.ts'
import { insist } from './insist.ts'
import { LeaseHandle, type HandleParts } from './lease-handle.ts'
import type { ReadAcquire } from './read-options.ts'
import { RenewalScheduler } from './renewal-scheduler.ts'
import { Wait, type Obtained, type WaitParts } from './waiting.ts'
import { WakeRouter } from './wake-router.ts'

export interface AcquisitionParts {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly holder: string
  readonly session: string
  readonly claimWindowMs: number | null
}

export type Obtaining = { readonly kind: 'granted'; readonly lease: LeaseHandle } | Held

const DISCARD_WITHIN_MS = 5_000
/** A store that does not answer must not keep `close` from ending. */
const CLOSE_WITHIN_MS = 10_000

export class Acquisitions {
  readonly #parts: AcquisitionParts
  readonly #clock: HolderClock
  readonly #holding: RenewalScheduler
  readonly #waiting: RenewalScheduler
  readonly #router: WakeRouter
  readonly #fences = new FenceMemory()
  readonly #background = new Set<Promise<void>>()
  #closed = false

  constructor(parts: AcquisitionParts) {
    const { api, runtime, holder, session } = parts
    const background = this.background
    this.#parts = parts
    this.#clock = new HolderClock(runtime)
    this.#holding = new RenewalScheduler({ runtime, clock: this.#clock, keepAlive: false })
    this.#waiting = new RenewalScheduler({ runtime, clock: this.#clock, keepAlive: true })
    this.#router = new WakeRouter({ api, runtime, holder, session, background })
  }

  obtain(wanted: ReadAcquire): Promise<Obtaining> {
    const work = this.#obtain(wanted)
    this.background(work)
    return work
  }

  async #obtain({ wish, autoRenew, signal }: ReadAcquire): Promise<Obtaining> {
    const { holder, session, claimWindowMs } = this.#parts
    const window = claimWindowMs === null ? {} : { claimWindowMs }
    const request: AcquireRequest = { ...wish, holder, session, ...window }
    const known = this.#router.handles.get(request.leaseId)
    // A repeat of what this client holds is that handle: asking the store would put it at risk of being withdrawn.
    if (known?.state === 'held' && known.resource === request.resource) {
      return { kind: 'granted', lease: known }
    }
    const before = this.#fences.highest(realmOf(wish.resource))
    const outcome = await this.#waitFor(request, signal)
    if (outcome.kind === 'held') return outcome
    this.#verify(outcome, before)
    return { kind: 'granted', lease: this.#handOut(outcome, autoRenew) }
  }

  /** Takes over work that no caller waits for. */
  readonly background = (work: Promise<unknown>): void => {
    const done = work.then(
      () => void this.#background.delete(done),
      () => void this.#background.delete(done),
    )
    this.#background.add(done)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#router.close()
    for (const wait of this.#router.waits.values()) wait.cancel(closedError())
    for (const handle of [...this.#router.handles.values()]) {
      if (handle.isAbandoned) handle.detach()
      else this.background(handle.release())
    }
    await this.#backgroundEnds()
    this.#holding.close()
    this.#waiting.close()
  }

  async #waitFor(
    request: AcquireRequest,
    signal: AbortSignal | undefined,
  ): Promise<Obtained | Held> {
    const { waits } = this.#router
    const { leaseId } = request
    if (waits.has(leaseId)) {
      const message = `lease id ${leaseId} is already being asked for`
      throw new LeaseError('LEASE_EXISTS', message, { details: { leaseId } })
    }
    const wait = new Wait(this.#waitParts, request)
    waits.set(leaseId, wait)
    try {
      return await wait.run(signal)
    } finally {
      waits.delete(leaseId)
    }
  }

  /** Refuses what must not be handed out, and gives it back. */
  #verify({ lease, repeated }: Obtained, before: SeenFence | null): void {
    if (this.#closed) {
      this.#discard(lease)
      throw closedError()
    }
    const fence = fenceOf(lease)
    if (!isStale({ fence, leaseId: lease.id, repeated }, before)) return
    this.#discard(lease)
    const { resource } = lease
    throw new LeaseError(
      'STORE_UNAVAILABLE',
      `the store granted ${resource} with fence ${fence} after ${before?.fence}: it has lost data`,
      { details: { resource, fence, seenFence: before?.fence } },
    )
  }

  /** A repeated grant of a lease that this client still holds is the handle that it already has. */
  #handOut({ lease, term, now }: Obtained, autoRenew: boolean): LeaseHandle {
    const fence = fenceOf(lease)
    this.#fences.remember(realmOf(lease.resource), { fence, leaseId: lease.id })
    const { handles } = this.#router
    const known = handles.get(lease.id)
    if (known !== undefined && !known.isOver) return known
    const facts = { lease: { ...lease, fence }, term, now, autoRenew }
    const handle = new LeaseHandle(this.#handleParts, facts)
    handles.set(lease.id, handle)
    this.#router.listenSoon()
    return handle
  }

  #discard({ id: leaseId, resource, session }: LeaseInfo): void {
    const { api, runtime } = this.#parts
    const ticket = { leaseId, resource, session, why: 'aborted' } as const
    const limits = { runtime, withinMs: DISCARD_WITHIN_MS }
    this.background(insist(limits, async () => api.withdraw(ticket)))
  }

  get #waitParts(): WaitParts {
    const { api, runtime } = this.#parts
    const scheduler = this.#waiting
    const onQueued = (): void => this.#router.listen()
    return { api, runtime, clock: this.#clock, scheduler, background: this.background, onQueued }
  }

  get #handleParts(): HandleParts {
    const { api, runtime } = this.#parts
    const { handles } = this.#router
    const scheduler = this.#holding
    const onEnd = (handle: LeaseHandle): void => {
      if (handles.get(handle.id) === handle) handles.delete(handle.id)
    }
    return { api, runtime, clock: this.#clock, scheduler, background: this.background, onEnd }
  }

  async #backgroundEnds(): Promise<void> {
    const { runtime } = this.#parts
    let isLate = false
    let giveUp = (): void => undefined
    const late = new Promise<void>((resolve) => (giveUp = resolve))
    const onLate = (): void => {
      isLate = true
      giveUp()
    }
    const timer = runtime.setTimer(CLOSE_WITHIN_MS, onLate, { keepAlive: true })
    while (this.#background.size > 0 && !isLate) {
      await Promise.race([Promise.all(this.#background), late])
    }
    timer.cancel()
  }
}

export function closedError(): LeaseError {
  return new LeaseError('CLOSED', 'the client was closed')
}

function fenceOf(lease: LeaseInfo): number {
  if (lease.fence !== null) return lease.fence
  throw new Error(`lease ${lease.id} was granted without a fence`)
}
