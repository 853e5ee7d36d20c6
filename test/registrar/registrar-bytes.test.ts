/** A registrar's events as bytes and as JSON, and its signatures of them, through the public package. */
import { describe, expect, it } from 'vitest'
import {
  eventBytes,
  generateSigningKey,
  leaseConflictPayload,
  LeaseError,
  leaseExpiredPayload,
  leaseIssuedPayload,
  LeaseReducer,
  leaseReleasedPayload,
  leaseRenewedPayload,
  ledgerRecord,
  parsePayload,
  payloadBytes,
  signEvent,
  verifyEvent,
  type EventRecord,
  type OwnPayload,
  type VerificationKey,
} from '../../src/ledger/index.ts'
import { fc } from '../fast-check.ts'
import { livedWorld, wholeHistory } from '../ledger/ledger-world.ts'

const KEY = generateSigningKey()
const TRUSTED: VerificationKey = { keyId: KEY.keyId, publicKey: KEY.publicKey, state: 'active' }
const NOW = 1_500
const tick = (value: number | bigint) => ({ value, rateHz: 1_000, domain: 'host/boot/1' })

function codeOf(act: () => unknown): string {
  try {
    act()
    return 'no error'
  } catch (error) {
    if (error instanceof LeaseError) return error.code
    throw error
  }
}

/** The life of a lease in nanoseconds and large ticks, and a conflict: nothing of it is plain JSON. */
const LIFE: readonly EventRecord[] = [
  record(
    'lease.issued',
    leaseIssuedPayload({
      ...{ leaseId: 'lease-001', workId: 'wörk "1"', actorId: 'agent-001' },
      ...{ issuedAt: 1_000_000_000n, expiresAt: 2n ** 64n - 2n },
      ...{ issuedAtTick: tick(2n ** 60n), expiresAtTick: tick(2n ** 61n) },
      registrarSignature: [1, 2, 3, 255],
    }),
  ),
  record(
    'lease.renewed',
    leaseRenewedPayload({
      ...{ leaseId: 'lease-001', newExpiresAt: 2n ** 64n - 1n, newExpiresAtTick: tick(2n ** 62n) },
      registrarSignature: new Uint8Array(512).fill(7),
    }),
  ),
  record(
    'lease.conflict',
    leaseConflictPayload({
      ...{ workId: 'wörk "1"', conflictingLeaseIds: ['lease-001', 'lease-2'], resolution: '' },
    }),
  ),
  record(
    'lease.expired',
    leaseExpiredPayload({
      ...{ leaseId: 'lease-001', expiredAt: 2n ** 64n - 1n, expiredAtTick: tick(2n ** 63n) },
    }),
  ),
  record(
    'lease.issued',
    leaseIssuedPayload({
      ...{ leaseId: 'lease-2', workId: 'w', actorId: 'agent-001', issuedAt: 1, expiresAt: 2_000 },
      registrarSignature: [9],
    }),
  ),
  {
    ...record(
      'lease.released',
      leaseReleasedPayload({
        ...{ leaseId: 'lease-2', releaseReason: 'Completed' },
      }),
    ),
    actorId: 'agent-001',
    sessionId: 'session-1',
  },
]

function record(eventType: string, payload: OwnPayload): EventRecord {
  return { eventType, actorId: 'registrar', atMs: NOW, payload }
}

function payloadOf({ payload }: EventRecord): OwnPayload {
  return payload as OwnPayload
}

function first(): EventRecord {
  return LIFE[0] as EventRecord
}

function none(): never {
  return undefined as never
}

function digestAfter(events: readonly EventRecord[]): string {
  const reducer = new LeaseReducer()
  for (const event of events) reducer.apply(event)
  return reducer.state.digest()
}

