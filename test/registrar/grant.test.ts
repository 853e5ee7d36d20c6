import { describe, expect, it } from 'vitest'
import { isLeaseError, type ErrorCode, type LeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { parseScope } from '../../src/core/scope.ts'
import { ByteReader, ByteWriter } from '../../src/registrar/canonical-bytes.ts'
import { generateSigningKey, type SigningKey } from '../../src/registrar/ed25519.ts'
import {
  GRANT_SKEW_MS,
  grantBytes,
  signGrant,
  verifyGrant,
  type Grant,
} from '../../src/registrar/grant.ts'
import type { VerificationKey } from '../../src/registrar/verification-key.ts'
import { fc } from '../fast-check.ts'
import { chain, CHILD, grant, KEY, NOW, verifier } from './grants.ts'

const KEYS = [verifier()]

function codeOf(token: string, keys = KEYS, options: { now?: number; audience?: string } = {}) {
  return errorOf(() => verifyGrant(token, keys, { now: NOW, ...options }))?.code ?? 'accepted'
}

function errorOf(work: () => unknown): LeaseError | null {
  try {
    work()
    return null
  } catch (error) {
    if (isLeaseError(error)) return error
    throw error
  }
}

/** The blocks of a token, taken apart and put together again. */
function blocks(token: string): readonly (readonly [Uint8Array, Uint8Array])[] {
  const reader = new ByteReader(Buffer.from(token.split('.')[2] ?? '', 'base64url'))
  return Array.from({ length: reader.integer() }, () => [reader.bytes(), reader.bytes()] as const)
}

function joined(parts: readonly (readonly [Uint8Array, Uint8Array])[]): string {
  const writer = new ByteWriter().integer(parts.length)
  for (const [bytes, signature] of parts) writer.bytes(bytes).bytes(signature)
  return `tenure-grant.1.${writer.toBytes().toString('base64url')}`
}

/** The token of one block, signed as it is. */
function signed(bytes: Uint8Array): string {
  return joined([[bytes, KEY.sign(bytes)]])
}

function rootBytes(facts: Partial<Grant> = {}): Buffer {
  return Buffer.from(grantBytes(grant(facts), KEY.keyId, Buffer.of()))
}

describe('a grant', () => {
  it('says offline what was granted, and from whom it comes', () => {
    const verified = verifyGrant(chain(grant(), CHILD), KEYS, { now: NOW })
    expect(verified).toMatchObject({ ...CHILD, depth: 1, root: { leaseId: 'root', fence: 7 } })
    expect(verified.ancestors).toEqual([grant()])
  })

  it('is over at its end, and so is every grant derived from one that is', () => {
    expect(codeOf(chain(grant()), KEYS, { now: NOW + 9_999 })).toBe('accepted')
    expect(codeOf(chain(grant()), KEYS, { now: NOW + 10_000 })).toBe('LEASE_EXPIRED')
    expect(codeOf(chain(grant(), CHILD), KEYS, { now: NOW + 5_000 })).toBe('LEASE_EXPIRED')
  })

  it('that was issued in the future is refused, beyond the skew that clocks may have', () => {
    const root = grant({ expiresAtMs: NOW + 3_600_000 })
    const at = (issuedAtMs: number): string => chain({ ...root, issuedAtMs })
    const child = { ...CHILD, issuedAtMs: NOW }
    expect(GRANT_SKEW_MS).toBe(60_000)
    expect(codeOf(at(NOW + GRANT_SKEW_MS))).toBe('accepted')
    for (const token of [
      at(NOW + GRANT_SKEW_MS + 1),
      chain({ ...root, issuedAtMs: NOW + GRANT_SKEW_MS + 1 }, child),
      chain(root, { ...child, issuedAtMs: NOW + GRANT_SKEW_MS + 1 }),
    ]) {
      expect(codeOf(token)).toBe('INVALID_EXPIRATION')
    }
  })

  it('is refused under keys that are unknown, retired, or named like another', () => {
    const token = chain(grant())
    expect(codeOf(token, [])).toBe('INVALID_SIGNATURE')
    expect(codeOf(token, [verifier(generateSigningKey())])).toBe('INVALID_SIGNATURE')
    expect(codeOf(token, [verifier(KEY, { state: 'retired' })])).toBe('INVALID_SIGNATURE')
    const { publicKey } = generateSigningKey()
    expect(codeOf(token, [verifier(KEY, { publicKey })])).toBe('INVALID_SIGNATURE')
    const small = Uint8Array.from([1, ...Array.from({ length: 31 }, () => 0)])
    expect(codeOf(token, [verifier(KEY, { publicKey: small })])).toBe('INVALID_SIGNATURE')
  })

  it('is accepted under a retiring key until that has retired', () => {
    const retiring = [verifier(KEY, { state: 'retiring', retiresAtMs: NOW + 1 })]
    expect(codeOf(chain(grant()), retiring)).toBe('accepted')
    expect(codeOf(chain(grant()), retiring, { now: NOW + 1 })).toBe('INVALID_SIGNATURE')
  })

  it('is refused where no time was given to judge it by, naming what is missing', () => {
    const token = chain(grant({ expiresAtMs: NOW - 1 }))
    const times = [{}, { now: Number.NaN }, { now: 'soon' }, { now: null }, { now: 1.5 }]
    for (const odd of [undefined, null, ...times, { now: new Date(NOW) }, { now: Infinity }]) {
      const options = odd as { now: number }
      expect(() => verifyGrant(token, KEYS, options)).toThrow(
        expect.objectContaining({
          code: 'INVALID_INPUT',
          details: expect.objectContaining({ field: 'now' }),
        }),
      )
    }
    const audience = 5 as unknown as string
    expect(() => verifyGrant(token, KEYS, { now: NOW, audience })).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message: 'audience must be text, got 5' }),
    )
  })

  it('is refused under keys whose state or end is not understood, naming which', () => {
    const token = chain(grant())
    for (const [odd, field] of [
      [undefined, 'keys'],
      [[null], 'keys[0]'],
      [[{ ...verifier(), state: 'revoked' }], 'keys[0].state'],
      [[{ ...verifier(), state: undefined }], 'keys[0].state'],
      [[{ ...verifier(), state: 'retiring' }], 'keys[0].retiresAtMs'],
      [[{ ...verifier(), retiresAtMs: Number.NaN }], 'keys[0].retiresAtMs'],
      [[{ ...verifier(), state: 'retiring', retiresAtMs: undefined }], 'keys[0].retiresAtMs'],
      [[{ ...verifier(), publicKey: 'AAAA' }], 'keys[0].publicKey'],
      [[{ ...verifier(), keyId: 7 }], 'keys[0].keyId'],
    ] as const) {
      const keys = odd as unknown as typeof KEYS
      expect(() => verifyGrant(token, keys, { now: NOW })).toThrow(
        expect.objectContaining({
          code: 'INVALID_INPUT',
          details: expect.objectContaining({ field }),
        }),
      )
    }
    expect(codeOf(token, [verifier(KEY, { retiresAtMs: NOW })])).toBe('INVALID_SIGNATURE')
  })

  it('is verified with a key that says nothing of an end, and with keys that a function finds', () => {
    const { keyId, publicKey } = KEY
    const key = { keyId, publicKey, state: 'active' } as const
    const token = chain(grant(), CHILD)
    expect(verifyGrant(token, [key], { now: NOW }).id).toBe('child')
    const asked: string[] = []
    const find = (id: string): VerificationKey | undefined => {
      asked.push(id)
      return id === keyId ? { ...key } : undefined
    }
    expect(verifyGrant(token, find, { now: NOW }).keyIds).toEqual([keyId, keyId])
    expect(new Set(asked)).toEqual(new Set([keyId]))
    const token2 = signGrant(grant(), generateSigningKey())
    expect(() => verifyGrant(token2, find, { now: NOW })).toThrow(/is not known/)
    expect(() =>
      verifyGrant(token, () => ({ ...key, state: 'odd' as 'active' }), { now: NOW }),
    ).toThrow(/^keys\("[0-9a-f]{32}"\)\.state must be one of active, retiring, retired, got "odd"$/)
    const promised = (async () => key) as never
    expect(() => verifyGrant(token, promised, { now: NOW })).toThrow(/keyId must be text/)
  })

  it('is not made one for others, or for anybody, by deriving from it', () => {
    const root = grant({ audience: 'editor' })
    for (const audience of [null, 'shell']) {
      const token = chain(root, { ...CHILD, audience })
      expect(codeOf(token, KEYS, { audience: 'shell' })).toBe('INVALID_DERIVATION')
    }
    expect(
      codeOf(chain(root, { ...CHILD, audience: 'editor' }), KEYS, { audience: 'editor' }),
    ).toBe('accepted')
  })

  it('is signed only if it is one, and in its one spelling', () => {
    for (const [facts, field] of [
      [{ fence: 1.5 }, 'fence must be an integer 0..2^53-1, got 1.5'],
      [{ fence: -1 }, 'fence'],
      [{ issuedAtMs: Number.NaN }, 'issuedAtMs'],
      [{ expiresAtMs: undefined }, 'expiresAtMs'],
      [{ holder: 7 }, 'holder'],
      [{ parentId: 7 }, 'parentId must be text'],
      [{ audience: 7 }, 'audience must be text'],
      [{ id: '\ud800' }, 'id'],
      [{ resource: 'nothing' }, 'resource'],
      [{ mode: 'alone' }, 'mode'],
      [{ scope: { tools: 7 } }, 'scope.tools'],
      [{ budget: { gold: 1 } }, 'budget'],
    ] as const) {
      const odd = { ...grant(), ...facts } as unknown as Grant
      const error = errorOf(() => signGrant(odd, KEY))
      expect(error?.code).toBe('INVALID_INPUT')
      expect(error?.message.slice(0, field.length)).toBe(field)
    }
    for (const odd of [null, undefined, 7]) {
      const sign = () => signGrant(odd as unknown as Grant, KEY)
      expect(sign).toThrow(
        expect.objectContaining({
          code: 'INVALID_INPUT',
          message: `grant must be a grant, got ${odd}`,
        }),
      )
    }
    expect(codeOf(chain(grant({ fence: 0, issuedAtMs: 0 })))).toBe('accepted')
    for (const odd of [null, undefined, { keyId: KEY.keyId }]) {
      const sign = () => signGrant(grant(), odd as unknown as SigningKey)
      expect(sign).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }))
    }
    const scope = { unlimited: false, workIds: [], tools: ['test', 'edit', 'test'], namespaces: [] }
    const { tools } = verifyGrant(signGrant(grant({ scope }), KEY), KEYS, { now: NOW }).scope
    expect(tools).toEqual(['edit', 'test'])
  })

  it('for one audience is refused by every other, and by whoever does not say who they are', () => {
    const token = chain(grant({ audience: 'editor' }))
    expect(codeOf(token, KEYS, { audience: 'editor' })).toBe('accepted')
    expect(codeOf(token, KEYS, { audience: 'shell' })).toBe('UNAUTHORIZED')
    expect(codeOf(token)).toBe('UNAUTHORIZED')
  })

  it('is refused when any one of its bits was changed', () => {
    const token = chain(grant(), CHILD)
    const bytes = Buffer.from(token.split('.')[2] ?? '', 'base64url')
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8))
      expect(codeOf(`tenure-grant.1.${changed.toString('base64url')}`)).not.toBe('accepted')
    }
  })

  it('is refused in any other spelling of the same bytes', () => {
    const token = chain(grant())
    for (const other of [`${token}=`, `${token} `, ` ${token}`, token.replace('.1.', '.2.'), '']) {
      expect(codeOf(other)).toBe('DECODE_ERROR')
    }
    const [block] = blocks(token)
    if (block === undefined) throw new Error('no block')
    const longer = Buffer.concat([block[0], Buffer.from([0])])
    expect(codeOf(signed(longer))).toBe('DECODE_ERROR')
  })

  const token = chain(grant())
  const misspelt = Buffer.from(rootBytes().toString('latin1').replace('work:', 'work '), 'latin1')
  it.each<[string, unknown]>([
    ['a grant begins with tenure-grant.1.', 5],
    ['a grant begins with tenure-grant.1.', 'tenure-grant.2.'],
    ['the grant is no base64url', 'tenure-grant.1.='],
    ['a grant has 1..17 blocks', joined([])],
    ['something follows the grant', `${token}AAAA`],
    ['this is no grant', signed(rootBytes().fill('x', 4, 16))],
    ['a grant must be of version 1', signed(rootBytes().fill(2, 23, 24))],
    ['the grant is not in its canonical form', signed(Buffer.concat([rootBytes(), Buffer.of(0)]))],
    ['a field of the grant', signed(misspelt)],
  ])('that cannot be read is refused, and it is said why: %s', (problem, odd) => {
    const error = errorOf(() => verifyGrant(odd as string, KEYS, { now: NOW }))
    expect(error?.code).toBe('DECODE_ERROR')
    expect(error?.message).toBe(`the bytes cannot be read: ${problem}`)
  })

  it('whose scope is written in another order is refused, although it is signed', () => {
    const scope = parseScope({ tools: ['<<', '>>'] })
    const bytes = rootBytes({ scope })
    expect(codeOf(signed(bytes))).toBe('accepted')
    const [first, second] = [bytes.indexOf('<<'), bytes.indexOf('>>')]
    bytes.write('>>', first)
    bytes.write('<<', second)
    expect(codeOf(signed(bytes))).toBe('DECODE_ERROR')
  })

  it('has bytes that hold no usage: what was spent does not change them', () => {
    const text = Buffer.from(grantBytes(CHILD, KEY.keyId, Buffer.of())).toString('latin1')
    expect(text).not.toMatch(/used|spent|remaining/)
    expect(Object.keys(CHILD)).not.toContain('spent')
  })
})

