/**
 * `tenure run`: holds a lease as long as a command runs. When the lease is lost the command is ended, because it can
 * no longer prove that it may go on; its own exit status is passed on otherwise.
 */
import type { Lease } from '../../client/contract.ts'
import { isLeaseError, LeaseError } from '../../core/errors.ts'
import { ACQUIRE_OPTIONS, acquireOptionsOf, type AcquireTable } from '../acquire-options.ts'
import { durationOption, type Option } from '../arguments.ts'
import { ChildCommand, type ChildEnd } from '../child-command.ts'
import { defineCommand, type Call, type Command } from '../command.ts'
import { visible } from '../output.ts'
import { readResource } from '../resource-argument.ts'
import { listenForInterruption, signalExitCode, type Interruption } from '../signals.ts'
import { withTenure } from '../store-access.ts'
import { STDERR, write } from '../terminal.ts'

const GRACE_MS_DEFAULT = 5_000
const GRACE_MS_MAX = 3_600_000

type RunTable = AcquireTable & { readonly grace: Option<number> }

const options: RunTable = {
  ...ACQUIRE_OPTIONS,
  grace: durationOption(
    { field: 'grace', minMs: 0, maxMs: GRACE_MS_MAX },
    'after a loss, the time between SIGTERM and SIGKILL (default: 5s)',
  ),
}

export const run: Command = defineCommand({
  positionals: [{ name: 'RESOURCE', help: 'kind:name, or a path, which means the file' }],
  rest: { name: 'COMMAND…', help: 'what to run, with its arguments' },
  options,
  notes: [
    'The command finds TENURE_RESOURCE, TENURE_LEASE_ID and TENURE_FENCE in its environment, and TENURE_STORE, TENURE_NAMESPACE and TENURE_HOLDER, so that tenure called from it works on the same store. Stdin, stdout and stderr are its own, also with --json. The lease renews itself until the command ends and is then released. If the lease is lost the command is ended and the exit status is 14; otherwise it is that of the command (128 + n if signal n ended it, 127 if it was not found, 126 if it could not be run).',
    'A tenure run that is itself killed with SIGKILL cannot end its command: have what the command writes to check TENURE_FENCE.',
  ],
  examples: [
    'tenure run src/app.ts --ttl 30s --wait 1m --reason "applying patch 12" -- git apply 12.patch',
    'tenure run deploy:production --blocking -- ./deploy.sh',
  ],
  run: runCommand,
})

async function runCommand(call: Call<RunTable>): Promise<number> {
  const interruption = listenForInterruption()
  try {
    return await holdAndRun(call, interruption)
  } catch (error) {
    const { received } = interruption
    const cancelled = received !== null && isLeaseError(error) && error.code === 'ABORTED'
    if (!cancelled) throw error
    return signalExitCode(received)
  } finally {
    interruption.stop()
  }
}

async function holdAndRun(call: Call<RunTable>, interruption: Interruption): Promise<number> {
  const { identity, cwd, positionals } = call
  const resource = readResource(positionals[0] ?? '', cwd)
  const wanted = acquireOptionsOf(call.options)
  return withTenure(identity, async (tenure) => {
    const lease = await tenure.acquire(resource, { ...wanted, signal: interruption.signal })
    if (interruption.received !== null) {
      await lease.release({ reason: 'aborted' })
      return signalExitCode(interruption.received)
    }
    const child = new ChildCommand(call.rest, { ...process.env, ...environmentOf(call, lease) })
    interruption.onSignal((name) => child.forward(name))
    const end = await untilEnd(child, lease, call.options.grace ?? GRACE_MS_DEFAULT)
    return finish(lease, end)
  })
}

function environmentOf({ identity }: Call<RunTable>, lease: Lease): NodeJS.ProcessEnv {
  return {
    ...(identity.namespace === null ? {} : { TENURE_NAMESPACE: identity.namespace }),
    TENURE_STORE: identity.url,
    TENURE_HOLDER: identity.holder,
    TENURE_RESOURCE: lease.resource,
    TENURE_LEASE_ID: lease.id,
    TENURE_FENCE: String(lease.fence),
  }
}

/** Waits for the command, and ends it if the lease is lost before. */
async function untilEnd(child: ChildCommand, lease: Lease, graceMs: number): Promise<ChildEnd> {
  const terminations: Promise<void>[] = []
  const onLoss = (): void => void terminations.push(child.terminate(graceMs))
  lease.signal.addEventListener('abort', onLoss, { once: true })
  if (lease.signal.aborted) onLoss()
  const end = await child.ended
  lease.signal.removeEventListener('abort', onLoss)
  await Promise.all(terminations)
  return end
}

async function finish(lease: Lease, end: ChildEnd): Promise<number> {
  if (lease.signal.aborted) throw lostWhileRunning(lease, lease.signal.reason)
  try {
    await lease.release({ reason: end.exitCode === 0 ? 'completed' : 'aborted' })
  } catch (error) {
    if (lease.state === 'lost') throw lostWhileRunning(lease, error)
    const message = error instanceof Error ? error.message : String(error)
    remark(`tenure: ${lease.resource} was not released and runs out by itself: ${message}`)
  }
  if (end.kind === 'not_started') remark(`tenure: cannot run ${end.problem}`)
  return end.exitCode
}

function lostWhileRunning(lease: Lease, cause: unknown): LeaseError {
  const { resource, id: leaseId, fence } = lease
  const why = cause instanceof Error ? cause.message : `lease ${leaseId} of ${resource} was lost`
  const details = { resource, leaseId, fence }
  return new LeaseError('LEASE_LOST', `${why}, while the command ran`, { cause, details })
}

/** Not through the printer: stdout belongs to the command, and this must be said with `--json` too. */
function remark(text: string): void {
  write(STDERR, `${visible(text)}\n`)
}
