/**
 * Rotations of keys as a sealed ledger has them: with the public part of the new key, so that whoever trusts the old one
 * can follow to the new one by the ledger alone.
 *
 * What a key says of time is worth nothing once somebody has stolen it: it can date whatever it signs back. So a key
 * names one successor and no more, and seals nothing after it has; nor can it name a stranger once whoever verifies
 * knows that it is no longer the one that signs.
 */
import { isLeaseError } from '../core/errors.ts'
import { undecodable } from './canonical-bytes.ts'
import { keyIdOf } from './ed25519.ts'
import {
  base64,
  bytesOf,
  parseRotation,
  rotationFields,
  signingKeyOf,
  verifyRotation,
  type KeyRing,
  type KeyRotation,
  type Loose,
} from './key-ring.ts'
import { keysOfThen, requireVerifier, untrusted, type VerificationKey } from './verification-key.ts'

/**
 * The rotations of a ring that are not in the ledger yet, in their order, as they are to be written there: those that
 * lead to the key that signs. Those of other registrars are none of this ledger's business.
 */
export function rotationsToRecord(ring: KeyRing, lines: readonly string[]): readonly Loose[] {
  const known = new Set(lines.map((line) => readRotation(line).rotation.newKeyId))
  return ownRotations(ring)
    .filter(({ newKeyId }) => !known.has(newKeyId))
    .map((rotation) => {
      const key = ring.keys.find(({ keyId }) => keyId === rotation.newKeyId)
      if (key === undefined) throw undecodable(`key ${rotation.newKeyId} is not in its own ring`)
      return { ...rotationFields(rotation), publicKey: base64(key.publicKey) }
    })
}

function ownRotations(ring: KeyRing): readonly KeyRotation[] {
  const line: KeyRotation[] = []
  let keyId: string | undefined = signingKeyOf(ring).keyId
  while (keyId !== undefined && line.length < ring.rotations.length) {
    const rotation: KeyRotation | undefined = ring.rotations.find(({ newKeyId }) => {
      return newKeyId === keyId
    })
    if (rotation !== undefined) line.unshift(rotation)
    keyId = rotation?.oldKeyId
  }
  return line
}

/** Whom a ledger is believed: the keys that were given, and those that it leads to from there. */
export class LedgerTrust {
  #keys: readonly VerificationKey[]
  readonly #given: ReadonlySet<string>
  readonly #succeeded = new Set<string>()

  constructor(keys: readonly VerificationKey[]) {
    this.#keys = keys
    this.#given = new Set(keys.map(({ keyId }) => keyId))
  }

  /** The key, if it was good at that time and is the last of its line; throws `INVALID_SIGNATURE`. */
  requireSealer(keyId: string, atMs: number): VerificationKey {
    const key = requireVerifier(keysOfThen(this.#keys), keyId, atMs)
    if (this.#succeeded.has(keyId)) throw untrusted(keyId, 'is retired: it has named its successor')
    return key
  }

  /**
   * Trusts the new key of a rotation from here on, and the old one no longer. Tells what is wrong with the rotation, or
   * null: it must be signed by a key that was trusted at its time, and by the one that it names.
   */
  follow(line: string): string | null {
    try {
      this.#follow(readRotation(line))
      return null
    } catch (error) {
      if (isLeaseError(error)) return `is no rotation of keys: ${error.message}`
      throw error
    }
  }

  #follow({ rotation, publicKey }: ReadRotation): void {
    const { oldKeyId, newKeyId, atMs } = rotation
    // To name who follows may be the last that a key does.
    const old = this.requireSealer(oldKeyId, atMs - 1)
    if (keyIdOf(publicKey) !== newKeyId) throw undecodable('a rotation names another key')
    verifyRotation([old, { keyId: newKeyId, publicKey }], rotation)
    if (old.state !== 'active' && !this.#given.has(newKeyId)) {
      throw untrusted(oldKeyId, `no longer signs, and ${newKeyId} is not known to follow it`)
    }
    this.#succeeded.add(oldKeyId)
    if (this.#keys.some(({ keyId }) => keyId === newKeyId)) return
    const next = { keyId: newKeyId, publicKey, state: 'active', retiresAtMs: null } as const
    this.#keys = [...this.#keys, next]
  }
}

interface ReadRotation {
  readonly rotation: KeyRotation
  readonly publicKey: Uint8Array
}

function readRotation(line: string): ReadRotation {
  const rotation = rotationOf(line)
  return { rotation: parseRotation(rotation), publicKey: bytesOf(rotation, 'publicKey') }
}

function rotationOf(line: string): Loose {
  try {
    const { rotation } = JSON.parse(line) as { readonly rotation?: unknown }
    if (typeof rotation === 'object' && rotation !== null) return rotation as Loose
  } catch (cause) {
    throw undecodable('a rotation is no JSON', cause)
  }
  throw undecodable('a rotation is no JSON object')
}
