/**
 * Who is asking, and what that one may. Every rule about rights is here; what a request is about is decided by the core,
 * which compares the holder once more with the entry in the commit itself.
 */
import { show, type LeaseError } from '../core/errors.ts'
import type { Grant } from '../registrar/grant.ts'
import { forbidden } from './problem.ts'
import { ROLES, type Role, type Token, type TokenLimits } from './token.ts'

export interface Caller extends TokenLimits {
  /** The token's name. */
  readonly name: string
  readonly role: Role
  readonly as: readonly string[]
  readonly namespace: string
  readonly resources: readonly string[]
  /** What was presented; null for a grant, and where nobody needs a token. */
  readonly token: Token | null
  /** A signed grant that was presented instead of a token: its bearer may use that lease, and nothing else. */
  readonly grant: Grant | null
}

export function callerOf(token: Token): Caller {
  return { ...token, token, grant: null }
}

const NO_LIMITS: TokenLimits = {
  ...{ maxLeases: null, maxPriority: null, maxTtlMs: null, maxRequests: null },
}

export function callerOfGrant(grant: Grant): Caller {
  // No token has a name like this one.
  const name = `grant ${grant.id}`
  const rights = { role: 'holder', as: [], namespace: '*', resources: [], token: null } as const
  return { ...NO_LIMITS, ...rights, name, grant }
}

/** Of a server without tokens, which only this host can reach. */
export function localCaller(role: Role): Caller {
  const rights = { as: ['*'], namespace: '*', resources: [], token: null, grant: null }
  return { ...NO_LIMITS, ...rights, name: 'local', role }
}

export function requireRole(caller: Caller, role: Role): void {
  if (ROLES.indexOf(caller.role) >= ROLES.indexOf(role)) return
  const isLocal = caller.token === null && caller.grant === null
  const how = isLocal && role === 'operator' ? ' (tenure serve --operator gives it to all)' : ''
  throw forbidden(`${caller.name} must have the role ${role}, got ${caller.role}${how}`, { role })
}

/** A grant is for its lease, and shows nothing of others. */
export function refuseGrant({ grant, name }: Caller): void {
  if (grant !== null) throw forbidden(`${name} must not do this: a grant allows spend and release`)
}

/** The namespace that a request means, if the caller may use it. */
export function namespaceFor(caller: Caller, asked: string | null): string {
  const namespace = asked ?? (caller.namespace === '*' ? 'default' : caller.namespace)
  if (caller.namespace === '*' || caller.namespace === namespace) return namespace
  throw forbidden(`${caller.name} must not use the namespace ${show(namespace)}`, { namespace })
}

export function requireHolder(caller: Caller, holder: string, field = 'holder'): void {
  if (caller.role === 'operator' || matchesAny(caller.as, holder)) return
  throw forbidden(`${caller.name} must not act as ${show(holder)}`, { field, holder })
}

/** `*` stands for any characters, none included. */
export function matchesAny(patterns: readonly string[], text: string): boolean {
  return patterns.some((pattern) => matches(pattern, text))
}

/** Part by part and without going back: a pattern with many stars costs no more than its length. */
function matches(pattern: string, text: string): boolean {
  const [first = '', ...parts] = pattern.split('*')
  const last = parts.pop()
  if (last === undefined) return text === pattern
  if (!text.startsWith(first)) return false
  let from = first.length
  for (const part of parts) {
    const at = text.indexOf(part, from)
    if (at < 0) return false
    from = at + part.length
  }
  return text.length - last.length >= from && text.endsWith(last)
}

export function requireResource(caller: Caller, resource: string): void {
  if (maySee(caller, resource)) return
  const allowed = caller.resources.join(', ')
  throw forbidden(`resource must be within ${allowed} for ${caller.name}, got ${show(resource)}`, {
    field: 'resource',
  })
}

export function maySee(caller: Caller, resource: string): boolean {
  if (caller.role === 'operator' || caller.resources.length === 0) return true
  return caller.resources.some((prefix) => coversResource(prefix, resource))
}

/** By segments: `file:/repo` is not `file:/repo_backup`. A kind (`work:`) covers all of it. */
function coversResource(prefix: string, resource: string): boolean {
  if (resource === prefix) return true
  const isWhole = prefix.endsWith(':') || prefix.endsWith('/')
  return resource.startsWith(isWhole ? prefix : `${prefix}/`)
}

interface LimitedFields {
  readonly ttlMs?: number
  readonly lockDelayMs?: number
  readonly priority?: number
}

/** A lock delay keeps others out as a TTL does, and nobody can end it. */
export function requireWithinLimits(caller: Caller, request: LimitedFields): void {
  const { maxTtlMs, maxPriority } = caller
  const { priority = 0 } = request
  for (const field of ['ttlMs', 'lockDelayMs'] as const) {
    const got = request[field] ?? 0
    if (maxTtlMs !== null && got > maxTtlMs) throw exceeded(caller, field, { limit: maxTtlMs, got })
  }
  if (maxPriority !== null && priority > maxPriority) {
    throw exceeded(caller, 'priority', { limit: maxPriority, got: priority })
  }
}

function exceeded(
  { name }: Caller,
  field: string,
  { limit, got }: { readonly limit: number; readonly got: number },
): LeaseError {
  return forbidden(`${field} must be at most ${limit} for ${name}, got ${got}`, { field, limit })
}
