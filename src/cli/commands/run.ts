/**
 * `tenure run`: holds a lease, or several, as long as a command runs. When one is lost the command is ended, because it
 * can no longer prove that it may go on; its own exit status is passed on otherwise.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Lease, LeaseEvents } from '../../client/contract.ts'
import { type ErrorCode, isLeaseError, LeaseError, messageOf } from '../../core/errors.ts'
import { report } from '../../runtime/diagnostics.ts'
import { fs, hasCode } from '../../runtime/file-system.ts'
import { type HeldLeases, withLeases } from '../acquire-leases.ts'
import { ACQUIRE_OPTIONS, type AcquireTable, RESOURCES, wantedLeases } from '../acquire-options.ts'
import { durationOption, integerOption, type Option } from '../arguments.ts'
import { type CliCall, type CliCommand, defineCommand } from '../command.ts'
import { formatSpan } from '../duration.ts'
import { visible } from '../output.ts'
import { reportError } from '../report-error.ts'
import { type Interruption, interruptible, signalExitCode } from '../signals.ts'
import { isTty, STDERR, write } from '../terminal.ts'

const GRACE_MS_DEFAULT = 5_000
const GRACE_MS_MAX = 3_600_000

type RunTable = AcquireTable & {
  readonly grace: Option<number>
  readonly 'conflict-exit-code': Option<number>
}

/** The resource is another's, and the command was not run. */
const CONFLICTS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'RESOURCE_HELD',
  'WAIT_TIMEOUT',
  'DEADLOCK',
])

const options: RunTable = {
  ...ACQUIRE_OPTIONS,
  grace: durationOption(
    { field: 'grace', minMs: 0, maxMs: GRACE_MS_MAX },
    'after a loss, the time between SIGTERM and SIGKILL (default: 5s)',
  ),
  'conflict-exit-code': integerOption(
    { field: 'conflict-exit-code', min: 0, max: 255 },
    'exit with N when the command was not run because the resource is held, the wait timed out or would never end (default: 10 or 11)',
  ),
}

export const run: CliCommand = defineCommand({
  positionals: [RESOURCES],
  rest: { name: 'COMMAND…', help: 'what to run, with its arguments' },
  options,
  notes: [
    'The command finds TENURE_RESOURCE, TENURE_LEASE_ID and TENURE_FENCE in its environment, those of the first if there are several, all of them as JSON in TENURE_LEASES, and TENURE_STORE, TENURE_NAMESPACE, TENURE_HOLDER and TENURE_SESSION, so that tenure called from it works on the same store as part of the same session: asking for what this run holds is refused at once, and a cycle of runs that wait for each other is found (DEADLOCK). Stdin, stdout and stderr are its own, also with --json. The leases renew themselves until the command ends and are then released together. If one is lost the command is ended and the exit status is 14; otherwise it is that of the command (128 + n if signal n ended it, 127 if it was not found, 126 if it could not be run). A command that itself exits with 10 or 11 looks like one that was not run; --conflict-exit-code gives that a status of its own.',
    'When somebody asks for a lease with a grace (tenure revoke --grace, or a waiter where you said --breakable), that is said on stderr, and the command is ended with the grace if it has not ended before.',
    'Every signal that would end it and can be caught is passed on to the command. A tenure run that is itself ended by SIGKILL, by a real-time signal (SIGRTMIN and above) or by one like SIGSEGV cannot end its command, which runs on, nor can one that is stopped renew its lease: have what the command writes to check TENURE_FENCE.',
  ],
  examples: [
    'tenure run src/app.ts --ttl 30s --wait 1m --reason "applying patch 12" -- git apply 12.patch',
    'tenure run deploy:production --blocking -- ./deploy.sh',
    'tenure run src/ work:W-17 --wait 5m -- ./rename.sh',
  ],
  run: runCommand,
})

async function runCommand(call: CliCall<RunTable>): Promise<number> {
  try {
    return await interruptible((interruption) => holdAndRun(call, interruption))
  } catch (error) {
    const conflictExitCode = call.options['conflict-exit-code']
    if (conflictExitCode === undefined || !isLeaseError(error) || !CONFLICTS.has(error.code)) {
      throw error
    }
    const { json } = call.printer
    reportError(error, { json, debug: false, write: (text) => write(STDERR, text) })
    return conflictExitCode
  }
}

