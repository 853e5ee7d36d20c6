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
      const page = await sources.store.history({ ...where, after: position, limit: PAGE })
      for (const entry of page) {
        position = entry.position
        yield entry
        if (bell.stopped) return
      }
      if (page.length === 0 && (await bell.rung()) === 'timer') await sources.settle()
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
  #waiting: ((why: 'change' | 'timer') => void) | null = null
  #changed = false

  constructor(sources: WatchSources, signal: AbortSignal | undefined) {
    this.#sources = sources
    this.#signal = signal
    this.stopped = signal?.aborted ?? false
    this.#unfollow = sources.store.follow(this.#onChange)
    signal?.addEventListener('abort', this.#onAbort)
  }

  rung(): Promise<'change' | 'timer'> {
    if (this.#changed || this.stopped) {
      this.#changed = false
      return Promise.resolve('change')
    }
    const { runtime } = this.#sources
    return new Promise((resolve) => {
      const timer = runtime.setTimer(SETTLE_EVERY_MS, () => this.#ring('timer'), {
        keepAlive: true,
      })
      this.#waiting = (why) => {
        timer.cancel()
        this.#waiting = null
        this.#changed = false
        resolve(why)
      }
    })
  }

  dispose(): void {
    this.#unfollow()
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.#ring('change')
  }

  #onChange = (): void => {
    this.#changed = true
    this.#ring('change')
  }

  #onAbort = (): void => {
    this.stopped = true
    this.#ring('change')
  }

  #ring(why: 'change' | 'timer'): void {
    this.#waiting?.(why)
  }
}
