/** What failed in the background, in one line for people: `--debug` prints it. */
import type { Fault } from '../runtime/diagnostics.ts'
import { visible } from './output.ts'

export function faultLine({ source, error, count }: Fault): string {
  const often = count > 1 ? `, ${count} times in a row` : ''
  return visible(`tenure: ${source}: ${textOf(error)}${often}`)
}

/** Some errors of Node have a code and no message. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error && typeof error.code === 'string' ? error.code : null
  if (error.message === '') return code ?? error.name
  return code === null || error.message.includes(code)
    ? error.message
    : `${error.message} (${code})`
}