function holdAndRun(call: CliCall<RunTable>, interruption: Interruption): Promise<number> {
  const { identity } = call
  const holding = { identity, signal: interruption.signal, autoRenew: true }
  return withLeases(wantedLeases(call), holding, async (held, tenure) => {
    if (interruption.received !== null) {
      await held.whole.release({ reason: 'aborted' })
      return signalExitCode(interruption.received)
    }
    for (const lease of held.leases) lease.on('revoking', (request) => tell(lease, request))
    const env = { ...environmentOf(call, held), TENURE_SESSION: tenure.session }
    const child = startedCommand(call.rest, { ...process.env, ...env })
    if (!(child instanceof ChildCommand)) return finish(held, child)
    interruption.onSignal((name) => child.forward(name))
    return finish(held, await untilEnd(child, held, call.options.grace ?? GRACE_MS_DEFAULT))
  })
}

/** The command goes on: only it can know how much of the grace it needs. */
function tell({ resource }: Lease, { by, reason, remainingMs }: LeaseEvents['revoking']): void {
  const why = reason === null ? '' : `: ${reason}`
  remark(`tenure: ${by} asks to finish ${resource} within ${formatSpan(remainingMs)}${why}`)
}

function environmentOf({ identity }: CliCall<RunTable>, held: HeldLeases): NodeJS.ProcessEnv {
  const { first, leases } = held
  const facts = leases.map(({ id, resource, mode, extent, fence }) => {
    return { id, resource, mode, extent, fence }
  })
  return {
    ...(identity.namespace === null ? {} : { TENURE_NAMESPACE: identity.namespace }),
    TENURE_STORE: identity.url,
    TENURE_HOLDER: identity.holder,
    TENURE_RESOURCE: first.resource,
    TENURE_LEASE_ID: first.id,
    TENURE_FENCE: String(first.fence),
    TENURE_LEASES: JSON.stringify(facts),
  }
}

/** Of a path through a file, of arguments that are too long and the like Node tells at once, and not by an event. */
function startedCommand(
  command: readonly string[],
  env: NodeJS.ProcessEnv,
): ChildCommand | ChildEnd {
  try {
    return new ChildCommand(command, env)
  } catch (error) {
    return notStarted(command[0] ?? '', error as NodeJS.ErrnoException)
  }
}

/** Waits for the command, and ends it if a lease is lost before. */
async function untilEnd(
  child: ChildCommand,
  { whole: { signal } }: HeldLeases,
  graceMs: number,
): Promise<ChildEnd> {
  const terminations: Promise<void>[] = []
  const onLoss = (): void => void terminations.push(child.terminate(graceMs))
  signal.addEventListener('abort', onLoss, { once: true })
  if (signal.aborted) onLoss()
  const end = await child.ended
  signal.removeEventListener('abort', onLoss)
  await Promise.all(terminations)
  return end
}

async function finish(held: HeldLeases, end: ChildEnd): Promise<number> {
  const { whole } = held
  if (whole.signal.aborted) throw lostWhileRunning(held, whole.signal.reason)
  try {
    await whole.release({ reason: end.exitCode === 0 ? 'completed' : 'aborted' })
  } catch (error) {
    if (whole.state === 'lost') throw lostWhileRunning(held, error)
    const names = held.leases.map(({ resource }) => resource).join(', ')
    remark(`tenure: ${names} was not released and runs out by itself: ${messageOf(error)}`)
  }
  if (end.kind === 'not_started') remark(`tenure: cannot run ${end.problem}`)
  return end.exitCode
}

function lostWhileRunning({ leases, first }: HeldLeases, cause: unknown): LeaseError {
  const { resource, id: leaseId, fence } = leases.find(({ state }) => state === 'lost') ?? first
  const why = cause instanceof Error ? cause.message : `lease ${leaseId} of ${resource} was lost`
  const details = { resource, leaseId, fence }
  return new LeaseError('LEASE_LOST', `${why}, while the command ran`, { cause, details })
}

/** Not through the printer: stdout belongs to the command, and this must be said with `--json` too. */
function remark(text: string): void {
  write(STDERR, `${visible(text)}\n`)
}

type ChildEnd =
  | { readonly kind: 'exited'; readonly exitCode: number }
  | { readonly kind: 'not_started'; readonly exitCode: number; readonly problem: string }

/** At a terminal, these have already reached the whole foreground group when they reach us. */
const FROM_TERMINAL: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT']

/** What shells answer for a command that is not there, and for one that cannot be run. */
const NOT_FOUND_EXIT_CODE = 127
const NOT_EXECUTABLE_EXIT_CODE = 126

/**
 * The command that `tenure run` starts. Away from a terminal it leads a process group of its own, so that a loss ends
 * everything it started. At a terminal it stays in the terminal's foreground group, or it could neither read from the
 * terminal nor be stopped by Ctrl-Z. The shell that called us may be in that group, so it is not signalled: what the
 * command has started is looked up and signalled one by one.
 */
