/**
 * Grants: leases that the registrar has signed, so that a verifier with its public keys can check them without a store.
 *
 * A token is the chain of grants from the root to the lease it is for. Each block is signed over its own bytes and the
 * hash of the block before it, so that none can be dropped, reordered, widened or moved elsewhere. The bytes hold what
 * was granted, never what was used: spending does not need the registrar.
 */
import { createHash } from 'node:crypto'
import { parseBudget, type Budget } from '../core/budget.ts'
import { excessOf, type Allowance } from '../core/derivation.ts'
import { invalid, isLeaseError, LeaseError, type ErrorCode } from '../core/errors.ts'
import { parseExtent, parseMode } from '../core/input.ts'
import { DERIVATION_DEPTH_MAX } from '../core/limits.ts'
import { parseResource, type Extent, type Mode, type Resource } from '../core/resource.ts'
import { parseScope, type Scope } from '../core/scope.ts'
import { ByteReader, ByteWriter, fromBase64Url, undecodable } from './canonical-bytes.ts'
import { SigningKey, verifySignature } from './ed25519.ts'
import { requireWords } from './registrar-id.ts'
import {
  finderOf,
  requireVerifier,
  successorsFrom,
  type KeyFinder,
  type VerificationKeys,
} from './verification-key.ts'
import { requireNow } from './wall-time.ts'

export interface Grant {
  readonly id: string
  readonly resource: Resource
  readonly mode: Mode
  readonly extent: Extent
  readonly holder: string
  readonly fence: number
  readonly issuedAtMs: number
  readonly expiresAtMs: number
  /** Null for the root of a chain. */
  readonly parentId: string | null
  /** For whom the grant is meant to be checked; null: for any verifier. */
  readonly audience: string | null
  readonly scope: Scope
  /** Limits, not what is left of them. */
  readonly budget: Budget
}

export interface VerifiedGrant extends Grant {
  /** Those it was derived from, the root first. */
  readonly ancestors: readonly Grant[]
  readonly depth: number
  /** The ids of the keys that signed it and its ancestors, the root's first: all of one registrar. */
  readonly keyIds: readonly string[]
  /** What guards downstream are shown. */
  readonly root: { readonly leaseId: string; readonly fence: number; readonly mode: Mode }
}

const TAG = 'tenure-grant'
const VERSION = 1
const PREFIX = `${TAG}.${VERSION}.`
const BLOCKS_MAX = DERIVATION_DEPTH_MAX + 1
/** In the order of the bytes. */
const WRITTEN_DIMENSIONS = ['episodes', 'toolCalls', 'tokens', 'durationMs'] as const

/** How far the clock of the store that issued a grant may be ahead of the verifier's clock. */
export const GRANT_SKEW_MS = 60_000

/**
 * The bytes that are signed (docs/delegation.md has their layout). `before`: the hash of the block before it; empty for
 * the root.
 */
export function grantBytes(grant: Grant, keyId: string, before: Uint8Array): Uint8Array {
  return blockBytes(requireGrant(grant), keyId, before)
}

function blockBytes(grant: Grant, keyId: string, before: Uint8Array): Buffer {
  const { scope, budget } = grant
  const writer = new ByteWriter()
  writer.text(TAG).integer(VERSION).text(keyId).bytes(before)
  writer.text(grant.id).text(grant.resource).text(grant.mode).text(grant.extent)
  writer.text(grant.holder).integer(grant.fence)
  writer.integer(grant.issuedAtMs).integer(grant.expiresAtMs)
  writer.optional(grant.parentId, (parentId) => writer.text(parentId))
  writer.optional(grant.audience, (audience) => writer.text(audience))
  writer.integer(scope.unlimited ? 1 : 0)
  writer.texts(scope.workIds).texts(scope.tools).texts(scope.namespaces)
  for (const dimension of WRITTEN_DIMENSIONS) {
    writer.optional(budget[dimension], (amount) => writer.integer(amount))
  }
  return writer.toBytes()
}

/** Signs a lease; `parent` is the token of the lease that it was derived from. */
export function signGrant(grant: Grant, key: SigningKey, parent?: string): string {
  if (!(key instanceof SigningKey)) throw invalid('key', 'must be a SigningKey', key)
  const blocks = parent === undefined ? [] : blocksOf(parent)
  const bytes = grantBytes(grant, key.keyId, hashOf(blocks.at(-1)))
  return tokenOf([...blocks, { bytes, signature: key.sign(bytes) }])
}

