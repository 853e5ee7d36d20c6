import { describe, expect, it } from 'vitest'
import { generateSigningKey } from '../../src/registrar/ed25519.ts'
import {
  EMPTY_KEY_RING,
  formatKeyRing,
  importKeys,
  parseKeyRing,
  parseVerificationKeys,
  rotateKeys,
  signingKeyOf,
  verifyRotation,
  withFirstKey,
  type KeptKey,
  type KeyRing,
} from '../../src/registrar/key-ring.ts'
import { finderOf, requireVerifier } from '../../src/registrar/verification-key.ts'

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
    expect(requireVerifier(finderOf(ROTATED.keys), OLD.keyId, NOW + 99).keyId).toBe(OLD.keyId)
    expect(() => requireVerifier(finderOf(ROTATED.keys), OLD.keyId, NOW + 100)).toThrow(
      /is retired/,
    )
    expect(ROTATED.keys.map(({ state }) => state)).toEqual(['retiring', 'active'])
    const atOnce = rotateKeys(FIRST, { next: NEXT, nowMs: NOW, overlapMs: 0 })
    expect(() => requireVerifier(finderOf(atOnce.keys), OLD.keyId, NOW)).toThrow(/is retired/)
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
      text.replace(/"seed": "(.)/, (_, first) => `"seed": "${first === '_' ? '-' : '_'}`),
    ]
    for (const odd of bad) {
      expect(odd).not.toBe(text)
      expect(() => parseKeyRing(odd)).toThrow()
    }
  })

  it('is not read when a key is to last longer than it has signed itself', () => {
    const text = formatKeyRing(ROTATED, { secrets: false })
    const [first, end] = ['"state": "retiring"', '"retiresAtMs": 1100']
    expect(text).toContain(end)
    for (const odd of [
      text.replace(first, '"state": "active"'),
      text.replace(first, '"state": "active"').replace(end, '"retiresAtMs": null'),
      text.replace(end, '"retiresAtMs": 1101'),
      text.replace(end, '"retiresAtMs": null'),
    ]) {
      expect(odd).not.toBe(text)
      expect(() => parseKeyRing(odd)).toThrow(expect.objectContaining({ code: 'DECODE_ERROR' }))
    }
    expect(parseKeyRing(text.replace(end, '"retiresAtMs": 1099')).keys[0]?.retiresAtMs).toBe(1_099)
  })

  it('is not read when a key is there twice, has two successors, or is no object', () => {
    const twice = { ...ROTATED, keys: [...ROTATED.keys, ...ROTATED.keys.slice(0, 1)] }
    const other = rotateKeys(FIRST, { next: generateSigningKey(), nowMs: NOW, overlapMs: 0 })
    const forked = {
      keys: [...ROTATED.keys, ...other.keys.slice(1).map((key) => ({ ...key, signing: null }))],
      rotations: [...ROTATED.rotations, ...other.rotations],
    }
    for (const [text, said] of [
      [formatKeyRing(twice, { secrets: false }), 'there twice'],
      [formatKeyRing(forked, { secrets: true }), 'two that follow it'],
      ['{"version":1,"keys":[null],"rotations":[]}', 'keys[0] must be an object, got null'],
      ['{"version":1,"keys":[],"rotations":[7]}', 'rotations[0] must be an object, got 7'],
      ['{"version":1,"keys":{},"rotations":[]}', 'keys must be a list'],
    ] as const) {
      expect(() => parseKeyRing(text)).toThrow(said)
    }
  })

  it('signs with a key of its own however many others it has taken in to verify with', () => {
    const others = [generateSigningKey(), generateSigningKey()].map((key) => {
      return withFirstKey(EMPTY_KEY_RING, key, NOW)
    })
    let ring: KeyRing = EMPTY_KEY_RING
    for (const other of others) ring = importKeys(ring, other)
    expect(() => signingKeyOf(ring)).toThrow(/tenure keys generate/)
    ring = withFirstKey(ring, OLD, NOW)
    ring = rotateKeys(ring, { next: NEXT, nowMs: NOW, overlapMs: 100 })
    const read = parseKeyRing(formatKeyRing(ring, { secrets: true }))
    expect(signingKeyOf(read).keyId).toBe(NEXT.keyId)
    for (const other of others) {
      const { keyId } = signingKeyOf(other)
      expect(requireVerifier(finderOf(read.keys), keyId, NOW).keyId).toBe(keyId)
    }
  })

  it('is not read when its keys follow each other in a ring, or one follows two', () => {
    const [a, b] = [generateSigningKey(), generateSigningKey()]
    const rotation = (from: typeof a, to: typeof a) => {
      const ring = withFirstKey(EMPTY_KEY_RING, from, NOW)
      return rotateKeys(ring, { next: to, nowMs: NOW, overlapMs: 0 }).rotations
    }
    const keys = [a, b, OLD].map((key) => {
      const { keys: made } = withFirstKey(EMPTY_KEY_RING, key, NOW)
      return { ...made[0], state: 'retired', retiresAtMs: NOW, signing: null } as KeptKey
    })
    for (const rotations of [
      [...rotation(a, b), ...rotation(b, a)],
      [...rotation(a, b), ...rotation(OLD, b)],
    ]) {
      const text = formatKeyRing({ keys, rotations }, { secrets: false })
      expect(() => parseKeyRing(text)).toThrow(/do not follow each other in lines/)
    }
  })

  it('remembers the ledgers that it seals, and tells nobody', () => {
    const ring = { ...ROTATED, ledgers: ['/var/ledger'] }
    expect(parseKeyRing(formatKeyRing(ring, { secrets: true })).ledgers).toEqual(['/var/ledger'])
    expect(formatKeyRing(ring, { secrets: false })).not.toContain('/var/ledger')
    const next = rotateKeys(ring, { next: generateSigningKey(), nowMs: NOW, overlapMs: 0 })
    expect(importKeys(next, FIRST).ledgers).toEqual(['/var/ledger'])
  })

  it('takes in no longer life for a key than it knows of', () => {
    const reader = importKeys(EMPTY_KEY_RING, ROTATED)
    const longer = (facts: Partial<KeptKey>): KeyRing => {
      return { keys: ROTATED.keys.map((key) => ({ ...key, ...facts })), rotations: [] }
    }
    for (const odd of [
      longer({ state: 'active', retiresAtMs: null }),
      longer({ state: 'retiring', retiresAtMs: NOW + 10_000 }),
    ]) {
      expect(importKeys(reader, odd).keys[0]).toMatchObject({
        state: 'retiring',
        retiresAtMs: 1_100,
      })
    }
    const gone = importKeys(reader, longer({ state: 'retired', retiresAtMs: NOW + 50 }))
    expect(gone.keys[0]).toMatchObject({ state: 'retired', retiresAtMs: NOW + 50 })
  })

  it('takes in no longer life for an active key that has an end', () => {
    const ending = (facts: Partial<KeptKey>): KeyRing => {
      return { keys: FIRST.keys.map((key) => ({ ...key, signing: null, ...facts })), rotations: [] }
    }
    const known = importKeys(EMPTY_KEY_RING, ending({ retiresAtMs: NOW + 100 }))
    const told = [
      [{}, { state: 'active', retiresAtMs: NOW + 100 }],
      [{ retiresAtMs: NOW + 50 }, { state: 'active', retiresAtMs: NOW + 50 }],
      [
        { state: 'retiring', retiresAtMs: NOW + 200 },
        { state: 'retiring', retiresAtMs: NOW + 100 },
      ],
      [
        { state: 'retired', retiresAtMs: null },
        { state: 'retired', retiresAtMs: null },
      ],
    ] as const
    for (const [facts, expected] of told) {
      expect(importKeys(known, ending(facts)).keys[0]).toMatchObject(expected)
    }
  })

  it('does not take in that the key which signs here has been followed elsewhere', () => {
    expect(() => importKeys(FIRST, ROTATED)).toThrow(/follows the one that signs here/)
  })

  it('gives whoever verifies the public keys of its text, and no secret', () => {
    const keys = parseVerificationKeys(formatKeyRing(ROTATED, { secrets: true }))
    expect(keys).toEqual(
      ROTATED.keys.map(({ keyId, publicKey, state, retiresAtMs, successor }) => {
        return { keyId, publicKey, state, retiresAtMs, successor }
      }),
    )
  })

  it('takes in the public part of another, and believes it that a key has retired', () => {
    const reader = importKeys(EMPTY_KEY_RING, FIRST)
    expect(reader.keys[0]?.signing).toBeNull()
    // Whoever was handed a file with a secret in it must not keep the secret, either.
    const careless = rotateKeys(FIRST, { next: NEXT, nowMs: NOW, overlapMs: 100 })
    const told = careless.keys.map((key) =>
      key.keyId === OLD.keyId ? { ...key, signing: OLD } : key,
    )
    expect(importKeys(reader, { ...careless, keys: told }).keys[0]?.signing).toBeNull()
    const updated = importKeys(reader, ROTATED)
    expect(updated.keys.map(({ state }) => state)).toEqual(['retiring', 'active'])
    expect(updated.rotations).toHaveLength(1)
    expect(importKeys(updated, FIRST).keys[0]?.state).toBe('retiring')
    expect(importKeys(ROTATED, FIRST).keys[1]?.signing).not.toBeNull()
  })
})
