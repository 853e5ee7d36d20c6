/** What errors of ioredis, node-redis and a Redis server mean: was it carried out, is the server away, is it an answer? */
import { isLeaseError, isMistake, LeaseError, messageOf } from '../core/errors.ts'

/** Drivers attach the command that failed, and that of a failed login holds the password. */
export function withoutCommand(error: unknown): Error {
  return new Error(messageOf(error))
}

/** Whether a command can change anything; then an answer that is lost leaves a doubt. */
export type CommandEffect = 'reads' | 'writes'

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

interface ErrorFacts {
  readonly url: string
  readonly effect: CommandEffect
  /** A driver may have sent the command before, on a connection that was lost: that the second was refused says nothing of the first. */
  readonly mayBeSecond?: boolean
}

/** What a server says when it has refused a command before doing anything. */
const REFUSALS: Readonly<Record<string, string>> = {
  READONLY: 'it is a read-only replica',
  OOM: 'it is out of memory (maxmemory)',
  NOAUTH: 'it requires a password',
  WRONGPASS: 'user or password is wrong',
  NOPERM: 'the user may not run a command that Tenure needs',
  LOADING: 'it is still loading its data',
  MASTERDOWN: 'it is a replica without a primary',
  NOREPLICAS: 'it has too few replicas to write (min-replicas-to-write)',
  MISCONF: 'it cannot save its data and refuses to write',
  BUSY: 'it is busy with a script',
  CLUSTERDOWN: 'its cluster is down',
  TRYAGAIN: 'its cluster is moving the keys',
}

/** What a script says that may not publish, which it does before it writes; in the words of Redis 7.0, and of later ones. */
const MAY_NOT_PUBLISH =
  /^ERR (The user executing the script can't publish|ACL failure in script: .*channel)/

/** Errors of drivers that sent nothing. */
const NOT_SENT = /isn't writeable|not connected|client is (closed|offline)|ECONNREFUSED|ENOTFOUND/i

/**
 * A driver's error as ours. Nothing was changed when the server refused, when nothing was sent, or when the command
 * changes nothing; anything else that befalls a command which writes leaves open whether it was carried out. A mistake of
 * the program stays what it is.
 */
export function redisError(error: unknown, { url, effect, mayBeSecond }: ErrorFacts): Error {
  if (isLeaseError(error) || isMistake(error)) return error as Error
  const said = messageOf(error)
  const details = { store: url }
  const cause = withoutCommand(error)
  const refusal = MAY_NOT_PUBLISH.test(said)
    ? 'the user may not publish on the channels tenure:*'
    : REFUSALS[/^[A-Z]+/.exec(said)?.[0] ?? '']
  const isInDoubt = effect === 'writes' && mayBeSecond === true
  if (refusal !== undefined && !isInDoubt) {
    return new LeaseError('STORE_UNAVAILABLE', `${url} refused: ${refusal}`, { cause, details })
  }
  const line = said.split('\n', 1)[0] ?? ''
  if (effect === 'reads' || (NOT_SENT.test(said) && !isInDoubt)) {
    const words = line.startsWith('ERR ') ? 'cannot be used' : 'cannot be reached'
    const message = `${url} ${words}: ${line}`
    return new LeaseError('STORE_UNAVAILABLE', message, { cause, details })
  }
  const message = `the answer of ${url} was lost: ${line}`
  return new LeaseError('STORE_OUTCOME_UNKNOWN', message, { cause, details })
}

/** What the server answered is nothing that Tenure says: its data were changed by another program, or damaged. */
export function notUnderstood(cause: unknown, { url, effect }: ErrorFacts): LeaseError {
  const code = effect === 'writes' ? 'STORE_OUTCOME_UNKNOWN' : 'STORE_UNAVAILABLE'
  const message = `the answer of ${url} cannot be understood: ${messageOf(cause).split('\n', 1)[0] ?? ''}`
  return new LeaseError(code, message, { cause, details: { store: url } })
}

/** What servers say begins with a word in capitals, as no error of a connection does that drivers report. */
const REPLY = /^(?!E(?:CONN|TIMEDOUT|PIPE|HOST|NOTFOUND))[A-Z][A-Z0-9_]* /

/** Whether it is what a server said, and not that nothing was heard. ioredis names such an error, node-redis has a class. */
export function isReply(error: unknown): error is Error {
  if (!(error instanceof Error)) return false
  if (error.name === 'ReplyError' || REPLY.test(error.message)) return true
  return /^(ErrorReply|SimpleError|BlobError)$/.test(error.constructor.name)
}

/**
 * For commands and scripts of a caller: an answer of Redis is the caller's own error, and so is a mistake; no answer leaves
 * open whether the script ran.
 */
export function lostUnlessReply(error: unknown): unknown {
  if (isReply(error) || isMistake(error) || isLeaseError(error)) return error
  const cause = withoutCommand(error)
  const message = `the answer of Redis was lost: ${cause.message}`
  return new LeaseError('STORE_OUTCOME_UNKNOWN', message, { cause })
}
