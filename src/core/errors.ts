/**
 * The one error class and the one table behind it. A code's message, HTTP status, exit status and whether trying
 * again may help are facts of the code, not of the place that throws; `docs/errors.md` is tested against this table.
 */

/** Might the command have happened although an error came back? */
import type { ErrorDetails } from './error-details.ts'

export type Effect = 'none' | 'unknown'

export type ErrorCode =
  | 'RESOURCE_HELD'
  | 'WAIT_TIMEOUT'
  | 'DEADLOCK'
  | 'ABORTED'
  | 'NOT_HOLDER'
  | 'LEASE_NOT_FOUND'
  | 'LEASE_TERMINAL'
  | 'LEASE_EXPIRED'
  | 'LEASE_LOST'
  | 'LEASE_EXISTS'
  | 'RENEWAL_LIMIT'
  | 'RENEWAL_DOES_NOT_EXTEND'
  | 'INVALID_INPUT'
  | 'INVALID_STATE'
  | 'INVALID_REASON'
  | 'INVALID_EXPIRATION'
  | 'LIMIT_EXCEEDED'
  | 'LEASE_VIOLATION'
  | 'STALE_EPOCH'
  | 'FUTURE_EPOCH'
  | 'DUPLICATE_ACTION'
  | 'STALE_FENCE'
  | 'MISSING_SIGNATURE'
  | 'INVALID_SIGNATURE'
  | 'DECODE_ERROR'
  | 'SCOPE_VIOLATION'
  | 'BUDGET_EXHAUSTED'
  | 'INVALID_DERIVATION'
  | 'UNAUTHORIZED'
  | 'STORE_UNAVAILABLE'
  | 'STORE_CONFLICT'
  | 'STORE_OUTCOME_UNKNOWN'
  | 'STORE_SCHEMA'
  | 'CLOSED'

export interface ErrorFacts {
  readonly summary: string
  readonly httpStatus: number
  readonly exitCode: number
  readonly retryable: boolean
}

const facts = (
  summary: string,
  [httpStatus, exitCode]: readonly [number, number],
  retryable = false,
): ErrorFacts => ({ summary, httpStatus, exitCode, retryable })

export const ERROR_TABLE: Readonly<Record<ErrorCode, ErrorFacts>> = {
  RESOURCE_HELD: facts('another lease or an earlier waiter stands in the way', [409, 10], true),
  WAIT_TIMEOUT: facts('the resource did not become free within the wait', [408, 11], true),
  DEADLOCK: facts(
    'waiting would close a cycle of requests that wait for each other',
    [409, 10],
    true,
  ),
  ABORTED: facts('the caller cancelled the request', [499, 1]),
  NOT_HOLDER: facts('the lease belongs to another holder', [403, 12]),
  LEASE_NOT_FOUND: facts('no lease has this id', [404, 13]),
  LEASE_TERMINAL: facts('the lease has already ended', [410, 13]),
  LEASE_EXPIRED: facts('the lease ran out before the request', [410, 13]),
  LEASE_LOST: facts('the holder can no longer prove that it holds the lease', [410, 14]),
  LEASE_EXISTS: facts('the id is in use, or what was to be made is there already', [409, 2]),
  RENEWAL_LIMIT: facts('the lease may not be renewed any further', [409, 10]),
  RENEWAL_DOES_NOT_EXTEND: facts('the renewal would not move the deadline forward', [409, 10]),
  INVALID_INPUT: facts('an argument is not acceptable', [400, 2]),
  INVALID_STATE: facts(
    'the word is not a lease state, or the call does not fit the present state',
    [400, 2],
  ),
  INVALID_REASON: facts('the word is not a release reason', [400, 2]),
  INVALID_EXPIRATION: facts('the expiration contradicts the lease', [400, 2]),
  LIMIT_EXCEEDED: facts('a maximum was reached', [429, 2]),
  LEASE_VIOLATION: facts('the action carries another lease than the current one', [409, 10]),
  STALE_EPOCH: facts('the action belongs to an epoch that has passed', [409, 14]),
  FUTURE_EPOCH: facts('the action skips an epoch', [409, 10]),
  DUPLICATE_ACTION: facts('the action was already carried out', [409, 10]),
  STALE_FENCE: facts('a later holder has already acted', [409, 14]),
  MISSING_SIGNATURE: facts('a signature is required', [400, 2]),
  INVALID_SIGNATURE: facts('the signature does not fit', [400, 2]),
  DECODE_ERROR: facts('the bytes are not what they claim to be', [400, 2]),
  SCOPE_VIOLATION: facts('the act is outside the scope of the lease', [403, 10]),
  BUDGET_EXHAUSTED: facts('the budget of the lease is used up', [403, 10]),
  INVALID_DERIVATION: facts('the derived lease would exceed its parent', [400, 2]),
  UNAUTHORIZED: facts('the caller may not do this', [403, 12]),
  STORE_UNAVAILABLE: facts('the store cannot be used; nothing was changed', [503, 15], true),
  STORE_CONFLICT: facts(
    'the store kept moving under the request; nothing was changed',
    [503, 15],
    true,
  ),
  STORE_OUTCOME_UNKNOWN: facts(
    'the answer of the store was lost; it may have happened',
    [503, 15],
    true,
  ),
  STORE_SCHEMA: facts('the store is not one that this version can use', [500, 15]),
  CLOSED: facts('the client was closed', [409, 1]),
}

