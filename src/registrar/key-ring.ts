/**
 * The registrar's keys: one that signs, those that still verify, those that no longer do. Rotation is signed by the
 * old key and by the new one: the old one says who follows, the new one that it exists.
 *
 * A key signs here if its secret is here. Keys of other registrars, active or not, are there to verify what those sign.
 */
import { invalid, LeaseError, show } from '../core/errors.ts'
import { ByteWriter, fromBase64Url, undecodable } from './canonical-bytes.ts'
import { keyIdOf, requireSoundKey, SigningKey, verifySignature } from './ed25519.ts'
import {
  isEndOf,
  KEY_STATES,
  keySuccession,
  finderOf,
  successorsFrom,
  type VerificationKey,
} from './verification-key.ts'

export interface KeptKey extends VerificationKey {
  readonly retiresAtMs: number | null
  readonly createdAtMs: number
  /** Null where only the public part is known. */
  readonly signing: SigningKey | null
}

export interface KeyRotation {
  readonly oldKeyId: string
  readonly newKeyId: string
  readonly atMs: number
  /** Until when the old key still verifies. */
  readonly retiresAtMs: number
  /** Hashes of the last checkpoints of the ledgers that the old key sealed: whatever else it seals is not its owner's. */
  readonly lastCheckpoints: readonly string[]
  readonly byOld: Uint8Array
  readonly byNew: Uint8Array
}

export interface KeyRing {
  readonly keys: readonly KeptKey[]
  readonly rotations: readonly KeyRotation[]
  /** Directories of the ledgers that the key which signs here has sealed. They are for its owner alone. */
  readonly ledgers?: readonly string[]
}

export const EMPTY_KEY_RING: KeyRing = { keys: [], rotations: [] }

const VERSION = 1
const ROTATION_TAG = 'tenure-key-rotation'

export function withFirstKey(ring: KeyRing, signing: SigningKey, nowMs: number): KeyRing {
  if (ring.keys.some(isSigning)) {
    throw new LeaseError('LEASE_EXISTS', 'there is a key that signs already; rotate it instead')
  }
  return { ...ring, keys: [...ring.keys, freshKey(signing, nowMs)] }
}

export function isSigning({ state, signing }: KeptKey): boolean {
  return state === 'active' && signing !== null
}

/** The key that signs, or `MISSING_SIGNATURE` where there is none. */
export function signingKeyOf(ring: KeyRing): SigningKey {
  const signing = ring.keys.find(isSigning)?.signing ?? null
  if (signing !== null) return signing
  const message = 'there is no key that signs; make one with: tenure keys generate'
  throw new LeaseError('MISSING_SIGNATURE', message)
}

export interface RotateOptions {
  readonly next: SigningKey
  readonly nowMs: number
  /** How long the old key still verifies; 0: not at all. */
  readonly overlapMs: number
  /** Hashes of the last checkpoints of all ledgers that the old key has sealed; by default none. */
  readonly lastCheckpoints?: readonly string[]
}

export function rotateKeys(
  ring: KeyRing,
  { next, nowMs, overlapMs, lastCheckpoints = [] }: RotateOptions,
): KeyRing {
  const old = signingKeyOf(ring)
  const retiresAtMs = nowMs + overlapMs
  const ids = { oldKeyId: old.keyId, newKeyId: next.keyId }
  const facts = { ...ids, atMs: nowMs, retiresAtMs, lastCheckpoints }
  const message = rotationBytes(facts)
  const rotation = { ...facts, byOld: old.sign(message), byNew: next.sign(message) }
  const state = overlapMs === 0 ? 'retired' : 'retiring'
  const keys = ring.keys.map((key): KeptKey => {
    return key.keyId === old.keyId ? { ...key, state, retiresAtMs, signing: null } : key
  })
  const rotations = [...ring.rotations, rotation]
  return linked({ ...ring, keys: [...keys, freshKey(next, nowMs)], rotations })
}

/** The ring with every key told who follows it. */
function linked(ring: KeyRing): KeyRing {
  const keys = ring.keys.map((key): KeptKey => {
    const rotation = successionOf(key, ring.rotations)
    if (rotation === null) return { ...key, successor: null }
    const { newKeyId: keyId, atMs, lastCheckpoints } = rotation
    return { ...key, successor: { keyId, atMs, lastCheckpoints } }
  })
  return { ...ring, keys }
}

/** What a ring knows of one registrar: the keys that follow each other and their rotations, in that order. */
export function ringOfSuccession(ring: KeyRing, keyId: string): KeyRing {
  const succession = keySuccession(ring.keys, keyId).map((key) => key.keyId)
  const keys = succession.flatMap((id) => ring.keys.filter((key) => key.keyId === id))
  const rotations = succession.flatMap((id) =>
    ring.rotations.filter(({ oldKeyId }) => oldKeyId === id),
  )
  return { keys, rotations }
}

