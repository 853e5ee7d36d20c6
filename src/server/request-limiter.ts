/** Requests per second of each token: a bucket that holds one second's worth and fills up all the time. */
import { LeaseError } from '../core/errors.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { Caller } from './caller.ts'
import { HttpError } from './problem.ts'

interface Bucket {
  left: number
  atMs: number
}

export class RequestLimiter {
  readonly #runtime: Pick<Runtime, 'monotonicMs'>
  readonly #defaultPerSecond: number
  /** By token: a token that was replaced starts anew, and nothing is kept of one that is gone. */
  readonly #buckets = new WeakMap<object, Bucket>()

  constructor(runtime: Pick<Runtime, 'monotonicMs'>, defaultPerSecond: number) {
    this.#runtime = runtime
    this.#defaultPerSecond = defaultPerSecond
  }

  /** Throws 429 for a request that is one too many. Callers of this host that need no token are not counted. */
  count({ token, name, maxRequests }: Caller): void {
    if (token === null) return
    const perSecond = maxRequests ?? this.#defaultPerSecond
    const nowMs = this.#runtime.monotonicMs()
    const bucket = this.#buckets.get(token) ?? { left: perSecond, atMs: nowMs }
    this.#buckets.set(token, bucket)
    const filled = ((nowMs - bucket.atMs) * perSecond) / 1_000
    bucket.left = Math.min(perSecond, bucket.left + filled)
    bucket.atMs = nowMs
    if (bucket.left >= 1) {
      bucket.left -= 1
      return
    }
    const retryAfterMs = Math.ceil(((1 - bucket.left) * 1_000) / perSecond)
    throw tooMany(`${name} must make at most ${perSecond} requests per second`, {
      limit: perSecond,
      retryAfterMs,
    })
  }
}

/** Something is used up for now: the same request may succeed later. */
export function tooMany(message: string, details: object): HttpError {
  const error = new LeaseError('LIMIT_EXCEEDED', message, { details: { ...details } })
  return new HttpError(error, { status: 429, retryable: true })
}