/** The grant in its one spelling: another one would be signed, and then refused by every verifier. */
function requireGrant(grant: Grant): Grant {
  if (typeof grant !== 'object' || grant === null) throw invalid('grant', 'must be a grant', grant)
  const { parentId, audience } = grant
  return {
    id: requireWords('id', grant.id),
    resource: parseResource(grant.resource),
    mode: parseMode(grant.mode),
    extent: parseExtent(grant.extent),
    holder: requireWords('holder', grant.holder),
    fence: requireCount('fence', grant.fence),
    issuedAtMs: requireCount('issuedAtMs', grant.issuedAtMs),
    expiresAtMs: requireCount('expiresAtMs', grant.expiresAtMs),
    parentId: parentId === null ? null : requireWords('parentId', parentId),
    audience: audience === null ? null : requireWords('audience', audience),
    scope: parseScope(grant.scope),
    budget: parseBudget('budget', grant.budget),
  }
}

function requireCount(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw invalid(field, 'must be an integer 0..2^53-1', value)
}

export interface VerifyGrantOptions {
  /** The wall time, in milliseconds since 1970. */
  readonly now: number
  /** Who checks. A grant for another verifier is refused; a verifier without a name refuses every grant that names one. */
  readonly audience?: string
}

/**
 * Checks a token with nothing but public keys. Throws `INVALID_INPUT` for a time or key that is none, `DECODE_ERROR` for
 * bytes that are no token, `INVALID_SIGNATURE` for keys and signatures that do not hold, `INVALID_DERIVATION` for a chain
 * that does not narrow or is not of one registrar, `LEASE_EXPIRED`, `INVALID_EXPIRATION` for one that was issued in the
 * future, by more than clocks may differ, and `UNAUTHORIZED` for another audience.
 */
export function verifyGrant(
  token: string,
  keys: VerificationKeys,
  options: VerifyGrantOptions,
): VerifiedGrant {
  const { now, audience } = parseOptions(options)
  const find = finderOf(keys)
  const blocks = blocksOf(token)
  const chain: Grant[] = []
  const keyIds: string[] = []
  let before: Block | undefined
  for (const block of blocks) {
    const parent = chain.at(-1) ?? null
    const { grant, keyId } = verifiedBlock(block, before, {
      find,
      signer: keyIds.at(-1),
      now,
      parent,
    })
    chain.push(grant)
    keyIds.push(keyId)
    before = block
  }
  const [root, grant] = [chain[0], chain.at(-1)]
  if (root === undefined || grant === undefined) throw undecodable('the token is empty')
  if (grant.audience !== null && grant.audience !== audience) {
    throw refused('UNAUTHORIZED', `the grant is for ${JSON.stringify(grant.audience)}`, grant)
  }
  const ancestors = chain.slice(0, -1)
  const { id: leaseId, fence, mode } = root
  const shown = { leaseId, fence, mode }
  return { ...grant, ancestors, depth: ancestors.length, keyIds, root: shown }
}

function parseOptions(options: VerifyGrantOptions): VerifyGrantOptions {
  requireNow(options)
  const { audience } = options
  if (audience !== undefined && typeof audience !== 'string') {
    throw invalid('audience', 'must be text', audience)
  }
  return options
}

interface Block {
  readonly bytes: Uint8Array
  readonly signature: Uint8Array
}

interface BlockContext {
  readonly find: KeyFinder
  /** The key of the block before it; undefined for the root. */
  readonly signer: string | undefined
  readonly now: number
  readonly parent: Grant | null
}

function verifiedBlock(
  { bytes, signature }: Block,
  before: Block | undefined,
  { find, signer, now, parent }: BlockContext,
): Pick<ReadBlock, 'grant' | 'keyId'> {
  const { grant, keyId, previous } = readBlock(bytes)
  const key = requireVerifier(find, keyId, now)
  if (!verifySignature(bytes, signature, key.publicKey)) {
    throw refused('INVALID_SIGNATURE', 'the signature does not fit the grant', grant)
  }
  // The registrar that signed the root signs what is derived from it, with the same key or with one that followed it.
  const isOfRegistrar =
    signer === undefined || successorsFrom(find, signer).some((known) => known.keyId === keyId)
  if (!isOfRegistrar) {
    throw refused('INVALID_DERIVATION', `key ${keyId} is not of the registrar before it`, grant)
  }
  if (!hashOf(before).equals(previous) || grant.parentId !== (parent?.id ?? null)) {
    throw refused('INVALID_DERIVATION', 'the grant does not follow from the one before it', grant)
  }
  if (now >= grant.expiresAtMs) throw refused('LEASE_EXPIRED', 'the grant has expired', grant)
  if (grant.issuedAtMs > now + GRANT_SKEW_MS) {
    throw refused('INVALID_EXPIRATION', 'the grant was issued in the future', grant)
  }
  if (parent !== null && !isNarrower(grant, parent)) {
    throw refused('INVALID_DERIVATION', 'the grant is wider than the one before it', grant)
  }
  return { grant, keyId }
}

