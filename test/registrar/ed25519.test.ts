import { createPublicKey, verify } from 'node:crypto'
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { generateSigningKey, SigningKey, verifySignature } from '../../src/registrar/ed25519.ts'

const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'))
const hex = (value: Uint8Array): string => Buffer.from(value).toString('hex')

/** RFC 8032, section 7.1: secret, public, message, signature. */
const RFC_8032: readonly (readonly [string, string, string, string])[] = [
  [
    '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60',
    'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
    '',
    'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b',
  ],
  [
    '4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb',
    '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c',
    '72',
    '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00',
  ],
  [
    'c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7',
    'fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025',
    'af82',
    '6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a',
  ],
  [
    '833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42',
    'ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf',
    'ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f',
    'dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704',
  ],
]

describe('signatures', () => {
  it.each(RFC_8032)('are those of RFC 8032 (%s)', (secret, publicKey, message, signature) => {
    const key = new SigningKey(bytes(secret))
    expect(hex(key.publicKey)).toBe(publicKey)
    expect(hex(key.sign(bytes(message)))).toBe(signature)
    expect(verifySignature(bytes(message), bytes(signature), bytes(publicKey))).toBe(true)
  })

  it('do not fit another message, another key, or other bytes', () => {
    const key = generateSigningKey()
    const message = bytes('0102')
    const signature = key.sign(message)
    expect(verifySignature(bytes('0103'), signature, key.publicKey)).toBe(false)
    expect(verifySignature(message, signature, generateSigningKey().publicKey)).toBe(false)
    const accepted = [...signature.keys()].filter((at) => {
      const changed = signature.map((byte, index) => (index === at ? byte ^ 1 : byte))
      try {
        return verifySignature(message, changed, key.publicKey)
      } catch {
        return false
      }
    })
    expect(accepted).toEqual([])
  })

  it('with the order of the group added to their second half are refused', () => {
    const key = generateSigningKey()
    const signature = key.sign(bytes('01'))
    const order = 2n ** 252n + 27742317777372353535851937790883648493n
    const s = BigInt(`0x${hex(signature.slice(32).toReversed())}`) + order
    const other = bytes(s.toString(16).padStart(64, '0')).toReversed()
    const changed = Uint8Array.from([...signature.slice(0, 32), ...other])
    expect(() => verifySignature(bytes('01'), changed, key.publicKey)).toThrow(
      expect.objectContaining({ code: 'INVALID_SIGNATURE' }),
    )
  })
})

describe('keys of small order', () => {
  const SMALL = [
    `${'00'.repeat(32)}`,
    `${'00'.repeat(31)}80`,
    `01${'00'.repeat(31)}`,
    `01${'00'.repeat(30)}80`,
    `ec${'ff'.repeat(30)}7f`,
    `ec${'ff'.repeat(31)}`,
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
  ]

  it('are a danger: the library below accepts one signature for every message', () => {
    const spki = Buffer.concat([bytes('302a300506032b6570032100'), bytes(SMALL[2] ?? '')])
    const key = createPublicKey({ key: spki, format: 'der', type: 'spki' })
    const forged = bytes(`01${'00'.repeat(63)}`)
    expect(verify(null, bytes('01'), key, forged)).toBe(true)
    expect(verify(null, bytes('02'), key, forged)).toBe(true)
  })

  it.each(SMALL)('are refused: %s', (publicKey) => {
    const { code } = { code: 'INVALID_SIGNATURE' }
    expect(() => verifySignature(bytes('01'), bytes('22'.repeat(64)), bytes(publicKey))).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining('public key is a point') }),
    )
  })

  it('are refused in other encodings, too', () => {
    for (const y of [`ed${'ff'.repeat(30)}7f`, `ee${'ff'.repeat(30)}7f`, 'ff'.repeat(32)]) {
      expect(() => verifySignature(bytes('01'), bytes('22'.repeat(64)), bytes(y))).toThrow(
        /canonical encoding/,
      )
    }
  })
})

describe('a signing key', () => {
  it('does not show its secret', () => {
    const key = generateSigningKey()
    const secret = Buffer.from(key.exportSeed())
    for (const shown of [inspect(key, { depth: 9, showHidden: true }), JSON.stringify(key)]) {
      for (const encoding of ['hex', 'base64', 'base64url'] as const) {
        expect(shown).not.toContain(secret.toString(encoding))
      }
    }
    expect(JSON.parse(JSON.stringify(key))).toEqual({ keyId: key.keyId })
  })

  it('is 32 bytes, and named by the hash of its public part', () => {
    expect(() => new SigningKey(bytes('00'))).toThrow(/seed must be 32 bytes/)
    const key = generateSigningKey()
    expect(new SigningKey(key.exportSeed()).keyId).toBe(key.keyId)
    expect(key.keyId).toMatch(/^[0-9a-f]{32}$/)
    expect(generateSigningKey().keyId).not.toBe(key.keyId)
  })
})
