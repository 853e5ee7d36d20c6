/**
 * The command that `tenure run` starts. Away from a terminal it leads a process group of its own, so that a loss ends
 * everything it started. At a terminal it stays in the terminal's foreground group, or it could neither read from the
 * terminal nor be stopped by Ctrl-Z. That group is not ours to signal, because whoever called us may be in it, so what
 * the command has started is looked up and signalled one by one.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { report } from '../runtime/diagnostics.ts'
import { hasCode } from '../runtime/file-system.ts'
import { descendantsOf, signalProcess, type ProcessRef } from './process-tree.ts'
import { signalExitCode } from './signals.ts'
import { isTty } from './terminal.ts'

export type ChildEnd =
  | { readonly kind: 'exited'; readonly exitCode: number }
  | { readonly kind: 'not_started'; readonly exitCode: number; readonly problem: string }

/** At a terminal, these have already reached the whole foreground group when they reach us. */
const FROM_TERMINAL: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT']

/** What shells answer for a command that is not there, and for one that cannot be run. */
const NOT_FOUND_EXIT_CODE = 127
const NOT_EXECUTABLE_EXIT_CODE = 126

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

  /** Whoever was once below the command still is meant when its parent has ended and it has got another. */
  #sendToFamily(pid: number, signal: NodeJS.Signals): void {
    if (this.#running) for (const one of descendantsOf(pid)) this.#family.set(one.pid, one)
    if (this.#running) this.#process.kill(signal)
    for (const one of this.#family.values()) signalProcess(one, signal)
  }
}

function notStarted(file: string, error: NodeJS.ErrnoException): ChildEnd {
  const missing = error.code === 'ENOENT'
  return {
    kind: 'not_started',
    exitCode: missing ? NOT_FOUND_EXIT_CODE : NOT_EXECUTABLE_EXIT_CODE,
    problem: missing ? `${file}: command not found` : `${file}: ${error.code ?? error.message}`,
  }
}