function isNarrower(grant: Grant, parent: Grant): boolean {
  return excessOf(allowanceOf(parent), allowanceOf(grant)) === null
}

function allowanceOf({ budget, expiresAtMs, ...rest }: Grant): Allowance {
  return { ...rest, limits: budget, end: expiresAtMs }
}

interface ReadBlock {
  readonly grant: Grant
  readonly keyId: string
  readonly previous: Uint8Array
}

/** Reads the bytes and writes them again: whatever does not come out the same was not written by us. */
function readBlock(bytes: Uint8Array): ReadBlock {
  const reader = new ByteReader(bytes)
  if (reader.text() !== TAG) throw undecodable('this is no grant')
  if (reader.integer() !== VERSION) throw undecodable(`a grant must be of version ${VERSION}`)
  const keyId = reader.text()
  const previous = reader.bytes()
  const grant = readGrant(reader)
  if (!reader.isAtEnd() || !blockBytes(grant, keyId, previous).equals(bytes)) {
    throw undecodable('the grant is not in its canonical form')
  }
  return { grant, keyId, previous }
}

function readGrant(reader: ByteReader): Grant {
  try {
    return {
      id: reader.text(),
      resource: parseResource(reader.text()),
      mode: parseMode(reader.text()),
      extent: parseExtent(reader.text()),
      holder: reader.text(),
      fence: reader.integer(),
      issuedAtMs: reader.integer(),
      expiresAtMs: reader.integer(),
      parentId: reader.optional(() => reader.text()),
      audience: reader.optional(() => reader.text()),
      scope: readScope(reader),
      budget: readBudget(reader),
    }
  } catch (error) {
    throw isLeaseError(error) ? undecodable('a field of the grant', error) : error
  }
}

function readScope(reader: ByteReader): Scope {
  const unlimited = reader.integer() === 1
  const [workIds, tools, namespaces] = [reader.texts(), reader.texts(), reader.texts()]
  return parseScope({ unlimited, workIds, tools, namespaces })
}

function readBudget(reader: ByteReader): Budget {
  const amounts = WRITTEN_DIMENSIONS.map((dimension) => {
    return [dimension, reader.optional(() => reader.integer())] as const
  })
  return parseBudget('budget', Object.fromEntries(amounts.filter(([, amount]) => amount !== null)))
}

function hashOf(block: Block | undefined): Buffer {
  if (block === undefined) return Buffer.alloc(0)
  const writer = new ByteWriter().bytes(block.bytes).bytes(block.signature)
  return createHash('sha256').update(writer.toBytes()).digest()
}

function tokenOf(blocks: readonly Block[]): string {
  const writer = new ByteWriter().integer(blocks.length)
  for (const { bytes, signature } of blocks) writer.bytes(bytes).bytes(signature)
  return `${PREFIX}${writer.toBytes().toString('base64url')}`
}

function blocksOf(token: string): readonly Block[] {
  if (typeof token !== 'string' || !token.startsWith(PREFIX)) {
    throw undecodable(`a grant begins with ${PREFIX}`)
  }
  const reader = new ByteReader(fromBase64Url('the grant', token.slice(PREFIX.length)))
  const count = reader.integer()
  if (count < 1 || count > BLOCKS_MAX) throw undecodable(`a grant has 1..${BLOCKS_MAX} blocks`)
  const blocks: Block[] = []
  for (let index = 0; index < count; index += 1) {
    blocks.push({ bytes: reader.bytes(), signature: reader.bytes() })
  }
  if (!reader.isAtEnd()) throw undecodable('something follows the grant')
  return blocks
}

function refused(code: ErrorCode, message: string, { id, holder, expiresAtMs }: Grant): LeaseError {
  return new LeaseError(code, message, { details: { leaseId: id, holder, expiresAtMs } })
}
