/**
 * A verifier of grants and of a registrar's events that was written from `docs/delegation.md` and `docs/ledger.md` alone:
 * it imports nothing of Tenure, as a program in another language could not.
 */
import { createHash, createPublicKey, verify } from 'node:crypto'

class Reader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  take(length: number): Buffer {
    const taken = this.#bytes.subarray(this.#at, this.#at + length)
    if (taken.length < length) throw new Error('the bytes end too early')
    this.#at += length
    return taken
  }

  bytes(): Buffer {
    return this.take(this.take(4).readUInt32BE())
  }

  text(): string {
    return this.bytes().toString('utf8')
  }

  integer(): number {
    return Number(this.take(8).readBigUInt64BE())
  }

  optional<Value>(read: () => Value): Value | null {
    return this.take(1)[0] === 1 ? read() : null
  }

  texts(): string[] {
    return Array.from({ length: this.integer() }, () => this.text())
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }
}

export interface TrustedKey {
  readonly keyId: string
  /** Hexadecimal. */
  readonly publicKey: string
}

const SPKI_HEAD = Buffer.from('302a300506032b6570032100', 'hex')

export function fits(message: Buffer, signature: Buffer, { publicKey }: TrustedKey): boolean {
  const der = Buffer.concat([SPKI_HEAD, Buffer.from(publicKey, 'hex')])
  return verify(
    null,
    message,
    createPublicKey({ key: der, format: 'der', type: 'spki' }),
    signature,
  )
}

export function keyIdOf(publicKey: string): string {
  const digest = createHash('sha256').update('tenure-key/1\n').update(Buffer.from(publicKey, 'hex'))
  return digest.digest('hex').slice(0, 32)
}

export interface ReadGrant {
  readonly id: string
  readonly parentId: string | null
  readonly expiresAtMs: number
  readonly [field: string]: unknown
}

/** The grants of a token, the root first. Throws where one is not signed, or does not follow from the one before it. */
export function readToken(token: string, keys: readonly TrustedKey[]): readonly ReadGrant[] {
  const [tag, version, body = ''] = token.split('.')
  if (tag !== 'tenure-grant' || version !== '1') throw new Error('this is no grant')
  const reader = new Reader(Buffer.from(body, 'base64url'))
  let before = Buffer.alloc(0)
  const grants: ReadGrant[] = []
  const count = reader.integer()
  for (let index = 0; index < count; index += 1) {
    const [bytes, signature] = [reader.bytes(), reader.bytes()]
    const { keyId, previous, grant } = readGrant(bytes)
    const key = keys.find((trusted) => trusted.keyId === keyId)
    if (key === undefined || !fits(bytes, signature, key)) throw new Error('is not signed')
    const parentId = grants.at(-1)?.id ?? null
    if (!previous.equals(before) || grant.parentId !== parentId) throw new Error('does not follow')
    grants.push(grant)
    before = createHash('sha256')
      .update(Buffer.concat([lengthOf(bytes), bytes, lengthOf(signature), signature]))
      .digest()
  }
  if (!reader.isAtEnd) throw new Error('something follows')
  return grants
}

function lengthOf(bytes: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return length
}

function readGrant(bytes: Buffer): { keyId: string; previous: Buffer; grant: ReadGrant } {
  const reader = new Reader(bytes)
  if (reader.text() !== 'tenure-grant' || reader.integer() !== 1) throw new Error('is no grant')
  const [keyId, previous] = [reader.text(), reader.bytes()]
  const text = (): string => reader.text()
  const integer = (): number => reader.integer()
  const grant = {
    ...{ id: text(), resource: text(), mode: text(), extent: text(), holder: text() },
    ...{ fence: integer(), issuedAtMs: integer(), expiresAtMs: integer() },
    ...{ parentId: reader.optional(text), audience: reader.optional(text) },
    scope: {
      unlimited: integer() === 1,
      ...{ workIds: reader.texts(), tools: reader.texts(), namespaces: reader.texts() },
    },
    budget: {
      ...{ episodes: reader.optional(integer), toolCalls: reader.optional(integer) },
      ...{ tokens: reader.optional(integer), durationMs: reader.optional(integer) },
    },
  }
  if (!reader.isAtEnd) throw new Error('something follows')
  return { keyId, previous, grant }
}