/**
 * Adds what is public of another ring, to verify with. What is known already stays, but a key that was retired there is
 * so here; none lives longer than either says.
 */
export function importKeys(ring: KeyRing, other: KeyRing): KeyRing {
  const isNew = (rotation: KeyRotation): boolean => {
    return !ring.rotations.some(({ newKeyId }) => newKeyId === rotation.newKeyId)
  }
  const rotations = other.rotations.filter(isNew)
  const elsewhere = ring.keys.find((key) => isSigning(key) && successionOf(key, rotations) !== null)
  if (elsewhere !== undefined) {
    const { keyId } = elsewhere
    throw invalid(
      'FILE',
      'must not tell of another key that follows the one that signs here',
      keyId,
    )
  }
  const known = ring.keys.map((key): KeptKey => {
    const told = other.keys.find(({ keyId }) => keyId === key.keyId)
    return told === undefined || isSigning(key) ? key : { ...key, ...earlierEnd(key, told) }
  })
  const added = other.keys.filter(({ keyId }) => !ring.keys.some((key) => key.keyId === keyId))
  const keys = [...known, ...added.map((key) => ({ ...key, signing: null }))]
  return linked({ ...ring, keys, rotations: [...ring.rotations, ...rotations] })
}

type End = Pick<KeptKey, 'state' | 'retiresAtMs'>

function earlierEnd(a: End, b: End): End {
  const state = KEY_STATES.findLast((each) => each === a.state || each === b.state) ?? a.state
  const end = Math.min(endOf(a), endOf(b))
  return { state, retiresAtMs: Number.isFinite(end) ? end : null }
}

/** An active key may have an end as well; one that is retired and has none vouches for nothing. */
function endOf({ state, retiresAtMs }: End): number {
  return retiresAtMs ?? (state === 'active' ? Infinity : -Infinity)
}

function successionOf(
  { keyId }: VerificationKey,
  rotations: readonly KeyRotation[],
): KeyRotation | null {
  return rotations.find(({ oldKeyId }) => oldKeyId === keyId) ?? null
}

function freshKey(signing: SigningKey, createdAtMs: number): KeptKey {
  const { keyId, publicKey } = signing
  return { keyId, publicKey, state: 'active', retiresAtMs: null, createdAtMs, signing }
}

/** Throws `INVALID_SIGNATURE` unless both keys, which must be among these, have signed the rotation. */
export function verifyRotation(
  keys: readonly Pick<VerificationKey, 'keyId' | 'publicKey'>[],
  rotation: KeyRotation,
): void {
  const message = rotationBytes(rotation)
  for (const [keyId, signature] of [
    [rotation.oldKeyId, rotation.byOld],
    [rotation.newKeyId, rotation.byNew],
  ] as const) {
    const key = keys.find((candidate) => candidate.keyId === keyId)
    if (key !== undefined && verifySignature(message, signature, key.publicKey)) continue
    throw new LeaseError(
      'INVALID_SIGNATURE',
      `the rotation to ${rotation.newKeyId} is not signed`,
      {
        details: { keyId },
      },
    )
  }
}

function rotationBytes(facts: Omit<KeyRotation, 'byOld' | 'byNew'>): Buffer {
  const writer = new ByteWriter().text(ROTATION_TAG).integer(VERSION)
  writer.text(facts.oldKeyId).text(facts.newKeyId)
  writer.integer(facts.atMs).integer(facts.retiresAtMs)
  return writer.texts(facts.lastCheckpoints).toBytes()
}

/** `secrets`: with the parts that sign, for the file that only its owner reads. */
export function formatKeyRing(ring: KeyRing, { secrets }: { readonly secrets: boolean }): string {
  const keys = ring.keys.map(({ keyId, publicKey, state, retiresAtMs, createdAtMs, signing }) => ({
    ...{ keyId, publicKey: base64(publicKey), state, retiresAtMs, createdAtMs },
    ...(secrets && signing !== null ? { seed: base64(signing.exportSeed()) } : {}),
  }))
  const rotations = ring.rotations.map(rotationFields)
  const ledgers = secrets && ring.ledgers !== undefined ? { ledgers: ring.ledgers } : {}
  return `${JSON.stringify({ version: VERSION, keys, rotations, ...ledgers }, null, 2)}\n`
}

export function rotationFields({ byOld, byNew, ...facts }: KeyRotation): Loose {
  return { ...facts, byOld: base64(byOld), byNew: base64(byNew) }
}

export function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url')
}

export type Loose = Readonly<Record<string, unknown>>

/**
 * Reads a ring, and believes nothing: ids must be those of their keys, rotations must be signed, and no key may last
 * longer than the rotation says that it has signed.
 */
