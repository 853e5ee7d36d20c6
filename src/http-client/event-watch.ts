/**
 * Follows the ledger through a server. A stream that is cut is opened again after its last position, at the same server
 * or the next one, so that nothing is lost or repeated. A watch that has read once does not end when servers fail later.
 */
import { isLeaseError } from '../core/errors.ts'
import { readAnswer } from '../protocol/answers.ts'
import { EVENTS_PATH } from '../protocol/http.ts'
import { onAbort } from '../runtime/abort-listeners.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LedgerEntry, Position, WatchFilter, WatchObserver } from '../service/lease-api.ts'
import { readEvents, type SentEvent } from './event-source.ts'
import { backOffMs, isAway, type HttpServers, type OpenStream } from './http-servers.ts'
import { parseJson } from './wire/json.ts'

export interface EventWatchSources {
  readonly servers: HttpServers
  readonly runtime: Runtime
  readonly signal: AbortSignal
  readonly observer: WatchObserver | undefined
}

export async function* watchEvents(
  sources: EventWatchSources,
  filter: WatchFilter,
): AsyncGenerator<LedgerEntry, void, undefined> {
  const { servers, runtime, signal, observer } = sources
  const outage = new Outage(sources)
  let { after } = filter
  while (!signal.aborted) {
    const path = pathOf(filter, after)
    const stream = await servers
      .stream({ path, headers: {}, keepAlive: true, signal })
      .catch((error: unknown) => outage.survive(error))
    if (stream !== null) {
      for await (const { id, data } of untilCut(stream)) {
        outage.end()
        if (data !== null) {
          const { position, event } = readAnswer('watch', parseJson(data)) as LedgerEntry
          yield { position, event }
        }
        if (signal.aborted) return
        after = id ?? after
        if (after !== undefined) observer?.onPosition(after)
      }
    }
    await pause(runtime, backOffMs(outage.count, runtime), signal)
  }
}

/** Decides whether a stream that cannot be opened is the end of the watch. */
class Outage {
  readonly #sources: EventWatchSources
  readonly #fault: RepeatedFault
  #wasRead = false

  constructor(sources: EventWatchSources) {
    this.#sources = sources
    this.#fault = new RepeatedFault('http-client/watch', sources.runtime)
  }

  get count(): number {
    return this.#fault.count
  }

  /** Throws what the watch does not survive. */
  survive(error: unknown): null {
    const { signal, observer } = this.#sources
    if (signal.aborted) return null
    if (!this.#wasRead || !isLeaseError(error) || !isAway(error)) throw error
    if (this.#fault.count === 0) observer?.onAway(error)
    this.#fault.failed(error)
    return null
  }

  end(): void {
    this.#wasRead = true
    if (this.#fault.count > 0) this.#sources.observer?.onBack()
    this.#fault.succeeded()
  }
}

async function* untilCut({ response }: OpenStream): AsyncGenerator<SentEvent> {
  try {
    yield* readEvents(response)
  } catch (error) {
    // A cut is no fault: the stream goes on elsewhere, and an outage is told where it cannot be opened.
    if (!isLeaseError(error) || !isAway(error)) throw error
  } finally {
    response.destroy()
  }
}

/** The filter as a query: lists are separated by commas. */
function pathOf(filter: WatchFilter, after: Position | undefined): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries({ ...filter, after })) {
    if (value !== undefined) query.set(name, String(value))
  }
  return `${EVENTS_PATH}?${query.toString()}`
}

async function pause(runtime: Runtime, pauseMs: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted || pauseMs === 0) return
  await new Promise<void>((resolve) => {
    const timer = runtime.setTimer(
      pauseMs,
      () => {
        stop()
        resolve()
      },
      { keepAlive: true },
    )
    const stop = onAbort(signal, () => {
      timer.cancel()
      resolve()
    })
  })
}
