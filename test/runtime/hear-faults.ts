/** What is reported while a test runs. */
import { onTestFinished } from 'vitest'
import { onFault, type Fault } from '../../src/runtime/diagnostics.ts'

/** Several files may share a process, in which the garbage collector finds leases that an earlier one has dropped. */
export function onOwnFault(listener: (fault: Fault) => void): () => void {
  return onFault((fault) => {
    if (fault.source !== 'client/orphan') listener(fault)
  })
}

/** As source and message. */
export function hearFaults(): () => readonly (readonly [source: string, message: string])[] {
  const heard: (readonly [string, string])[] = []
  const stop = onOwnFault(({ source, error }) => {
    heard.push([source, error instanceof Error ? error.message : String(error)])
  })
  onTestFinished(stop)
  return () => heard
}