describe('a chain of grants', () => {
  it('is refused when a block is dropped, repeated, reordered or comes from elsewhere', () => {
    const grandchild = { ...CHILD, id: 'grandchild', parentId: 'child', fence: 9 }
    const [a, b, c] = blocks(chain(grant(), CHILD, grandchild))
    const [, stranger] = blocks(chain(grant({ fence: 6 }), CHILD))
    if (!a || !b || !c || !stranger) throw new Error('a chain has three blocks')
    expect(codeOf(joined([a, b, c]))).toBe('accepted')
    for (const odd of [[b], [c], [a, c], [b, c], [b, a], [a, a], [a, b, b], [a, stranger]]) {
      expect(codeOf(joined(odd))).toBe('INVALID_DERIVATION')
    }
  })

  it('is refused when a block was signed again by somebody else', () => {
    const [a, b] = blocks(chain(grant(), CHILD))
    if (!a || !b) throw new Error('a chain has two blocks')
    expect(codeOf(joined([a, [b[0], generateSigningKey().sign(b[0])]]))).toBe('INVALID_SIGNATURE')
  })

  it('is of one registrar, whose later keys sign what is derived from its earlier ones', () => {
    const [next, other] = [generateSigningKey(), generateSigningKey()]
    const successor = { keyId: next.keyId, atMs: NOW, lastCheckpoints: [] }
    const keys = [
      verifier(KEY, { state: 'retiring', retiresAtMs: NOW + 1, successor }),
      verifier(next),
      verifier(other),
    ]
    const derived = (root: typeof KEY, child: typeof KEY): string => {
      return signGrant(CHILD, child, signGrant(grant(), root))
    }
    expect(() => verifyGrant(derived(KEY, other), keys, { now: NOW })).toThrow(
      expect.objectContaining({
        code: 'INVALID_DERIVATION',
        message: `key ${other.keyId} is not of the registrar before it`,
      }),
    )
    expect(codeOf(derived(next, KEY), keys)).toBe('INVALID_DERIVATION')
    expect(verifyGrant(derived(KEY, next), keys, { now: NOW })).toMatchObject({
      keyIds: [KEY.keyId, next.keyId],
    })
  })

  it('is refused where a child is wider than its parent, although the registrar signed it', () => {
    const wider = [
      { expiresAtMs: NOW + 5_001 },
      { scope: { ...CHILD.scope, tools: ['edit', 'shell'] } },
      { scope: { ...CHILD.scope, namespaces: ['src_backup'] } },
      { scope: grant().scope },
      { budget: { tokens: 101 } },
      { budget: {} },
      { resource: parseResource('work:W-2') },
    ]
    const narrow = { ...CHILD, id: 'grandchild', parentId: 'child', fence: 9 }
    expect(codeOf(chain(grant(), CHILD, narrow))).toBe('accepted')
    for (const facts of wider) {
      expect(codeOf(chain(grant(), CHILD, { ...narrow, ...facts }))).toBe('INVALID_DERIVATION')
    }
  })

  it('is refused where a child leaves the subtree of its parent, or has alone what that shares', () => {
    const tree = { resource: parseResource('file:/repo/src'), extent: 'subtree' } as const
    const under = (facts: Partial<Grant>, root: Partial<Grant> = {}): string => {
      const child = grant({ id: 'child', parentId: 'root', fence: 8, ...facts })
      return codeOf(chain(grant({ ...tree, ...root }), child))
    }
    expect(under({ resource: parseResource('file:/repo/src/a.ts') })).toBe('accepted')
    for (const name of ['file:/repo', 'file:/repo/src_backup', 'file:/etc/passwd', 'work:W-1']) {
      expect(under({ resource: parseResource(name) })).toBe('INVALID_DERIVATION')
    }
    expect(under(tree, { extent: 'exact' })).toBe('INVALID_DERIVATION')
    expect(under(tree, { mode: 'shared' })).toBe('INVALID_DERIVATION')
    expect(under({ ...tree, mode: 'shared' }, { mode: 'shared' })).toBe('accepted')
  })

  it('is refused where a grant names another parent than the one before it', () => {
    expect(codeOf(chain(grant({ parentId: 'other' })))).toBe('INVALID_DERIVATION')
    expect(codeOf(chain(grant(), { ...CHILD, parentId: 'other' }))).toBe('INVALID_DERIVATION')
    expect(codeOf(chain(grant(), { ...CHILD, parentId: null }))).toBe('INVALID_DERIVATION')
  })

  const [root, child] = blocks(chain(grant(), CHILD))
  const odd = root !== undefined && child !== undefined ? [root, [child[0], root[1]] as const] : []
  const late = { ...CHILD, issuedAtMs: NOW + GRANT_SKEW_MS + 1 }
  const wide = { ...CHILD, expiresAtMs: NOW + 10_001 }
  const ended = { ...CHILD, expiresAtMs: NOW }
  it.each<[ErrorCode, string, Grant, string?]>([
    ['INVALID_SIGNATURE', 'the signature does not fit the grant', CHILD, joined(odd)],
    [
      'INVALID_DERIVATION',
      'the grant does not follow from the one before it',
      { ...CHILD, parentId: 'other' },
    ],
    ['LEASE_EXPIRED', 'the grant has expired', ended],
    ['INVALID_EXPIRATION', 'the grant was issued in the future', late],
    ['INVALID_DERIVATION', 'the grant is wider than the one before it', wide],
    ['UNAUTHORIZED', 'the grant is for "editor"', { ...CHILD, audience: 'editor' }],
  ])('is refused with %s and the lease that it is about: %s', (code, message, refused, token) => {
    const signedChain = token ?? chain(grant(), refused)
    const { id: leaseId, holder, expiresAtMs } = refused
    expect(errorOf(() => verifyGrant(signedChain, KEYS, { now: NOW }))).toMatchObject({
      ...{ code, message, details: { leaseId, holder, expiresAtMs } },
    })
  })

  it('is at most 17 long: a root and sixteen derivations', () => {
    const many = Array.from({ length: 18 }, (_, depth) => {
      const parentId = depth === 0 ? null : `g${depth - 1}`
      return grant({ id: `g${depth}`, fence: 7 + depth, parentId })
    })
    expect(codeOf(chain(...many.slice(0, 17)))).toBe('accepted')
    expect(() => verifyGrant(chain(...many), KEYS, { now: NOW })).toThrow(
      'the bytes cannot be read: a grant has 1..17 blocks',
    )
  })
})

it('bytes of different fields never run into each other', () => {
  fc.assert(
    fc.property(fc.array(fc.string()), fc.array(fc.string()), (a, b) => {
      const [one, two] = [a, b].map((texts) => {
        const writer = new ByteWriter()
        for (const text of texts) writer.text(text)
        return writer.toBytes().toString('hex')
      })
      expect(one === two).toBe(JSON.stringify(a) === JSON.stringify(b))
    }),
  )
})