export class ChildCommand {
  readonly ended: Promise<ChildEnd>
  readonly #process: ChildProcess
  readonly #ownGroup: boolean
  readonly #family = new Map<number, ProcessRef>()
  #running = true

  constructor(command: readonly string[], env: NodeJS.ProcessEnv) {
    const [file = '', ...args] = command
    this.#ownGroup = !isTty(0)
    this.#process = spawn(file, args, { stdio: 'inherit', env, detached: this.#ownGroup })
    this.ended = new Promise((resolve) => {
      const end = (result: ChildEnd): void => {
        this.#running = false
        resolve(result)
      }
      this.#process.once('error', (error) => end(notStarted(file, error)))
      this.#process.once('exit', (code, signal) => {
        end({ kind: 'exited', exitCode: signal === null ? (code ?? 1) : signalExitCode(signal) })
      })
    })
  }

  /** Passes on a signal that came to us. */
  forward(signal: NodeJS.Signals): void {
    if (!this.#ownGroup && FROM_TERMINAL.includes(signal)) return
    if (this.#running) this.#send(signal)
  }

  /** Asks it to end, and after the grace ends it; returns when nothing that it started is left to act. */
  async terminate(graceMs: number): Promise<void> {
    if (this.#running) this.#send('SIGTERM')
    const killing = setTimeout(() => this.#send('SIGKILL'), graceMs)
    await this.ended
    clearTimeout(killing)
    this.#send('SIGKILL')
  }

  #send(signal: NodeJS.Signals): void {
    const { pid } = this.#process
    if (pid === undefined) return
    if (!this.#ownGroup) return this.#sendToFamily(pid, signal)
    try {
      process.kill(-pid, signal)
    } catch (error) {
      // One that has ended meanwhile leaves nothing to signal.
      if (!hasCode(error, 'ESRCH')) report('cli/signal', error)
    }
  }

  /** A process that was once below the command is still meant when its parent has ended and it has another. */
  #sendToFamily(pid: number, signal: NodeJS.Signals): void {
    if (this.#running) for (const one of descendantsOf(pid)) this.#family.set(one.pid, one)
    if (this.#running) this.#process.kill(signal)
    for (const one of this.#family.values()) signalProcess(one, signal)
  }
}

function notStarted(file: string, error: NodeJS.ErrnoException): ChildEnd {
  const missing = error.code === 'ENOENT' || file === ''
  return {
    kind: 'not_started',
    exitCode: missing ? NOT_FOUND_EXIT_CODE : NOT_EXECUTABLE_EXIT_CODE,
    problem: missing ? `${file}: command not found` : `${file}: ${error.code ?? error.message}`,
  }
}

/** A process that cannot be mistaken for a later one with the same number. */
interface ProcessRef {
  readonly pid: number
  /** Ticks since boot at which it started. */
  readonly started: string
}

interface ProcessEntry extends ProcessRef {
  readonly parent: number
}

/**
 * Everything below a process, the process itself not included, as Linux tells it. Elsewhere nothing is found, and only
 * the process itself can be signalled.
 */
export function descendantsOf(pid: number): readonly ProcessRef[] {
  const entries = listProcesses()
  const found: ProcessEntry[] = []
  let parents = new Set([pid])
  while (parents.size > 0) {
    const children = entries.filter(({ parent }) => parents.has(parent))
    found.push(...children)
    parents = new Set(children.map((child) => child.pid))
  }
  return found
}

/**
 * Signals the very process that was meant; one that is gone, or whose number another has now, is left alone. One that is
 * not ours to signal is reported.
 */
export function signalProcess({ pid, started }: ProcessRef, signal: NodeJS.Signals): void {
  if (readEntry(String(pid))?.started !== started) return
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (!hasCode(error, 'ESRCH')) report('cli/signal', error)
  }
}

function listProcesses(): readonly ProcessEntry[] {
  try {
    const names = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))
    return names.map(readEntry).filter((entry) => entry !== null)
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) report('cli/process-tree', error)
    return []
  }
}

/** `pid (name) state ppid …`; the name may hold anything, so what follows is counted from its last bracket. */
function readEntry(pid: string): ProcessEntry | null {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { pid: Number(pid), parent: Number(fields[1]), started: fields[19] ?? '' }
  } catch (error) {
    if (!hasCode(error, 'ENOENT', 'ESRCH')) report('cli/process-tree', error)
    return null
  }
}
