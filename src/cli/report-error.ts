/** Says in one line what went wrong, and turns it into the exit status of the one table. */
import { ERROR_TABLE, isLeaseError, messageOf } from '../core/errors.ts'
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