describe('an event of a registrar', () => {
  it('means the same through JSON, as canonical bytes, and as it was made', () => {
    const digest = digestAfter(LIFE)
    const text = JSON.stringify(LIFE)
    expect(digestAfter(JSON.parse(text) as EventRecord[])).toBe(digest)
    const asBytes = LIFE.map((event) => ({ ...event, payload: payloadBytes(payloadOf(event)) }))
    expect(digestAfter(asBytes)).toBe(digest)
    const read = asBytes.map((event) => ({ ...event, payload: parsePayload(event.payload) }))
    expect(JSON.stringify(read)).toBe(text)
  })

  it('has the same bytes when its payload comes out of JSON', () => {
    for (const { payload } of LIFE.map((event) => signEvent(event, KEY))) {
      const throughJson = JSON.parse(JSON.stringify(payload)) as OwnPayload
      expect(payloadBytes(throughJson)).toEqual(payloadBytes(payload as OwnPayload))
    }
    const odd = { ...payloadOf(first()), expiresAt: 'soon' } as never
    expect(() => payloadBytes(odd)).toThrow(/^expiresAt must be .*, got "soon"$/)
    const signed = { ...payloadOf(first()), registrarSignature: '!' } as never
    expect(codeOf(() => payloadBytes(signed))).toBe('DECODE_ERROR')
    const numbers = { ...payloadOf(first()), registrarSignature: [1] } as never
    expect(() => payloadBytes(numbers)).toThrow(/^registrarSignature must be .*, got an array$/)
  })

  it('is written in JSON as base64url and decimal text', () => {
    const [first] = JSON.parse(JSON.stringify(LIFE)) as { payload: Record<string, unknown> }[]
    expect(first?.payload).toMatchObject({
      kind: 'lease_issued',
      issuedAt: '1000000000',
      issuedAtTick: { value: String(2n ** 60n), rateHz: 1_000 },
      registrarSignature: 'AQID_w',
    })
  })

  it.each<[string, RegExp, () => unknown]>([
    ['parsePayload(null)', /^bytes must be .*, got null$/, () => parsePayload(null as never)],
    ['parsePayload of text', /^bytes must be .*, got "x"$/, () => parsePayload('x' as never)],
    [
      'parsePayload of an object',
      /^bytes must be .*, got an object$/,
      () => parsePayload(payloadOf(LIFE[0] as EventRecord) as never),
    ],
    ['payloadBytes(null)', /^payload must be .*, got null$/, () => payloadBytes(null as never)],
    ['payloadBytes of text', /^payload must be .*, got "x"$/, () => payloadBytes('x' as never)],
    [
      'payloadBytes of no kind',
      /^payload must be .*, got an object$/,
      () => payloadBytes({} as never),
    ],
    ['eventBytes(e, 5)', /^keyId must be .*, got 5$/, () => eventBytes(first(), 5 as never)],
    ['eventBytes(e)', /^keyId must be .*, got undefined$/, () => eventBytes(first(), none())],
    ['signEvent(e, {})', /^key must be .*, got an object$/, () => signEvent(first(), {} as never)],
    ['signEvent(e)', /^key must be .*, got undefined$/, () => signEvent(first(), none())],
  ])('is refused in one line by %s', (_name, message, act) => {
    expect(act).toThrow(message)
    expect(codeOf(act)).toBe('INVALID_INPUT')
  })

  it('has one way to be written: any other bytes cannot be decoded', () => {
    const bytes = payloadBytes(payloadOf(LIFE[0] as EventRecord))
    const broken = [
      ...[new Uint8Array(0), bytes.subarray(0, -1), Uint8Array.of(...bytes, 0)],
      Buffer.from('{"kind":"lease_issued"}'),
      Buffer.from(bytes).fill(0xff, bytes.length - 40, bytes.length - 36),
    ]
    for (const odd of broken) {
      expect(codeOf(() => parsePayload(odd))).toBe('DECODE_ERROR')
      const event = { eventType: 'lease.issued', actorId: 'r', atMs: 1, payload: odd }
      expect(codeOf(() => new LeaseReducer().apply(event))).toBe('DECODE_ERROR')
    }
    const notText = { ...LIFE[0], payload: { ...payloadOf(LIFE[0] as EventRecord) } }
    const signed = { ...notText.payload, registrarSignature: 'no base64url!' }
    const mangled = { ...notText, payload: signed } as unknown as EventRecord
    expect(codeOf(() => new LeaseReducer().apply(mangled))).toBe('DECODE_ERROR')
  })

  it('is read whatever a byte was changed to: never anything but DECODE_ERROR or a payload', () => {
    const all = LIFE.map((event) => payloadBytes(payloadOf(event)))
    fc.assert(
      fc.property(fc.constantFrom(...all), fc.nat(), fc.nat(255), (bytes, at, value) => {
        const changed = Uint8Array.from(bytes)
        changed[at % changed.length] = value
        const code = codeOf(() => {
          expect(payloadBytes(parsePayload(changed))).toEqual(Buffer.from(changed))
        })
        expect(['DECODE_ERROR', 'no error']).toContain(code)
      }),
    )
  })

  it('is refused by its helper when its facts are given one after the other, or are not known', () => {
    const positional = leaseIssuedPayload as unknown as (...facts: unknown[]) => unknown
    expect(() => positional('lease-001', 'work-001', 'agent-001', 1, 2, [1])).toThrow(
      /^facts must be an object of leaseId, workId, .*, got "lease-001"$/,
    )
    const misspelt = { leaseId: 'a', releaseReason: 'COMPLETED', reason: 'x' }
    expect(() => leaseReleasedPayload(misspelt)).toThrow(/facts must be of .*, got "reason"/)
    expect(
      codeOf(() => leaseReleasedPayload({ ...misspelt, registrarSignature: [256] } as never)),
    ).toBe('INVALID_INPUT')
  })
})

