/**
 * Rotations of keys as a sealed ledger has them: with the public part of the new key, so that a verifier that trusts the old one
 * can follow to the new one by the ledger alone.
 *
 * What a key says of time is worth nothing once it was stolen: it can date whatever it signs back. So keys are
 * judged by the order of the ledger. One key seals at a time; it names one successor and no more, and seals nothing
 * after it has; nor can it name a stranger once a verifier knows its successor, or knows that it no longer signs. And
 * since a thief can cut the ledger off before the rotation, the rotation names the last checkpoints of the old key: a
 * ledger that ends with any other checkpoint of that key is not believed by a verifier that knows the rotation.
 */
import { isLeaseError } from '../core/errors.ts'
import { undecodable } from '../registrar/canonical-bytes.ts'
import { keyIdOf } from '../registrar/ed25519.ts'
import {
  base64,
  bytesOf,
  parseRotation,
  ringOfSuccession,
  rotationFields,
  signingKeyOf,
  verifyRotation,
  type KeyRing,
  type KeyRotation,
  type Loose,
} from '../registrar/key-ring.ts'
import {
  asSealer,
  requireVerifier,
  untrusted,
  type Succession,
  type VerificationKey,
} from '../registrar/verification-key.ts'

/**
 * The rotations of a ring that are not in the ledger yet, in their order, as they are to be written there: those that
 * lead to the key that signs. Those of other registrars are none of this ledger's business.
 */
export function rotationsToRecord(ring: KeyRing, lines: readonly string[]): readonly Loose[] {
  const known = new Set(lines.map((line) => readRotation(line).rotation.newKeyId))
  return ringOfSuccession(ring, signingKeyOf(ring).keyId)
    .rotations.filter(({ newKeyId }) => !known.has(newKeyId))
    .map((rotation) => {
      const key = ring.keys.find(({ keyId }) => keyId === rotation.newKeyId)
      if (key === undefined) throw undecodable(`key ${rotation.newKeyId} is not in its own ring`)
      return { ...rotationFields(rotation), publicKey: base64(key.publicKey) }
    })
}

/** Whom a ledger is believed: one of the keys that were given, and those that the ledger leads to from there. */
export class LedgerTrust {
  readonly #given: readonly VerificationKey[]
  /** The key that seals; null before the first checkpoint or rotation, which may be of any key that was given. */
  #current: VerificationKey | null = null
  readonly #succeeded = new Set<string>()

  constructor(keys: readonly VerificationKey[]) {
    this.#given = keys
  }

  /** The key, if it is the one that seals now and was good at that time; throws `INVALID_SIGNATURE`. */
  requireSealer(keyId: string, atMs: number): VerificationKey {
    const key = this.#currentKey(keyId)
    requireVerifier(() => asSealer(key), keyId, atMs)
    this.#current ??= key
    return key
  }

  /** Who follows this key as far as the verifier knows without the ledger; null if it knows of none. */
  successorOf(keyId: string): Succession | null {
    return this.#given.find((key) => key.keyId === keyId)?.successor ?? null
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
    const { oldKeyId, newKeyId } = rotation
    const old = this.#currentKey(oldKeyId)
    if (keyIdOf(publicKey) !== newKeyId) throw undecodable('a rotation names another key')
    verifyRotation([old, { keyId: newKeyId, publicKey }], rotation)
    const given = this.#given.find(({ keyId }) => keyId === newKeyId)
    const successor = this.successorOf(oldKeyId)
    const isKnown = successor === null ? given !== undefined : successor.keyId === newKeyId
    if (!isKnown && (old.state !== 'active' || successor !== null)) {
      throw untrusted(oldKeyId, `no longer signs, and ${newKeyId} is not known to follow it`)
    }
    this.#succeeded.add(oldKeyId)
    this.#current = given ?? { keyId: newKeyId, publicKey, state: 'active', retiresAtMs: null }
  }

  #currentKey(keyId: string): VerificationKey {
    if (this.#succeeded.has(keyId)) throw untrusted(keyId, 'is retired: it has named its successor')
    const key = [this.#current ?? this.#given].flat().find((candidate) => candidate.keyId === keyId)
    if (key !== undefined) return key
    const isGiven = this.#given.some((candidate) => candidate.keyId === keyId)
    throw untrusted(keyId, isGiven ? 'is not the one that seals this ledger' : 'is not known')
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
