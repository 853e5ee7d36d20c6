/** Says in one line what went wrong: what ends a command, with the exit status of the one table, and what failed in the background. */
import { ERROR_TABLE, isLeaseError, messageOf } from '../core/errors.ts'
import type { Fault } from '../runtime/diagnostics.ts'
import { visible } from './output.ts'

export interface ReportOptions {
  readonly json: boolean
  readonly debug: boolean
  readonly write: (text: string) => void
}

const UNEXPECTED_EXIT_CODE = 1

/** Writes the error and returns the exit status. People never see a stack unless they ask for one. */
export function reportError(error: unknown, options: ReportOptions): number {
  options.write(
    `${options.json ? visible(JSON.stringify(asJson(error))) : asLine(error, options)}\n`,
  )
  if (options.debug && error instanceof Error) {
    options.write(`${stackOf(error).split('\n').map(visible).join('\n')}\n`)
  }
  return isLeaseError(error) ? ERROR_TABLE[error.code].exitCode : UNEXPECTED_EXIT_CODE
}

function asLine(error: unknown, { debug }: ReportOptions): string {
  if (isLeaseError(error)) return visible(`tenure: ${error.message} (${error.code})`)
  const hint = debug ? '' : ' (--debug shows the stack)'
  return visible(`tenure: unexpected: ${messageOf(error)}${hint}`)
}

function asJson(error: unknown): unknown {
  if (isLeaseError(error)) return error.toJSON()
  const message = messageOf(error)
  return { code: 'UNEXPECTED', message, retryable: false, effect: 'unknown', details: {} }
}

function stackOf(error: Error): string {
  const stack = error.stack ?? error.message
  return error.cause instanceof Error ? `${stack}\ncaused by ${stackOf(error.cause)}` : stack
}

/** What failed in the background, in one line for people: `--debug` prints it. */
export function faultLine({ source, error, count }: Fault): string {
  const often = count > 1 ? `, ${count} times in a row` : ''
  return visible(`tenure: ${source}: ${faultText(error)}${often}`)
}

/** Some errors of Node have a code and no message. */
function faultText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error && typeof error.code === 'string' ? error.code : null
  if (error.message === '') return code ?? error.name
  return code === null || error.message.includes(code)
    ? error.message
    : `${error.message} (${code})`
}
