/** `tenure wait`: returns when no other holds or is promised a resource. It takes nothing and stands in no queue. */
import type { Blocker } from '../../core/conflict.ts'
import { show, LeaseError } from '../../core/errors.ts'
import type { LeaseEventType } from '../../core/event.ts'
import { kindOf, type Reach } from '../../core/resource.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { LeaseApi } from '../../service/lease-api.ts'
import { waitOption, type Option } from '../arguments.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import { readReach } from '../resource-argument.ts'
import { listenForInterruption, signalExitCode } from '../signals.ts'
import { missingFileOf, withApi } from '../store-access.ts'

type WaitTable = { readonly timeout: Option<number> }

export const wait: CliCommand = defineCommand({
  positionals: [
    {
      name: 'RESOURCE',
      help: 'kind:name, or a path, which means the file; with a / at its end, what is below it too',
    },
  ],
  options: {
    timeout: waitOption('timeout', 'give up after so long (default: forever)'),
  },
  notes: [
    'It takes nothing: another may be faster afterwards. To have the resource, acquire it with --wait. What the holder that asks has itself is not waited for.',
  ],
  examples: ['tenure wait src/app.ts', 'tenure wait port:5432 --timeout 100s'],
  run,
})

async function run(call: CliCall<WaitTable>): Promise<number> {
  const { identity, positionals, options, printer, cwd } = call
  const reach = readReach(positionals[0] ?? '', cwd)
  const interruption = listenForInterruption()
  const startMs = systemRuntime.monotonicMs()
  try {
    // Where no store was made yet, nothing is held.
    if (missingFileOf(identity) === null) {
      const { signal } = interruption
      const { holder } = identity
      const timeoutMs = options.timeout ?? Infinity
      const onBlocked = ({ holder: other }: Blocker): void => {
        printer.remark(`waiting for ${reach.resource}, which ${other} holds`)
      }
      const request = { reach, holder, timeoutMs, signal, onBlocked }
      await withApi(identity, (api) => waitUntilFree(api, request))
    }
    if (interruption.received !== null) return signalExitCode(interruption.received)
    const waitedMs = Math.round(systemRuntime.monotonicMs() - startMs)
    const { resource } = reach
    printer.answer({ resource, free: true, waitedMs }, () => `${resource} is free`)
    return 0
  } finally {
    interruption.stop()
  }
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

/** Looks, and looks again whenever something of the kind has ended or was to end by now. */
async function waitUntilFree(api: LeaseApi, request: FreeWait): Promise<void> {
  const { reach, holder, timeoutMs, signal } = request
  const startMs = systemRuntime.monotonicMs()
  const ended = new AbortController()
  const stop = (): void => ended.abort()
  signal.addEventListener('abort', stop)
  const filter = { kinds: [kindOf(reach.resource)], types: ENDINGS }
  const endings = api.watch(filter, { signal: ended.signal })[Symbol.asyncIterator]()
  let next = endings.next()
  let isBegun = false
  try {
    while (!signal.aborted) {
      const { blockers } = await api.inspect({ resource: reach.resource, extent: reach.extent })
      const others = blockers.filter((blocker) => blocker.holder !== holder)
      const [first] = others
      if (first === undefined) return
      if (!isBegun) request.onBlocked(first)
      isBegun = true
      const waitedMs = systemRuntime.monotonicMs() - startMs
      if (waitedMs >= timeoutMs) throw timeoutError(reach, others, Math.round(waitedMs))
      const firstMs = Math.min(...others.map(({ remainingMs }) => remainingMs))
      const hasEvent = await eventWithin(next, Math.min(firstMs + 1, timeoutMs - waitedMs))
      if (hasEvent) next = endings.next()
    }
  } finally {
    ended.abort()
    await next
    signal.removeEventListener('abort', stop)
  }
}

/** Whether the event came first. */
function eventWithin(event: Promise<unknown>, delayMs: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = systemRuntime.setTimer(delayMs, () => resolve(false), { keepAlive: true })
    const onEvent = (): void => {
      timer.cancel()
      resolve(true)
    }
    event.then(onEvent, reject)
  })
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
