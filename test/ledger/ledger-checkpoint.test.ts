/** What a checkpoint is over, what is signed of it, and how it is read. */
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  checkpointBytes,
  checkpointHash,
  merkleRoot,
  parseCheckpoint,
  parseSealTime,
  verifyCheckpoint,
  type LedgerCheckpoint,
} from '../../src/ledger/ledger-checkpoint.ts'
import { LedgerTrust } from '../../src/ledger/recorded-rotation.ts'
import { SEAL_KEYS, sealed, SEALER } from './sealed-worlds.ts'

const [EMPTY] = sealed([], 1).checkpoints
if (EMPTY === undefined) throw new Error('nothing was sealed')
const empty: LedgerCheckpoint = EMPTY

/** As the sealer would have signed it. */
function signed(facts: Partial<LedgerCheckpoint>): LedgerCheckpoint {
  const { signature: _signature, ...all } = { ...empty, ...facts }
  return { ...all, signature: Buffer.from(SEALER.sign(checkpointBytes(all))).toString('base64url') }
}

describe('a checkpoint', () => {
  it('is signed and hashed as earlier versions did', () => {
    const facts = {
      ...{ sequence: 2, events: 7, realms: 3, root: 'ab', position: '41', atMs: 5 },
      ...{ previous: 'cd', keyId: 'k', signature: 'c2ln' },
    }
    const hash = createHash('sha256').update(checkpointBytes(facts)).digest('hex')
    expect(hash).toBe('194c3b66c4b4059c82524b3d95aa7285d53b4d57fb937f697ef316a1672a7f4d')
    expect(checkpointHash(facts)).toBe(
      'df5a73020c38925d0bdeb0cfba0c524059ffb103a66e1df73e022e8c15e8595a',
    )
  })

  it('is over the heads of all realms, in whatever order they are known', () => {
    const heads = ['work:b', 'file', 'work:a'].map((realm, index) => {
      return [realm, { count: index + 1, hash: `${index}` }] as const
    })
    const root = 'e5a646bd7834d4aabdb1e7990a77f7023c98de9c5cd2394cbd94bd7a2e2b91c5'
    expect(merkleRoot(new Map(heads))).toBe(root)
    expect(merkleRoot(new Map(heads.toReversed()))).toBe(root)
  })

  it.each<[string, Partial<LedgerCheckpoint>]>([
    ['another number', { sequence: 3 }],
    ['another predecessor', { previous: 'ab' }],
    ['fewer events', { events: 4 }],
  ])('does not follow with %s, whoever signs it', (_, facts) => {
    const last = signed({ events: 5 })
    const next = { sequence: 2, events: 5, previous: checkpointHash(last), atMs: 2_000 }
    const verify = (change: Partial<LedgerCheckpoint>) => (): void => {
      verifyCheckpoint(signed({ ...next, ...change }), last, new LedgerTrust(SEAL_KEYS))
    }
    expect(verify({})).not.toThrow()
    const { sequence } = { ...next, ...facts }
    expect(verify(facts)).toThrow(
      expect.objectContaining({
        code: 'INVALID_SIGNATURE',
        message: `checkpoint ${sequence}: it does not follow from the one before it`,
        details: { sequence },
      }),
    )
  })

  it('may be of the first moment there is', () => {
    expect(parseSealTime(0)).toBe(0)
    expect(() => parseSealTime(-1)).toThrow('atMs must be whole milliseconds, got -1')
  })
})

describe('the line of a checkpoint', () => {
  it.each([empty, { ...empty, position: '7', sequence: 9 }])(
    'is what was written',
    (checkpoint) => {
      expect(parseCheckpoint(JSON.stringify(checkpoint))).toEqual(checkpoint)
    },
  )

  it.each([
    ...['sequence', 'events', 'realms', 'atMs'].flatMap((name) => {
      return [-1, 1.5, '1', undefined].map((value) => [name, value] as const)
    }),
    ...['root', 'previous', 'keyId', 'signature'].flatMap((name) => {
      return [7, null].map((value) => [name, value] as const)
    }),
    ['position', 7] as const,
    ['position', undefined] as const,
  ])('is refused when %s is %j', (name, value) => {
    const line = JSON.stringify({ ...empty, [name]: value })
    expect(() => parseCheckpoint(line)).toThrow('a checkpoint lacks a field')
  })

  it('is refused when it is no object', () => {
    for (const line of ['7', 'null', '"text"']) {
      expect(() => parseCheckpoint(line)).toThrow('a checkpoint is no JSON object')
    }
    expect(() => parseCheckpoint('{')).toThrow(/a checkpoint is no JSON$/)
  })
})
