/** Signals that end a command in good order: its wait is withdrawn, its lease released, its store closed. */
import os from 'node:os'
import { isLeaseError } from '../core/errors.ts'

/**
 * Every signal that would end this process and that it can catch; those that the system does not know are never heard.
 * Among them SIGUSR1, at which Node would open its debugger. Not SIGPIPE, which Node ignores, nor SIGSEGV and its like,
 * after which nothing can be relied on, nor the real-time signals, which Node does not know.
 */
const ENDING: readonly NodeJS.Signals[] = [
  ...(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const),
  ...(['SIGUSR1', 'SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGXCPU', 'SIGXFSZ'] as const),
  ...(['SIGIO', 'SIGPWR', 'SIGSTKFLT', 'SIGSYS', 'SIGTRAP', 'SIGABRT'] as const),
]

export interface Interruption {
  /** Aborts at the first signal. */
  readonly signal: AbortSignal
  /** The first signal that came, if any. */
  readonly received: NodeJS.Signals | null
  /** Called for every signal, the first included. */
  onSignal(listener: (name: NodeJS.Signals) => void): void
  stop(): void
}

export function listenForInterruption(): Interruption {
  const abort = new AbortController()
  const listeners: ((name: NodeJS.Signals) => void)[] = []
  let received: NodeJS.Signals | null = null
  const onSignal = (name: NodeJS.Signals): void => {
    received ??= name
    abort.abort()
    for (const listener of listeners) listener(name)
  }
  for (const name of ENDING) process.on(name, onSignal)
  return {
    signal: abort.signal,
    get received() {
      return received
    },
    onSignal: (listener) => void listeners.push(listener),
    stop: () => {
      for (const name of ENDING) process.off(name, onSignal)
    },
  }
}

/** Does work that a signal ends early. What was aborted by one has the exit status of that signal. */
export async function interruptible(
  work: (interruption: Interruption) => Promise<number>,
): Promise<number> {
  const interruption = listenForInterruption()
  try {
    return await work(interruption)
  } catch (error) {
    const { received } = interruption
    if (received !== null && isLeaseError(error, 'ABORTED')) return signalExitCode(received)
    throw error
  } finally {
    interruption.stop()
  }
}

/** Does work that a signal ends at once. What listens to the exit of this process has its turn. */
export function endedBySignals(work: () => Promise<number>): Promise<number> {
  return interruptible((interruption) => {
    interruption.onSignal((name) => process.exit(signalExitCode(name)))
    return work()
  })
}

/** The exit status that a shell shows for a process ended by a signal. */
export function signalExitCode(name: NodeJS.Signals): number {
  return 128 + (os.constants.signals[name] ?? 0)
}
