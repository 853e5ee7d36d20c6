/**
 * Tokens: who may use a server, and for what. The secret itself is shown once, when the token is made; what is kept is its
 * SHA-256 hash. 256 random bits need no slow hash: they cannot be guessed from it.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { randomSecret } from '../runtime/system-runtime.ts'

export type Role = 'reader' | 'holder' | 'operator'

/** Each may what those before it may. */
export const ROLES: readonly Role[] = ['reader', 'holder', 'operator']

export interface TokenLimits {
  /** Leases and waiting requests at once, of the holders that the token may act as. */
  readonly maxLeases: number | null
  readonly maxPriority: number | null
  readonly maxTtlMs: number | null
  /** Requests per second; renewals and releases are never counted. */
  readonly maxRequests: number | null
}

export interface Token extends TokenLimits {
  readonly name: string
  readonly role: Role
  /** Patterns of the holders that it may act as; `*` stands for any characters. */
  readonly as: readonly string[]
  /** The namespace that it may use; `*`: any. */
  readonly namespace: string
  /** What it may see and lease: resources, and whatever is below them by segments. None: everything. */
  readonly resources: readonly string[]
  /** SHA-256 of the secret, in hexadecimal. */
  readonly hash: string
  readonly createdAtMs: number
}

const SECRET_PREFIX = 'tenure_'

/** The prefix lets scanners for leaked secrets know one when they see it. */
export function newSecret(): string {
  return `${SECRET_PREFIX}${randomSecret()}`
}

export function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

/** Every token is compared, in constant time, so that the time of an answer tells nothing about any of them. */
export function tokenOf(tokens: readonly Token[], secret: string): Token | null {
  const presented = Buffer.from(hashOf(secret), 'hex')
  let found: Token | null = null
  for (const token of tokens) {
    if (timingSafeEqual(Buffer.from(token.hash, 'hex'), presented)) found = token
  }
  return found
}