class Writer {
  readonly #parts: Buffer[] = []

  bytes(value: Buffer): this {
    this.#parts.push(lengthOf(value), value)
    return this
  }

  text(value: string): this {
    return this.bytes(Buffer.from(value, 'utf8'))
  }

  integer(value: number | bigint): this {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64BE(BigInt(value))
    this.#parts.push(bytes)
    return this
  }

  /** In JSON a number is milliseconds (or a small tick), text is nanoseconds (or a large one). */
  count(value: number | string): this {
    this.#parts.push(Buffer.from([typeof value === 'string' ? 1 : 0]))
    return this.integer(BigInt(value))
  }

  optional<Value>(value: Value | undefined, write: (value: Value) => void): this {
    this.#parts.push(Buffer.from([value === undefined ? 0 : 1]))
    if (value !== undefined) write(value)
    return this
  }

  texts(values: readonly string[]): this {
    this.integer(values.length)
    for (const value of values) this.text(value)
    return this
  }

  toBytes(): Buffer {
    return Buffer.concat(this.#parts)
  }
}

interface Tick {
  readonly value: number | string
  readonly rateHz: number
  readonly domain: string
}

/** An event as JSON has it. */
export interface JsonEvent {
  readonly eventType: string
  readonly sessionId?: string
  readonly actorId: string
  readonly atMs: number
  readonly payload: { readonly kind: string; readonly registrarSignature: string } & Readonly<
    Record<string, unknown>
  >
}

/** Whether the registrar has signed the event. */
export function isSigned(event: JsonEvent, keys: readonly TrustedKey[]): boolean {
  const signature = Buffer.from(event.payload.registrarSignature, 'base64url')
  const keyId = signature.subarray(0, 16).toString('hex')
  const key = keys.find((trusted) => trusted.keyId === keyId)
  if (key === undefined || signature.length !== 80) return false
  const writer = new Writer().text('tenure-registrar-event').integer(1).text(keyId)
  writer.text(event.eventType)
  writer.optional(event.sessionId, (sessionId) => writer.text(sessionId))
  writer.text(event.actorId).integer(event.atMs).bytes(unsignedPayload(event.payload))
  return fits(writer.toBytes(), signature.subarray(16), key)
}

/** A payload up to its signature, which stands last. */
export function unsignedPayload(payload: JsonEvent['payload']): Buffer {
  const writer = new Writer().text('tenure-registrar-payload').integer(1).text(payload.kind)
  const text = (name: string) => writer.text(payload[name] as string)
  const time = (name: string) => writer.count(payload[name] as number | string)
  const tick = (name: string) => {
    return writer.optional(payload[name] as Tick | undefined, ({ value, rateHz, domain }) => {
      writer.count(value).integer(rateHz).text(domain)
    })
  }
  switch (payload.kind) {
    case 'lease_issued':
      for (const name of ['leaseId', 'workId', 'actorId']) text(name)
      for (const name of ['issuedAt', 'expiresAt']) time(name)
      for (const name of ['issuedAtTick', 'expiresAtTick']) tick(name)
      break
    case 'lease_renewed':
      text('leaseId')
      time('newExpiresAt')
      tick('newExpiresAtTick')
      break
    case 'lease_released':
      text('leaseId')
      text('releaseReason')
      break
    case 'lease_expired':
      text('leaseId')
      time('expiredAt')
      tick('expiredAtTick')
      break
    default:
      text('workId')
      writer.texts(payload['conflictingLeaseIds'] as string[])
      text('resolution')
  }
  return writer.toBytes()
}
