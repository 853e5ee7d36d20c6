/**
 * Follows the ledger. While a watch is open it also settles what runs out, so that an expiry is seen within a second
 * although no client asks for the resource; safety never depends on that.
 *
 * A watch that could read the store once does not end when it fails later: the watch goes on from its position, with
 * growing pauses, until it can be read again. Nothing is lost or repeated, because the position only moves with what
 * was read.
 */
import { isLeaseError, type ErrorCode, type LeaseError } from '../core/errors.ts'
import { onAbort } from '../runtime/abort-listeners.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { backOffMs } from '../runtime/pause.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LedgerEntry, Position, Store } from '../store-port/store.ts'
import type { SettleBatch } from './cleanup.ts'
import type { WatchFilter, WatchLocals, WatchObserver } from './lease-api.ts'

const SETTLE_EVERY_MS = 500
const SETTLE_PAUSE_MS_MAX = 30_000
const PAGE = 500
const RETRY = { firstMs: 100, maxMs: 2_000 }
const PASSING: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'STORE_UNAVAILABLE',
  'STORE_OUTCOME_UNKNOWN',
  'STORE_CONFLICT',
])

export interface WatchSources extends WatchLocals {
  /** Throws once it is closed. */
  readonly store: () => Store
  readonly follow: Store['follow']
  readonly runtime: Runtime
  readonly settle: SettleBatch
}

export async function* watchLedger(
  sources: WatchSources,
  { after, ...where }: WatchFilter,
): AsyncGenerator<LedgerEntry, void, undefined> {
  const { signal, observer, runtime } = sources
  const bell = new Bell(sources, signal)
  const outage = new Outage('service/watch', sources)
  const settling = new Settling(sources)
  const move = (to: Position): Position => {
    observer?.onPosition(to)
    return to
  }
  try {
    const start = after ?? (await bell.unlessStopped(sources.store().end()))
    if (start === null) return
    let position = start
    while (!bell.stopped) {
      const look = readOn(sources.store(), { ...where, after: position })
      const read = await bell.unlessStopped(look.catch((error: unknown) => outage.survive(error)))
      if (bell.stopped) return
      if (read === null) {
        // Random, so that watchers do not come back all at once.
        await bell.pause((backOffMs(outage.count, RETRY) * (1 + runtime.random())) / 2)
        continue
      }
      outage.end()
      move(position)
      for (const entry of read.page) {
        yield entry
        position = move(entry.position)
        if (bell.stopped) return
      }
      if (read.page.length === PAGE) continue
      if (read.page.length === 0) position = move(read.end)
      await bell.rung()
      if (bell.isTimeToSettle()) await bell.unlessStopped(settling.settle())
    }
  } finally {
    bell.dispose()
  }
}

interface Read {
  readonly end: Position
  readonly page: readonly LedgerEntry[]
}

async function readOn(
  store: Store,
  where: Omit<WatchFilter, 'signal' | 'observer'>,
): Promise<Read> {
  // Read before the page: if that is empty, nothing that was committed up to here is wanted.
  const end = await store.end()
  return { end, page: await store.history({ ...where, unbroken: true, limit: PAGE }) }
}

/** Decides whether a failed look is the end of a watch, whose observer hears once of a store that is away. */
export class Outage {
  readonly #observer: WatchObserver | undefined
  readonly #fault: RepeatedFault
  #wasRead = false

  /** `source`: what it is reported under. */
  constructor(
    source: string,
    {
      runtime,
      observer,
    }: { readonly runtime: Runtime; readonly observer?: WatchObserver | undefined },
  ) {
    this.#observer = observer
    this.#fault = new RepeatedFault(source, runtime)
  }

  /** How many looks have failed in a row. */
  get count(): number {
    return this.#fault.count
  }