export const ERROR_CODES = Object.keys(ERROR_TABLE) as readonly ErrorCode[]

/** Codes whose effect can be unknown; for every other code nothing happened. */
const UNKNOWN_EFFECT: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['STORE_OUTCOME_UNKNOWN'])

export interface LeaseErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>
  readonly effect?: Effect
  /** Where it is another than that of the code: a server's rate limit passes, and no other limit does. */
  readonly retryable?: boolean
  readonly cause?: unknown
}

/** What every face of Tenure throws, and nothing else. */
export class LeaseError extends Error {
  override readonly name = 'LeaseError'
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly effect: Effect
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, options: LeaseErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.retryable = options.retryable ?? ERROR_TABLE[code].retryable
    this.effect = options.effect ?? (UNKNOWN_EFFECT.has(code) ? 'unknown' : 'none')
    this.details = options.details ?? {}
  }

  toJSON(): Readonly<Record<string, unknown>> {
    const { code, message, retryable, effect, details } = this
    return { code, message, retryable, effect, details }
  }
}

/** An error of this code, with the details that the code has. */
export type LeaseErrorOf<Code extends ErrorCode> = LeaseError & {
  readonly code: Code
  readonly details: Code extends keyof ErrorDetails ? ErrorDetails[Code] : unknown
}

/** What an error says; of anything else that was thrown, what it is. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Whether it is an error of Tenure; with a code, whether it is that one, and then its details have their types. */
export function isLeaseError(value: unknown): value is LeaseError
export function isLeaseError<Code extends ErrorCode>(
  value: unknown,
  code: Code,
): value is LeaseErrorOf<Code>
export function isLeaseError(value: unknown, code?: ErrorCode): boolean {
  return value instanceof LeaseError && (code === undefined || value.code === code)
}

/** `INVALID_INPUT` in the one wording that all boundaries use: field, expectation, value. */
export function invalid(field: string, expectation: string, value: unknown): LeaseError {
  return new LeaseError('INVALID_INPUT', `${field} ${expectation}, got ${show(value)}`, {
    details: { field, expectation },
  })
}

const SHOWN_LENGTH_MAX = 80

/** A value as one short line of visible characters, whatever it was. */
export function show(value: unknown): string {
  return shorten(
    typeof value === 'string' ? visibleJson(value.slice(0, SHOWN_LENGTH_MAX)) : describe(value),
  )
}

/** Data as one short line of JSON. */
export function showData(data: object): string {
  return shorten(visibleJson(data))
}

/** Never in the middle of a character. */
function shorten(text: string): string {
  if (text.length <= SHOWN_LENGTH_MAX) return text
  return `${text.slice(0, SHOWN_LENGTH_MAX).replace(/[\ud800-\udbff]$/, '')}…`
}

function visibleJson(value: string | object): string {
  return JSON.stringify(value).replace(/[\u007f-\u009f\u2028\u2029]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

function describe(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (typeof value === 'bigint') return `${value}n`
  if (value === null || value === undefined) return String(value)
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

const PATH_FAULTS: ReadonlySet<unknown> = new Set(['ELOOP', 'EACCES', 'ENAMETOOLONG'])

/**
 * What it means that a path could not be looked at. A file that cannot be read is not one that is absent: taking it for
 * that would give one file two names, or one host two clocks. So the question stays unanswered, and the error says who
 * can do something about it: the caller, who named a path that cannot be followed, or the system, which may do better
 * later. Whatever is no answer of the operating system comes back as it is.
 */
export function pathError(field: string, path: string, cause: unknown): unknown {
  if (!(cause instanceof Error) || !('syscall' in cause) || !('code' in cause)) return cause
  const { code, message } = cause
  const details = { field, path }
  if (PATH_FAULTS.has(code)) {
    const text = `${field} must be a path that can be followed, got ${show(path)}: ${message}`
    return new LeaseError('INVALID_INPUT', text, { details, cause })
  }
  const text = `${field} ${show(path)} cannot be looked at: ${message}`
  return new LeaseError('STORE_UNAVAILABLE', text, { details, cause })
}

/** What a store, a client or the file leases answer once they were closed. */
export function closedError(what = 'the store was closed'): LeaseError {
  return new LeaseError('CLOSED', what)
}

/** Whether an error is a mistake of the program, which says nothing about a store and must not be dressed as its fault. */
export function isMistake(error: unknown): boolean {
  return MISTAKES.some((kind) => error instanceof kind)
}

const MISTAKES = [TypeError, RangeError, ReferenceError, SyntaxError] as const