export function parseKeyRing(text: string): KeyRing {
  const value = readJson(text)
  if (value['version'] !== VERSION) {
    throw invalid('keys', `must be a file of version ${VERSION}`, value['version'])
  }
  const keys = listOf('keys', value['keys']).map(parseKey)
  const rotations = listOf('rotations', value['rotations']).map(parseRotation)
  for (const rotation of rotations) verifyRotation(keys, rotation)
  if (new Set(keys.map(({ keyId }) => keyId)).size < keys.length) {
    throw undecodable('a key is there twice')
  }
  if (new Set(rotations.map(({ oldKeyId }) => oldKeyId)).size < rotations.length) {
    throw undecodable('a key has two that follow it')
  }
  for (const key of keys) requireEnd(key, successionOf(key, rotations))
  if (keys.filter(isSigning).length > 1) throw undecodable('more than one key signs')
  const ring = linked({ keys, rotations, ...ledgersOf(value['ledgers']) })
  // Keys that follow each other in a ring, or one that follows two, are in no succession that has a first.
  const lines = ring.keys.filter(
    ({ keyId }) => !rotations.some(({ newKeyId }) => newKeyId === keyId),
  )
  const find = finderOf(ring.keys)
  const lined = lines.flatMap(({ keyId }) => successorsFrom(find, keyId))
  if (lined.length === keys.length) return ring
  throw undecodable('the keys do not follow each other in lines')
}

function ledgersOf(value: unknown): Pick<KeyRing, 'ledgers'> {
  if (value === undefined) return {}
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) {
    return { ledgers: value as readonly string[] }
  }
  throw undecodable('ledgers must be a list of directories')
}

/** What a key has signed about its own end is stronger than what the file says. */
function requireEnd({ keyId, state, retiresAtMs }: KeptKey, rotation: KeyRotation | null): void {
  if (rotation === null || (state === 'retired' && retiresAtMs === null)) return
  if (state !== 'active' && (retiresAtMs ?? Infinity) <= rotation.retiresAtMs) return
  throw undecodable(`the key ${keyId} has signed that it retires earlier`)
}

/** The public keys of what `tenure keys export` has written, for a verifier; secrets are left out. */
export function parseVerificationKeys(text: string): readonly VerificationKey[] {
  return parseKeyRing(text).keys.map(
    ({ keyId, publicKey, state, retiresAtMs, successor = null }) => {
      return { keyId, publicKey, state, retiresAtMs, successor }
    },
  )
}

function readJson(text: string): Loose {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value as Loose
  } catch (cause) {
    throw undecodable('the keys are no JSON', cause)
  }
  throw undecodable('the keys are no JSON object')
}

function listOf(field: string, value: unknown): readonly Loose[] {
  if (!Array.isArray(value)) throw undecodable(`${field} must be a list`)
  const isRecord = (item: unknown): boolean => typeof item === 'object' && item !== null
  const odd = value.findIndex((item) => !isRecord(item))
  if (odd >= 0) throw undecodable(`${field}[${odd}] must be an object, got ${show(value[odd])}`)
  return value as readonly Loose[]
}

function parseKey(value: Loose): KeptKey {
  const publicKey = bytesOf(value, 'publicKey')
  const state = KEY_STATES.find((candidate) => candidate === value['state'])
  const { retiresAtMs, createdAtMs } = value
  if (state === undefined || !isEndOf(state, retiresAtMs) || !Number.isSafeInteger(createdAtMs)) {
    throw undecodable('a key has no state or time')
  }
  requireSoundKey(publicKey)
  const keyId = keyIdOf(publicKey)
  if (value['keyId'] !== keyId) throw undecodable(`the key ${keyId} is named otherwise`)
  const signing = value['seed'] === undefined ? null : new SigningKey(bytesOf(value, 'seed'))
  if (signing !== null && signing.keyId !== keyId) throw undecodable(`${keyId} is not of its seed`)
  const times = { retiresAtMs: retiresAtMs as number | null, createdAtMs: createdAtMs as number }
  return { keyId, publicKey, state, ...times, signing }
}

export function parseRotation(value: Loose): KeyRotation {
  const { oldKeyId, newKeyId, atMs, retiresAtMs, lastCheckpoints } = value
  const isTimed = [atMs, retiresAtMs].every((ms) => Number.isSafeInteger(ms) && (ms as number) >= 0)
  if (typeof oldKeyId !== 'string' || typeof newKeyId !== 'string' || !isTimed) {
    throw undecodable('a rotation does not name its keys and times')
  }
  if (!Array.isArray(lastCheckpoints) || lastCheckpoints.some((each) => typeof each !== 'string')) {
    throw undecodable('a rotation does not name the last checkpoints of the old key')
  }
  const times = { atMs: atMs as number, retiresAtMs: retiresAtMs as number }
  const signatures = { byOld: bytesOf(value, 'byOld'), byNew: bytesOf(value, 'byNew') }
  return { oldKeyId, newKeyId, ...times, lastCheckpoints, ...signatures }
}

export function bytesOf(value: Loose, field: string): Uint8Array {
  const text = value[field]
  if (typeof text !== 'string') throw undecodable(`${field} must be base64url`)
  return Uint8Array.from(fromBase64Url(field, text))
}
