/**
 * docs/vectors.json is what a program in another language checks itself against: Tenure writes exactly these bytes, and a
 * verifier that knows nothing but the written layout accepts and refuses what Tenure does.
 */
import fs from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  grantBytes,
  LeaseError,
  signGrant,
  SigningKey,
  verifyGrant,
  type Grant,
  type VerificationKey,
} from '../../src/delegation/index.ts'
import {
  eventBytes,
  LeaseReducer,
  parsePayload,
  payloadBytes,
  signEvent,
  verifyEvent,
  type EventRecord,
  type OwnPayload,
} from '../../src/ledger/index.ts'
import {
  isSigned,
  keyIdOf,
  readToken,
  unsignedPayload,
  type JsonEvent,
} from './independent-verifier.ts'

interface Vectors {
  readonly now: number
  readonly key: { readonly seed: string; readonly publicKey: string; readonly keyId: string }
  readonly grants: readonly {
    readonly name: string
    readonly audience?: string
    readonly chain: readonly Grant[]
    /** Of the last block. */
    readonly bytes: string
    readonly token: string
  }[]
  readonly refusedGrants: readonly {
    readonly name: string
    readonly code: string
    readonly token: string
  }[]
  readonly events: readonly {
    readonly event: JsonEvent
    readonly payload: string
    readonly signed: string
  }[]
}

const VECTORS = JSON.parse(
  fs.readFileSync(new URL('../../docs/vectors.json', import.meta.url), 'utf8'),
) as Vectors
const KEY = new SigningKey(Buffer.from(VECTORS.key.seed, 'hex'))
const KEYS: readonly VerificationKey[] = [
  { keyId: KEY.keyId, publicKey: KEY.publicKey, state: 'active' },
]
const TRUSTED = [VECTORS.key]
const { now } = VECTORS

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

describe('the test vectors', () => {
  it('have the key that their seed makes', () => {
    expect([hex(KEY.publicKey), KEY.keyId]).toEqual([VECTORS.key.publicKey, VECTORS.key.keyId])
    expect(keyIdOf(VECTORS.key.publicKey)).toBe(VECTORS.key.keyId)
  })

  it.each(VECTORS.grants)(
    '$name: this token is signed, and verified by the layout alone',
    (vector) => {
      let token: string | undefined
      for (const grant of vector.chain) token = signGrant(grant, KEY, token)
      expect(token).toBe(vector.token)
      const audience = vector.audience === undefined ? {} : { audience: vector.audience }
      const { ancestors, depth, keyIds, root, ...last } = verifyGrant(vector.token, KEYS, {
        now,
        ...audience,
      })
      expect([...ancestors, last]).toEqual(vector.chain)
      expect([depth, keyIds.length]).toEqual([ancestors.length, vector.chain.length])
      expect(root.leaseId).toBe(vector.chain[0]?.id)
      const read = readToken(vector.token, TRUSTED)
      expect(JSON.parse(JSON.stringify(read, (_name, value) => value ?? undefined))).toEqual(
        JSON.parse(JSON.stringify(vector.chain, (_name, value) => value ?? undefined)),
      )
      if (vector.chain.length === 1) {
        expect(hex(grantBytes(last, KEY.keyId, new Uint8Array(0)))).toBe(vector.bytes)
      }
      const bytes = Buffer.from(vector.token.split('.')[2] ?? '', 'base64url')
      expect(bytes.includes(Buffer.from(vector.bytes, 'hex'))).toBe(true)
    },
  )

  it.each(VECTORS.refusedGrants)('$name: this token is refused with $code', ({ code, token }) => {
    expect(() => verifyGrant(token, KEYS, { now })).toThrow(expect.objectContaining({ code }))
    if (code === 'INVALID_SIGNATURE')
      expect(() => readToken(token, TRUSTED)).toThrow('is not signed')
  })

  it.each(VECTORS.events)(
    '$event.eventType: this event is signed, and verified by the layout alone',
    (vector) => {
      const event = vector.event as unknown as EventRecord
      expect(verifyEvent(event, KEYS, { now })).toEqual({ keyId: KEY.keyId })
      expect(isSigned(vector.event, TRUSTED)).toBe(true)
      expect(isSigned({ ...vector.event, atMs: vector.event.atMs + 1 }, TRUSTED)).toBe(false)
      expect(hex(eventBytes(event, KEY.keyId))).toBe(vector.signed)
      const payload: OwnPayload = parsePayload(Buffer.from(vector.payload, 'hex'))
      expect(hex(payloadBytes(payload))).toBe(vector.payload)
      expect(hex(payloadBytes(vector.event.payload as never))).toBe(vector.payload)
      expect(vector.payload.startsWith(hex(unsignedPayload(vector.event.payload)))).toBe(true)
      const signed = signEvent({ ...event, payload }, KEY)
      expect(JSON.parse(JSON.stringify(signed))).toEqual(vector.event)
    },
  )

  it('are events that a reducer takes', () => {
    const reducer = new LeaseReducer()
    for (const { event } of VECTORS.events) reducer.apply(event as unknown as EventRecord)
    expect([reducer.state.len(), reducer.state.terminalCount()]).toEqual([2, 2])
    expect(() =>
      reducer.apply({ eventType: 'lease.issued', actorId: 'r', atMs: 1, payload: 0 }),
    ).toThrow(LeaseError)
  })
})
