/** `tenure wait`: returns when no other holds or is promised a resource. It takes nothing and stands in no queue. */
import type { Blocker } from '../../core/conflict.ts'
import { show, LeaseError } from '../../core/errors.ts'
import type { LeaseEventType } from '../../core/event.ts'
import { isRetryable } from '../../client/retry.ts'
import { kindOf, type Reach } from '../../core/resource.ts'
import { onAbort } from '../../runtime/abort-listeners.ts'
import { backOffMs, pause } from '../../runtime/pause.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { LeaseApi } from '../../service/lease-api.ts'
import { waitOption } from '../arguments.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import { readReach } from '../resource-argument.ts'
import { interruptible, signalExitCode } from '../signals.ts'
import { missingFileOf, withApi } from '../store-access.ts'

const options = {
  timeout: waitOption('timeout', 'give up after so long (default: forever)'),
}

export const wait: CliCommand = defineCommand({
  positionals: [
    {
      name: 'RESOURCE',
      help: 'kind:name, or a path, which means the file; with a / at its end, what is below it too',
    },
  ],
  options,
  notes: [
    'It takes nothing: another may be faster afterwards. To have the resource, acquire it with --wait. What the holder that asks has itself is not waited for.',
  ],
  examples: ['tenure wait src/app.ts', 'tenure wait port:5432 --timeout 100s'],
  run,
})

async function run(call: CliCall<typeof options>): Promise<number> {
  const { identity, positionals, options, printer, cwd } = call
  const reach = readReach(positionals[0] ?? '', cwd)
  const { resource } = reach
  const startMs = systemRuntime.monotonicMs()
  return interruptible(async (interruption) => {
    // Where no store was made yet, nothing is held.
    if (missingFileOf(identity) === null) {
      const { signal } = interruption
      const { holder } = identity
      const timeoutMs = options.timeout ?? Infinity
      const onBlocked = ({ holder: other }: Blocker): void => {
        printer.remark(`waiting for ${resource}, which ${other} holds`)
      }
      const request = { reach, holder, timeoutMs, signal, onBlocked }
      await withApi(identity, (api) => waitUntilFree(api, request))
    }
    if (interruption.received !== null) return signalExitCode(interruption.received)
    const waitedMs = Math.round(systemRuntime.monotonicMs() - startMs)
    printer.answer({ resource, free: true, waitedMs }, () => `${resource} is free`)
    return 0
  })
}

interface FreeWait {
  readonly reach: Reach
  readonly holder: string
  readonly timeoutMs: number
  readonly signal: AbortSignal
  /** Called once, when the wait begins. */
  readonly onBlocked: (blocker: Blocker) => void
}

/** After these something may be free that was not. */
const ENDINGS: readonly LeaseEventType[] = [
  ...(['lease.released', 'lease.expired', 'lease.revoked', 'lease.transferred'] as const),
  ...(['lease.downgraded', 'lease.unlocked', 'lease.failed'] as const),
]

/**
 * Looks, and looks again whenever something of the kind has ended or was to end by now. A store that is away is asked again,
 * as by `acquire --wait`: once it has answered, and from the beginning where a timeout is named. When that is over the wait
 * has timed out if the store ever answered.
 */
async function waitUntilFree(api: LeaseApi, request: FreeWait): Promise<void> {
  const { reach, holder, timeoutMs, signal } = request
  const startMs = systemRuntime.monotonicMs()
  const waitedMs = (): number => Math.round(systemRuntime.monotonicMs() - startMs)
  const endings = new Endings(api, kindOf(reach.resource), signal)
  let seen: readonly Blocker[] | null = null
  let failures = 0
  while (!signal.aborted) {
    try {
      const ending = endings.next()
      const { blockers } = await api.inspect({ resource: reach.resource, extent: reach.extent })
      const others = blockers.filter((blocker) => blocker.holder !== holder)
      const [first] = others
      if (first === undefined) return endings.close()
      if (seen === null) request.onBlocked(first)
      seen = others
      failures = 0
      if (waitedMs() >= timeoutMs) throw timeoutError(reach, others, waitedMs())
      const firstMs = Math.min(...others.map(({ remainingMs }) => remainingMs))
      await endedWithin(ending, Math.min(firstMs + 1, timeoutMs - waitedMs()))
    } catch (error) {
      const isCovered = seen !== null || timeoutMs !== Infinity
      const isOver = waitedMs() >= timeoutMs
      if (isCovered && !isOver && isRetryable(error)) {
        failures += 1
        const pauseMs = Math.min(backOffMs(failures, AWAY_AGAIN), timeoutMs - waitedMs())
        await pause(systemRuntime, pauseMs, { keepAlive: true, signal })
        continue
      }
      endings.close()
      throw seen !== null && isRetryable(error) ? timeoutError(reach, seen, waitedMs()) : error
    }
  }
}

const AWAY_AGAIN = { firstMs: 100, maxMs: 1_000 }

/** Resolves with the ending or when the time is over. */
function endedWithin(ending: Promise<void>, withinMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = systemRuntime.setTimer(withinMs, resolve, { keepAlive: true })
    const end = (): void => {
      timer.cancel()
      resolve()
    }
    ending.then(end, (error: unknown) => {
      timer.cancel()
      reject(error as Error)
    })
  })
}

/**
 * What may free a resource of a kind, followed from the first call of `next` on. A look that was made before the watch stood
 * may have missed an ending, so that it stands counts as one.
 */
class Endings {
  readonly #api: LeaseApi
  readonly #kind: string
  readonly #closing = new AbortController()
  #events: AsyncIterator<unknown> | null = null
  #event: Promise<void> | null = null
  /** Null once a caller has heard of it. */
  #stands: Promise<void> | null = null

  constructor(api: LeaseApi, kind: string, signal: AbortSignal) {
    this.#api = api
    this.#kind = kind
    onAbort(signal, () => this.close())
  }

  /** Resolves with the next one. One that fails is asked for anew by the next call. */
  next(): Promise<void> {
    this.#events ??= this.#watch()
    this.#event ??= this.#events.next().then(
      () => {
        this.#event = null
      },
      (error: unknown) => {
        this.#event = null
        this.#events = null
        throw error
      },
    )
    const stands = this.#stands?.then(() => {
      this.#stands = null
    })
    const next = stands === undefined ? this.#event : Promise.race([this.#event, stands])
    // No fault: the caller hears it where it waits for the ending.
    next.catch(() => undefined)
    return next
  }

  #watch(): AsyncIterator<unknown> {
    let onPosition = (): void => undefined
    this.#stands = new Promise((resolve) => (onPosition = resolve))
    const filter = { kinds: [this.#kind], types: ENDINGS }
    const observer = {
      onAway: () => undefined,
      onBack: () => undefined,
      onPosition: () => onPosition(),
    }
    const { signal } = this.#closing
    return this.#api.watch(filter, { signal, observer })[Symbol.asyncIterator]()
  }

  close(): void {
    this.#closing.abort()
  }
}

function timeoutError(
  { resource }: Reach,
  blockers: readonly Blocker[],
  waitedMs: number,
): LeaseError {
  const [first] = blockers
  const who = first === undefined ? '' : `: ${show(first.holder)} is in the way`
  const message = `${resource} did not become free within ${waitedMs} ms${who}`
  return new LeaseError('WAIT_TIMEOUT', message, { details: { resource, waitedMs, blockers } })
}
