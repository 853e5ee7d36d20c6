/** The text of a token file: read with a check of every field, written so that it can be read again. */
import { invalid, LeaseError } from '../../core/errors.ts'
import {
  parseHolder,
  parsePriority,
  parseSpanMs,
  parseTtlMs,
  requireText,
} from '../../core/input.ts'
import { parseNamespace } from '../../core/resource.ts'
import { ROLES, type Role, type Token } from '../token.ts'

const FORMAT = 'tenure-tokens-1'
const NAME_PATTERN = /^[A-Za-z0-9._-]{1,64}$/
const HASH_PATTERN = /^[0-9a-f]{64}$/
const COUNT_MAX = 10_000_000
const PATTERNS_MAX = 64
const RESOURCE_PATTERN = /^[a-z][a-z0-9-]{0,31}:/
/** As many as an owner can keep track of; every request is compared with all of them. */
const TOKENS_MAX = 10_000

export function formatTokens(tokens: readonly Token[]): string {
  return `${JSON.stringify({ format: FORMAT, tokens }, null, 2)}\n`
}

export function parseTokens(text: string): readonly Token[] {
  const file = objectOf(parsed(text))
  if (file['format'] !== FORMAT) throw invalid('format', `must be ${FORMAT}`, file['format'])
  const { tokens } = file
  if (!Array.isArray(tokens) || tokens.length > TOKENS_MAX) {
    throw invalid('tokens', `must be a list of at most ${TOKENS_MAX}`, tokens)
  }
  const read = tokens.map((token) => parseToken(objectOf(token)))
  const names = new Set(read.map(({ name }) => name))
  if (names.size < read.length) throw invalid('tokens', 'must have a name each', 'a name twice')
  return read
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new LeaseError('DECODE_ERROR', 'the token file must be JSON', { cause })
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>
  }
  throw invalid('tokens', 'must be objects', value)
}

/** The same rules for what a person asks for and for what a file says. */
export function parseToken(value: Readonly<Record<string, unknown>>): Token {
  const { hash, maxLeases, maxPriority, maxTtlMs, maxRequests } = value
  if (typeof hash !== 'string' || !HASH_PATTERN.test(hash)) {
    throw invalid('hash', 'must be SHA-256 in hexadecimal', typeof hash)
  }
  const role = parseRole(value['role'])
  const as = listOf('as', value['as'], (pattern) => parseHolder(pattern, 'as'))
  if (role === 'holder' && as.length === 0) throw invalid('as', 'must name a holder', 'none')
  return {
    name: parseTokenName(value['name']),
    role,
    as,
    namespace: value['namespace'] === '*' ? '*' : parseNamespace(value['namespace']),
    resources: listOf('resource', value['resources'], parseResourcePrefix),
    maxLeases: countOf('maxLeases', maxLeases),
    maxPriority: (maxPriority ?? null) === null ? null : parsePriority(maxPriority),
    maxTtlMs: (maxTtlMs ?? null) === null ? null : parseTtlMs(maxTtlMs),
    maxRequests: countOf('maxRequests', maxRequests),
    hash,
    createdAtMs: parseSpanMs(
      { field: 'createdAtMs', min: 0, max: Number.MAX_SAFE_INTEGER },
      value['createdAtMs'],
    ),
  }
}

export function parseTokenName(value: unknown): string {
  const name = requireText('name', value)
  if (NAME_PATTERN.test(name)) return name
  throw invalid('name', 'must match [A-Za-z0-9._-]{1,64}', name)
}

export function parseRole(value: unknown): Role {
  const role = ROLES.find((candidate) => candidate === value)
  if (role !== undefined) return role
  throw invalid('role', `must be one of ${ROLES.join(', ')}`, value)
}

/** A kind (`work:`), a resource, or a directory (`file:/repo`). */
function parseResourcePrefix(value: unknown): string {
  const text = requireText('resource', value)
  if (RESOURCE_PATTERN.test(text)) return text.normalize('NFC')
  throw invalid('resource', 'must begin with a kind, such as work: or file:/repo', text)
}

function listOf(field: string, value: unknown, read: (item: unknown) => string): readonly string[] {
  if (Array.isArray(value) && value.length <= PATTERNS_MAX) return value.map(read)
  throw invalid(field, `must be a list of at most ${PATTERNS_MAX}`, value)
}

function countOf(field: string, value: unknown): number | null {
  if ((value ?? null) === null) return null
  return parseSpanMs({ field, min: 1, max: COUNT_MAX }, value)
}
