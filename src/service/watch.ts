/**
 * Follows the ledger. While a watch is open it also settles what runs out, so that an expiry is seen within a second
 * although nobody asks for the resource; safety never depends on that.
 */
import type { Runtime } from '../runtime/runtime.ts'
import type { LedgerEntry, Store } from '../store-port/store.ts'
import type { SettleBatch } from './cleanup.ts'
import type { WatchFilter } from './lease-api.ts'

const SETTLE_EVERY_MS = 500
const PAGE = 500

export interface WatchSources {
  readonly store: Store
  readonly runtime: Runtime
  readonly settle: SettleBatch
}

export async function* watchLedger(
  sources: WatchSources,
  filter: WatchFilter,
): AsyncGenerator<LedgerEntry, void, undefined> {
  const { signal, after, ...where } = filter
  const bell = new Bell(sources, signal)
  try {
    let position = after ?? (await sources.store.end())
    while (!bell.stopped) {
      // Read before the page: if that is empty, nothing that was committed up to here is wanted.
      const end = await sources.store.end()
      const page = await sources.store.history({ ...where, after: position, limit: PAGE })
      for (const entry of page) {
        position = entry.position
        yield entry
        if (bell.stopped) return
      }
      if (page.length === PAGE) continue
      if (page.length === 0) position = end
      await bell.rung()
      if (bell.isTimeToSettle()) await sources.settle().catch(() => undefined)
    }
  } finally {
    bell.dispose()
  }
}

/** Rings when the ledger may have grown, when it is time to settle, or when the watch is over. */
class Bell {
  stopped = false
  readonly #sources: WatchSources
  readonly #signal: AbortSignal | undefined
  readonly #unfollow: () => void
  #waiting: (() => void) | null = null
  #changed = false
  #settleAtMs: number

  constructor(sources: WatchSources, signal: AbortSignal | undefined) {
    this.#sources = sources
    this.#signal = signal
    this.stopped = signal?.aborted ?? false
    this.#settleAtMs = sources.runtime.monotonicMs() + SETTLE_EVERY_MS
    this.#unfollow = sources.store.follow(this.#onChange)
    signal?.addEventListener('abort', this.#onAbort)
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

  dispose(): void {
    this.#unfollow()
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.#waiting?.()
  }

  #onChange = (): void => {
    this.#changed = true
    this.#waiting?.()
  }

  #onAbort = (): void => {
    this.stopped = true
    this.#waiting?.()
  }
}
