/**
 * How a server says no: RFC 9457 problems, made from the one table of errors. Bad routes, methods, lengths and media types
 * have the status that HTTP gives them and the same shape; nothing that failed inside is told but its code.
 */
import { ERROR_TABLE, isLeaseError, LeaseError } from '../core/errors.ts'
import { report } from '../runtime/diagnostics.ts'

/** Where a code is explained, in the documentation that comes with the package. */
const DOCUMENTATION = 'docs/errors.md'

export interface HttpFacts {
  readonly status?: number
  readonly retryable?: boolean
  readonly headers?: Readonly<Record<string, string>>
}

/** A refusal whose status is that of HTTP and not that of its code. */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly error: LeaseError
  readonly facts: HttpFacts

  constructor(error: LeaseError, facts: HttpFacts) {
    super(error.message)
    this.error = error
    this.facts = facts
  }
}

export function httpError(status: number, message: string, details: object = {}): HttpError {
  const error = new LeaseError('INVALID_INPUT', message, { details: { ...details } })
  return new HttpError(error, { status })
}

export function unreadableUrl(): HttpError {
  return httpError(400, 'Host and path must make a URL')
}

/** A position of another store, or of this one before it lost its data: its reader starts afresh. */
export function isForeignPosition(thrown: unknown): thrown is LeaseError {
  return isLeaseError(thrown, 'INVALID_INPUT') && thrown.details['field'] === 'after'
}

export function goneIfForeign(thrown: unknown): unknown {
  return isForeignPosition(thrown) ? new HttpError(thrown, { status: 410 }) : thrown
}

/** Nobody knows who is asking. */
export function unauthenticated(message: string): HttpError {
  const headers = { 'WWW-Authenticate': 'Bearer realm="tenure"' }
  return new HttpError(new LeaseError('UNAUTHORIZED', message), { status: 401, headers })
}

/** It is known who is asking, and that one may not. */
export function forbidden(message: string, details: object = {}): LeaseError {
  return new LeaseError('UNAUTHORIZED', message, { details: { ...details } })
}

export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: string
  readonly retryable: boolean
  readonly effect: string
  readonly details: Readonly<Record<string, unknown>>
}

export interface ProblemAnswer {
  readonly problem: Problem
  readonly headers: Readonly<Record<string, string>>
}

/** A store that is away is asked again after so long. */
const RETRY_AFTER_MS = 1_000

export function problemOf(thrown: unknown): ProblemAnswer {
  const { error, facts } = thrown instanceof HttpError ? thrown : knownError(thrown)
  const { code, message: detail, effect } = error
  const { summary: title, httpStatus } = ERROR_TABLE[code]
  const { status = httpStatus, retryable = error.retryable } = facts
  const type = `${DOCUMENTATION}#${code.toLowerCase()}`
  const problem = { type, title, status, detail, code, retryable, effect, details: error.details }
  return { problem, headers: { ...retryAfter(status, error), ...facts.headers } }
}

/** Wherever the time is known: the soonest end of what is in the way, or a moment for a store that is away. */
function retryAfter(status: number, { details }: LeaseError): Readonly<Record<string, string>> {
  const ms = details['retryAfterMs']
  const afterMs = typeof ms === 'number' ? ms : status === 503 ? RETRY_AFTER_MS : null
  return afterMs === null ? {} : { 'Retry-After': String(Math.max(1, Math.ceil(afterMs / 1_000))) }
}

/** A mistake of ours is reported, and the caller hears no more than that there was one. */
function knownError(thrown: unknown): Pick<HttpError, 'error' | 'facts'> {
  if (isLeaseError(thrown)) return { error: thrown, facts: {} }
  report('server/request', thrown)
  const message = 'the server made a mistake; its log says more'
  const error = new LeaseError('STORE_OUTCOME_UNKNOWN', message, { cause: thrown })
  return { error, facts: { status: 500, retryable: false } }
}

export function problemResponse(thrown: unknown): Response {
  const { problem, headers } = problemOf(thrown)
  return new Response(`${JSON.stringify(problem)}\n`, {
    status: problem.status,
    headers: { 'Content-Type': 'application/problem+json', ...headers },
  })
}
