/**
 * Signed checkpoints of a sealed ledger: how many events there are, and the root of a Merkle tree over the heads of all
 * realms. Each names the hash of the one before it, so that none can be left out between two others.
 */
import { createHash } from 'node:crypto'
import { invalid, LeaseError } from '../core/errors.ts'
import type { Position } from '../store-port/store.ts'
import { ByteWriter, fromBase64Url, undecodable } from '../registrar/canonical-bytes.ts'
import { verifySignature, type SigningKey } from '../registrar/ed25519.ts'
import type { LedgerTrust } from './recorded-rotation.ts'
import type { LedgerChain, RealmHead } from './sealed-ledger.ts'

export interface LedgerCheckpoint {
  readonly sequence: number
  /** Events up to and with this checkpoint. */
  readonly events: number
  readonly realms: number
  /** Over the heads of all realms, hex. */
  readonly root: string
  /** Of the last event; null for an empty ledger. */
  readonly position: Position | null
  readonly atMs: number
  /** Hash of the checkpoint before it; empty for the first. */
  readonly previous: string
  readonly keyId: string
  readonly signature: string
}

const TAG = 'tenure-checkpoint'
const VERSION = 1

export interface SealOptions {
  readonly key: SigningKey
  /** A clock that was set back does not count: the checkpoint is then dated like the last. */
  readonly atMs: number
  /** The last checkpoint there is. */
  readonly previous: LedgerCheckpoint | null
}

export function sealChain(
  chain: LedgerChain,
  { key, atMs, previous }: SealOptions,
): LedgerCheckpoint {
  const facts = {
    sequence: (previous?.sequence ?? 0) + 1,
    events: chain.count,
    realms: chain.heads.size,
    root: merkleRoot(chain.heads),
    position: chain.lastPosition,
    atMs: Math.max(parseSealTime(atMs), previous?.atMs ?? 0),
    previous: previous === null ? '' : checkpointHash(previous),
    keyId: key.keyId,
  }
  const signature = Buffer.from(key.sign(checkpointBytes(facts))).toString('base64url')
  return { ...facts, signature }
}

/** When a ledger is sealed, as the sealer says. */
export function parseSealTime(atMs: number): number {
  if (Number.isSafeInteger(atMs) && atMs >= 0) return atMs
  throw invalid('atMs', 'must be whole milliseconds', atMs)
}

/** The bytes that are signed. */
export function checkpointBytes(facts: Omit<LedgerCheckpoint, 'signature'>): Buffer {
  const writer = new ByteWriter().text(TAG).integer(VERSION)
  writer.integer(facts.sequence).integer(facts.events).integer(facts.realms).text(facts.root)
  writer.optional(facts.position, (position) => writer.text(position))
  return writer.integer(facts.atMs).text(facts.previous).text(facts.keyId).toBytes()
}

export function checkpointHash(checkpoint: LedgerCheckpoint): string {
  const bytes = new ByteWriter().bytes(checkpointBytes(checkpoint)).text(checkpoint.signature)
  return createHash('sha256').update(bytes.toBytes()).digest('hex')
}

/**
 * Throws `INVALID_SIGNATURE` unless a key that was good when it was made has signed it and it follows from the last. Time
 * does not go back from one to the next: otherwise a key that has retired could date what it signs before its end.
 */
export function verifyCheckpoint(
  checkpoint: LedgerCheckpoint,
  previous: LedgerCheckpoint | null,
  trust: LedgerTrust,
): void {
  const key = trust.requireSealer(checkpoint.keyId, checkpoint.atMs)
  const signature = fromBase64Url('signature', checkpoint.signature)
  if (!verifySignature(checkpointBytes(checkpoint), signature, key.publicKey)) {
    throw unproven(checkpoint, 'its signature does not fit')
  }
  const isNext =
    checkpoint.sequence === (previous?.sequence ?? 0) + 1 &&
    checkpoint.previous === (previous === null ? '' : checkpointHash(previous)) &&
    checkpoint.events >= (previous?.events ?? 0)
  if (!isNext) throw unproven(checkpoint, 'it does not follow from the one before it')
  if (checkpoint.atMs < (previous?.atMs ?? 0)) {
    throw unproven(checkpoint, 'it is dated before the one before it')
  }
}

function unproven({ sequence }: LedgerCheckpoint, problem: string): LeaseError {
  return new LeaseError('INVALID_SIGNATURE', `checkpoint ${sequence}: ${problem}`, {
    details: { sequence },
  })
}

/** Leaves and nodes are hashed apart, so that no node can be shown as a leaf. */
export function merkleRoot(heads: ReadonlyMap<string, RealmHead>): string {
  const realms = [...heads].toSorted(([a], [b]) => (a < b ? -1 : 1))
  let level = realms.map(([realm, { count, hash }]) => {
    return sha256(new ByteWriter().integer(0).text(realm).integer(count).text(hash))
  })
  while (level.length > 1) {
    const pairs = Array.from({ length: Math.ceil(level.length / 2) }, (_, index) => index * 2)
    level = pairs.map((at) => {
      const [left, right] = [level[at] ?? Buffer.of(), level[at + 1]]
      return right === undefined
        ? left
        : sha256(new ByteWriter().integer(1).bytes(left).bytes(right))
    })
  }
  return (level[0] ?? sha256(new ByteWriter())).toString('hex')
}

function sha256(writer: ByteWriter): Buffer {
  return createHash('sha256').update(writer.toBytes()).digest()
}

export function parseCheckpoint(line: string): LedgerCheckpoint {
  const value = readJson(line)
  const { sequence, events, realms, root, position, atMs, previous, keyId, signature } = value
  const numbers = [sequence, events, realms, atMs]
  const texts = [root, previous, keyId, signature]
  const isWhole =
    numbers.every((number) => Number.isSafeInteger(number) && (number as number) >= 0) &&
    texts.every((text) => typeof text === 'string') &&
    (position === null || typeof position === 'string')
  if (!isWhole) throw undecodable('a checkpoint lacks a field')
  return value as unknown as LedgerCheckpoint
}

function readJson(line: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch (cause) {
    throw undecodable('a checkpoint is no JSON', cause)
  }
  throw undecodable('a checkpoint is no JSON object')
}
