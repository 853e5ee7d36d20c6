/**
 * Rotations of keys as a sealed ledger has them: with the public part of the new key, so that whoever trusts the old one
 * can follow to the new one by the ledger alone.
 */
import { isLeaseError } from '../core/errors.ts'
import { undecodable } from './canonical-bytes.ts'
import { keyIdOf } from './ed25519.ts'
import {
  base64,
  bytesOf,
  parseRotation,
  requireVerifier,
  rotationFields,
  verifyRotation,
  type KeyRing,
  type KeyRotation,
  type Loose,
  type VerificationKey,
} from './key-ring.ts'
import { keysOfThen } from './ledger-checkpoint.ts'

/** The rotations of a ring that are not in the ledger yet, in their order, as they are to be written there. */
export function rotationsToRecord(ring: KeyRing, lines: readonly string[]): readonly Loose[] {
  const known = new Set(lines.map((line) => readRotation(line).rotation.newKeyId))
  return ring.rotations
    .filter(({ newKeyId }) => !known.has(newKeyId))
    .map((rotation) => {
      const key = ring.keys.find(({ keyId }) => keyId === rotation.newKeyId)
      if (key === undefined) throw undecodable(`key ${rotation.newKeyId} is not in its own ring`)
      return { ...rotationFields(rotation), publicKey: base64(key.publicKey) }
    })
}

/**
 * What is trusted after a rotation: the new key too, and the old one until it retires. Tells what is wrong with the
 * rotation, if anything is: it must be signed by a key that was trusted at its time, and by the one that it names.
 */
export function followRotation(
  keys: readonly VerificationKey[],
  line: string,
): readonly VerificationKey[] | string {
  try {
    const { rotation, publicKey } = readRotation(line)
    const { oldKeyId, newKeyId, atMs, retiresAtMs } = rotation
    // To name who follows may be the last that a key does.
    const old = requireVerifier(keysOfThen(keys), oldKeyId, atMs - 1)
    if (keyIdOf(publicKey) !== newKeyId) throw undecodable('a rotation names another key')
    verifyRotation([old, { keyId: newKeyId, publicKey }], rotation)
    const others = keys.filter(({ keyId }) => keyId !== oldKeyId)
    const retires = Math.min(old.retiresAtMs ?? retiresAtMs, retiresAtMs)
    const retiring = { ...old, state: 'retiring', retiresAtMs: retires } as const
    const isKnown = keys.some(({ keyId }) => keyId === newKeyId)
    const next = { keyId: newKeyId, publicKey, state: 'active', retiresAtMs: null } as const
    return [...others, retiring, ...(isKnown ? [] : [next])]
  } catch (error) {
    if (isLeaseError(error)) return `is no rotation of keys: ${error.message}`
    throw error
  }
}

interface ReadRotation {
  readonly rotation: KeyRotation
  readonly publicKey: Uint8Array
}

function readRotation(line: string): ReadRotation {
  const { rotation } = JSON.parse(line) as { readonly rotation: Loose }
  return { rotation: parseRotation(rotation), publicKey: bytesOf(rotation, 'publicKey') }
}
