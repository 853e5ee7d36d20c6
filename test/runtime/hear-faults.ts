/** What is reported while a test runs, as source and message. */
import { onTestFinished } from 'vitest'
import { onFault } from '../../src/runtime/diagnostics.ts'

export function hearFaults(): () => readonly (readonly [source: string, message: string])[] {
  const heard: (readonly [string, string])[] = []
  const stop = onFault(({ source, error }) => {
    heard.push([source, error instanceof Error ? error.message : String(error)])
  })
  onTestFinished(stop)
  return () => heard
}