  /** Throws what the watch does not survive. */
  survive(error: unknown): null {
    if (!this.#wasRead || !isPassing(error)) throw error
    if (this.count === 0) this.#observer?.onAway(error)
    this.#fault.failed(error)
    return null
  }

  end(): void {
    this.#wasRead = true
    if (this.count > 0) this.#observer?.onBack()
    this.#fault.succeeded()
  }
}

/** Settles what runs out. While that fails, the watch goes on without, and it is tried again after growing pauses. */
class Settling {
  readonly #sources: WatchSources
  readonly #fault: RepeatedFault
  #notBeforeMs = -Infinity

  constructor(sources: WatchSources) {
    this.#sources = sources
    this.#fault = new RepeatedFault('service/watch/settle', sources.runtime)
  }

  async settle(): Promise<void> {
    const { runtime, settle } = this.#sources
    if (runtime.monotonicMs() < this.#notBeforeMs) return
    try {
      await settle()
      this.#fault.succeeded()
    } catch (error) {
      // Closing the store ends the watch with it.
      if (isLeaseError(error) && error.code === 'CLOSED') return
      this.#fault.failed(error)
      const pauseMs = SETTLE_EVERY_MS * 2 ** Math.min(this.#fault.count, 10)
      this.#notBeforeMs = runtime.monotonicMs() + Math.min(SETTLE_PAUSE_MS_MAX, pauseMs)
    }
  }
}

function isPassing(error: unknown): error is LeaseError {
  return isLeaseError(error) && PASSING.has(error.code)
}

/** Rings when the ledger may have grown, when it is time to settle, or when the watch is over. */
class Bell {
  stopped = false
  readonly #sources: WatchSources
  readonly #stopListening: (() => void) | null
  readonly #unfollow: () => void
  #waiting: (() => void) | null = null
  #leaveCall: (() => void) | null = null
  #changed = false
  #settleAtMs: number

  constructor(sources: WatchSources, signal: AbortSignal | undefined) {
    this.#sources = sources
    this.stopped = signal?.aborted ?? false
    this.#settleAtMs = sources.runtime.monotonicMs() + SETTLE_EVERY_MS
    this.#unfollow = sources.follow(this.#onChange)
    this.#stopListening = signal === undefined ? null : onAbort(signal, this.#onAbort)
  }

  /** However often the ledger grows, what has run out is settled in time. */
  isTimeToSettle(): boolean {
    const nowMs = this.#sources.runtime.monotonicMs()
    if (nowMs < this.#settleAtMs) return false
    this.#settleAtMs = nowMs + SETTLE_EVERY_MS
    return true
  }

  rung(): Promise<void> {
    if (this.#changed || this.stopped) {
      this.#changed = false
      return Promise.resolve()
    }
    const { runtime } = this.#sources
    const leftMs = Math.max(1, this.#settleAtMs - runtime.monotonicMs())
    return new Promise((resolve) => {
      const timer = runtime.setTimer(leftMs, () => this.#waiting?.(), { keepAlive: true })
      this.#waiting = () => {
        timer.cancel()
        this.#waiting = null
        this.#changed = false
        resolve()
      }
    })
  }

  /** Null when the watch is over first: a store that does not answer must not keep it open. */
  unlessStopped<Answer>(call: Promise<Answer>): Promise<Answer | null> {
    return new Promise((resolve, reject) => {
      this.#leaveCall = () => resolve(null)
      if (this.stopped) resolve(null)
      call.then(resolve, reject)
    })
  }

  async pause(pauseMs: number): Promise<void> {
    if (this.stopped) return
    await new Promise<void>((resolve) => {
      const timer = this.#sources.runtime.setTimer(pauseMs, resolve, { keepAlive: true })
      this.#leaveCall = () => {
        timer.cancel()
        resolve()
      }
    })
  }

  dispose(): void {
    this.#unfollow()
    this.#stopListening?.()
    this.#waiting?.()
  }

  #onChange = (): void => {
    this.#changed = true
    this.#waiting?.()
  }

  #onAbort = (): void => {
    this.stopped = true
    this.#waiting?.()
    this.#leaveCall?.()
  }
}
