/**
 * What errors of `pg` and of PostgreSQL mean: whether something was committed, whether the server is away, whether the same
 * call may be sent again. A mistake of the program stays what it is. The first part is for the calls of stores, the second for
 * transactions of guards and marks, in which a statement may be the caller's own.
 */
import { isMistake, LeaseError, messageOf } from '../core/errors.ts'

/** Codes of the network are words that begin with E, as no class of PostgreSQL does; `EPIPE` is as long. */
const SQLSTATE = /^(?!E[A-Z]{4})[0-9A-Z]{5}$/

/** The SQLSTATE of an error that PostgreSQL has answered with, or null if it came from anywhere else. */
export function sqlState(error: unknown): string | null {
  if (typeof error !== 'object' || error === null || !('code' in error)) return null
  return typeof error.code === 'string' && SQLSTATE.test(error.code) ? error.code : null
}

/** What can end a connection, or the server in the middle of a commit: connections, resources, operators, defects. */
const MAY_BE_FATAL = /^(08|25P0[34]|53|57P|58|F0|XX)/

/**
 * Whether an error proves nothing about what was committed. The driver passes on the severity in the language of the
 * server (`lc_messages`) alone; in one other than English the SQLSTATE has to tell, and in doubt it is fatal.
 */
export function isFatal(error: unknown): boolean {
  if (!(error instanceof Error) || !('severity' in error)) return false
  if (error.severity === 'ERROR') return false
  if (error.severity === 'FATAL' || error.severity === 'PANIC') return true
  return MAY_BE_FATAL.test(sqlState(error) ?? '')
}

/**
 * Two calls that waited for each other, and an id that another call has just taken: nothing was written, and the same
 * call sent again is answered properly.
 */
const TRY_AGAIN: ReadonlySet<string> = new Set(['40P01', '40001', '23505'])

export function isTransient(error: unknown): boolean {
  const code = stateOf(error)
  return code !== null && (TRY_AGAIN.has(code) || isStale(error))
}

/** Internal errors, which a server says in English whatever its language is. */
const STALE = /^cache lookup failed|^could not open relation with OID/
/** What says, in any language, that a cached plan must not change its result type. */
const STALE_PLAN = { code: '0A000', routine: 'RevalidateCachedQuery' }

/**
 * A connection remembers a function, type or table that was replaced meanwhile, and fails until it ends: nothing was
 * written, and another connection answers properly.
 */
export function isStale(error: unknown): boolean {
  const cause = error instanceof LeaseError ? error.cause : error
  if (!(cause instanceof Error) || sqlState(cause) === null) return false
  const isOfPlan = 'routine' in cause && cause.routine === STALE_PLAN.routine
  return STALE.test(cause.message) || (isOfPlan && sqlState(cause) === STALE_PLAN.code)
}

/** The SQLSTATE behind an error of Tenure's. */
export function stateOf(error: unknown): string | null {
  return sqlState(error instanceof LeaseError ? error.cause : error)
}

/** A statement waited for a lock longer than it was allowed to (`lock_timeout`). */
export function isLockTimeout(error: unknown): boolean {
  return sqlState(error) === '55P03'
}

/** Node gives those of its errors a code that a program can do nothing about; without one it is a mistake of ours. */
function isOwnMistake(error: unknown): boolean {
  return isMistake(error) && !Object.hasOwn(error as object, 'code')
}

/** What the server says about a schema that is not there, or not what it should be. */
const SCHEMA_STATES = /^(42P01|42883|42703|3F000|42P0[67]|42723)$/

/** Reasons in plain words; for anything else the server's own message is the best there is. */
const PLAIN_WORDS: Readonly<Record<string, string>> = {
  '28P01': 'the server refused the password',
  '28000': 'the server refused the role',
  '3D000': 'there is no such database',
  '53300': 'the server has no connection left',
  '25006': 'the server is read-only (a standby?)',
  '42501': 'the role lacks a permission (see docs/stores/postgres.md)',
  '57P03': 'the server is starting up or shutting down',
}

/**
 * Says what an error means to a caller. `sent` is true for a statement that may have been carried out: then only an
 * answer of the server that names an ordinary error proves that it was not.
 */
export function postgresError(error: unknown, context: { url: string; sent: boolean }): unknown {
  if (error instanceof LeaseError || isOwnMistake(error)) return error
  const { url, sent } = context
  const state = sqlState(error)
  const message = error instanceof Error ? error.message || error.name : String(error)
  const reason = state ?? networkCode(error) ?? message
  const options = { cause: error, details: { store: url, reason } }
  if (state !== null && SCHEMA_STATES.test(state)) {
    return new LeaseError('STORE_SCHEMA', `${url} is not a Tenure store: ${message}`, options)
  }
  if (sent && (state === null || isFatal(error))) {
    return new LeaseError(
      'STORE_OUTCOME_UNKNOWN',
      `${url}: the answer was lost: ${message}`,
      options,
    )
  }
  const words = state === null ? undefined : PLAIN_WORDS[state]
  const why = words === undefined ? message : `${words}: ${message}`
  return new LeaseError('STORE_UNAVAILABLE', `${url} cannot be used: ${why}`, options)
}

function networkCode(error: unknown): string | null {
  return error instanceof Error && 'code' in error ? String(error.code) : null
}

/** A lost connection, too few resources, a server that is shut down, an error of its system. */
const AWAY = /^(08|53|57P|58)/

/**
 * With an answer from PostgreSQL nothing was committed, and unless it says that the server is away, it is about the work:
 * a deferred constraint or trigger of what it wrote. Without an answer it is unknown.
 */
export function commitError(cause: unknown): unknown {
  if (isOwnMistake(cause)) return cause
  const code = sqlState(cause)
  if (code !== null) return AWAY.test(code) ? unavailable(cause) : cause
  return new LeaseError(
    'STORE_OUTCOME_UNKNOWN',
    `the answer to COMMIT was lost: ${messageOf(cause)}`,
    { cause },
  )
}

const CONFLICTS: ReadonlySet<string> = new Set(['40001', '40P01', '55P03'])

/** What an error of one of our own statements means; errors of the caller's statements are the caller's. */
export function conflictOrUnavailable(cause: unknown): unknown {
  const code = sqlState(cause)
  if (code === null || !CONFLICTS.has(code)) return unavailable(cause)
  return new LeaseError('STORE_CONFLICT', `PostgreSQL refused: ${messageOf(cause)}`, { cause })
}

export function unavailable(cause: unknown): unknown {
  if (isOwnMistake(cause)) return cause
  return new LeaseError('STORE_UNAVAILABLE', `PostgreSQL cannot be used: ${messageOf(cause)}`, {
    cause,
  })
}
