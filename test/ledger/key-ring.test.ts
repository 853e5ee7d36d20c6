import { describe, expect, it } from 'vitest'
import { generateSigningKey } from '../../src/ledger/ed25519.ts'
import {
  EMPTY_KEY_RING,
  formatKeyRing,
  importKeys,
  parseKeyRing,
  rotateKeys,
  signingKeyOf,
  verifyRotation,
  withFirstKey,
} from '../../src/ledger/key-ring.ts'
import { requireVerifier } from '../../src/ledger/verification-key.ts'

const NOW = 1_000
const OLD = generateSigningKey()
const NEXT = generateSigningKey()
const FIRST = withFirstKey(EMPTY_KEY_RING, OLD, NOW)
const ROTATED = rotateKeys(FIRST, { next: NEXT, nowMs: NOW, overlapMs: 100 })

describe('a ring of keys', () => {
  it('has one key that signs', () => {
    expect(signingKeyOf(FIRST).keyId).toBe(OLD.keyId)
    expect(() => signingKeyOf(EMPTY_KEY_RING)).toThrow(
      expect.objectContaining({ code: 'MISSING_SIGNATURE' }),
    )
    expect(() => withFirstKey(FIRST, NEXT, NOW)).toThrow(/rotate it instead/)
  })

  it('after a rotation signs with the new key and verifies with the old one for a while', () => {
    expect(signingKeyOf(ROTATED).keyId).toBe(NEXT.keyId)
    expect(requireVerifier(ROTATED.keys, OLD.keyId, NOW + 99).keyId).toBe(OLD.keyId)
    expect(() => requireVerifier(ROTATED.keys, OLD.keyId, NOW + 100)).toThrow(/is retired/)
    expect(ROTATED.keys.map(({ state }) => state)).toEqual(['retiring', 'active'])
    const atOnce = rotateKeys(FIRST, { next: NEXT, nowMs: NOW, overlapMs: 0 })
    expect(() => requireVerifier(atOnce.keys, OLD.keyId, NOW)).toThrow(/is retired/)
  })

  it('has rotations that both keys have signed', () => {
    const [rotation] = ROTATED.rotations
    if (rotation === undefined) throw new Error('no rotation')
    verifyRotation(ROTATED.keys, rotation)
    const swapped = { ...rotation, byOld: rotation.byNew }
    const later = { ...rotation, atMs: NOW + 1 }
    const other = { ...rotation, byNew: rotation.byOld }
    const longer = { ...rotation, retiresAtMs: NOW + 101 }
    for (const odd of [swapped, later, other, longer]) {
      expect(() => verifyRotation(ROTATED.keys, odd)).toThrow(/is not signed/)
    }
  })

  it('is the same after it was written and read, and shows its secrets only when asked', () => {
    const kept = parseKeyRing(formatKeyRing(ROTATED, { secrets: true }))
    expect(signingKeyOf(kept).keyId).toBe(NEXT.keyId)
    const shown = formatKeyRing(ROTATED, { secrets: false })
    const secret = Buffer.from(NEXT.exportSeed()).toString('base64url')
    expect(shown).not.toContain(secret)
    expect(shown).not.toContain('seed')
    expect(parseKeyRing(shown).keys.map(({ keyId }) => keyId)).toEqual([OLD.keyId, NEXT.keyId])
  })

  it('is not read when a key is named otherwise, an active one too many, or a rotation forged', () => {
    const text = formatKeyRing(ROTATED, { secrets: true })
    const bad = [
      '',
      '[]',
      '{}',
      text.replace('"version": 1', '"version": 2'),
      text.replace('"retiring"', '"active"'),
      text.replace('"active"', '"sleeping"'),
      text.replaceAll(OLD.keyId, NEXT.keyId),
      text.replace(/"atMs": \d+/, '"atMs": 7'),
      text.replace(/"seed": "./, '"seed": "_'),
    ]
    for (const odd of bad) {
      expect(odd).not.toBe(text)
      expect(() => parseKeyRing(odd)).toThrow()
    }
  })

  it('takes in the public part of another, and believes it that a key has retired', () => {
    const reader = importKeys(EMPTY_KEY_RING, FIRST)
    expect(reader.keys[0]?.signing).toBeNull()
    const updated = importKeys(reader, ROTATED)
    expect(updated.keys.map(({ state }) => state)).toEqual(['retiring', 'active'])
    expect(updated.rotations).toHaveLength(1)
    expect(importKeys(updated, FIRST).keys[0]?.state).toBe('retiring')
    expect(importKeys(ROTATED, FIRST).keys[1]?.signing).not.toBeNull()
  })
})