describe("a registrar's signature", () => {
  it('is over all that an event says, and holds through JSON and bytes', () => {
    for (const event of LIFE) {
      const signed = signEvent(event, KEY)
      const throughJson = JSON.parse(JSON.stringify(signed)) as EventRecord
      const asBytes = { ...signed, payload: payloadBytes(payloadOf(signed)) }
      for (const one of [signed, throughJson, asBytes]) {
        expect(verifyEvent(one, [TRUSTED], { now: NOW })).toEqual({ keyId: KEY.keyId })
        const others = [
          { ...one, actorId: 'mallory' },
          { ...one, atMs: NOW + 1 },
          { ...one, sessionId: 'another' },
          { ...signed, payload: { ...payloadOf(signed), leaseId: 'l', workId: 'l' } },
        ]
        for (const other of others) {
          expect(codeOf(() => verifyEvent(other as EventRecord, [TRUSTED], { now: NOW }))).toBe(
            'INVALID_SIGNATURE',
          )
        }
      }
      expect(signEvent(signed, KEY)).toEqual(signed)
    }
    expect(digestAfter(LIFE.map((event) => signEvent(event, KEY)))).toMatch(/^[0-9a-f]{64}$/)
  })

  it('vouches for no fact that it is not over', () => {
    for (const event of LIFE) {
      const payload = payloadOf(signEvent(event, KEY))
      for (const name of ['approvedBy', '__proto__', 'toJSON']) {
        const text = JSON.stringify(payload).replace(/}$/, `,"${name}":"mallory"}`)
        const altered = { ...event, payload: JSON.parse(text) as unknown }
        expect(codeOf(() => verifyEvent(altered, [TRUSTED], { now: NOW }))).toBe(
          'INVALID_SIGNATURE',
        )
        expect(() => signEvent(altered, KEY)).toThrow(`got "${name}"`)
      }
    }
  })

  it('is refused where it is missing, of another length, or of a key that is not trusted then', () => {
    const [event] = LIFE as [EventRecord]
    const signed = signEvent(event, KEY)
    const bare = LIFE[2] as EventRecord
    expect(codeOf(() => verifyEvent(bare, [TRUSTED], { now: NOW }))).toBe('MISSING_SIGNATURE')
    expect(codeOf(() => verifyEvent(event, [TRUSTED], { now: NOW }))).toBe('INVALID_SIGNATURE')
    const retiring = { ...TRUSTED, state: 'retiring', retiresAtMs: NOW } as const
    for (const keys of [[], [retiring], [{ ...TRUSTED, state: 'retired' } as const]]) {
      expect(codeOf(() => verifyEvent(signed, keys, { now: NOW }))).toBe('INVALID_SIGNATURE')
    }
    expect(verifyEvent(signed, [retiring], { now: NOW - 1 })).toEqual({ keyId: KEY.keyId })
    expect(codeOf(() => verifyEvent(signed, [TRUSTED], {} as never))).toBe('INVALID_INPUT')
    expect(codeOf(() => verifyEvent(null as never, [TRUSTED], { now: NOW }))).toBe('DECODE_ERROR')
  })

  it('is verified with keys that a function finds', () => {
    const signed = signEvent(LIFE[0] as EventRecord, KEY)
    const asked: string[] = []
    const find = (keyId: string): VerificationKey | undefined => {
      asked.push(keyId)
      return keyId === KEY.keyId ? TRUSTED : undefined
    }
    expect(verifyEvent(signed, find, { now: NOW })).toEqual({ keyId: KEY.keyId })
    expect(asked).toEqual([KEY.keyId])
    const stranger = signEvent(LIFE[0] as EventRecord, generateSigningKey())
    expect(codeOf(() => verifyEvent(stranger, find, { now: NOW }))).toBe('INVALID_SIGNATURE')
    const odd = (() => ({ keyId: 7 })) as never
    expect(codeOf(() => verifyEvent(signed, odd, { now: NOW }))).toBe('INVALID_INPUT')
  })

  it('is not for the events of a store, which their chain proves', async () => {
    const { store } = await livedWorld(1, 20)
    const [entry] = await wholeHistory(store)
    if (entry === undefined) throw new Error('the world has no history')
    expect(codeOf(() => signEvent(ledgerRecord(entry.event), KEY))).toBe('DECODE_ERROR')
  })
})
