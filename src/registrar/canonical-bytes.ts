/**
 * Bytes that are signed or hashed: every field carries its length, so that no two different values have the same
 * bytes, and there is one way only to write a value.
 */
import { LeaseError } from '../core/errors.ts'

export class ByteWriter {
  readonly #parts: Buffer[] = []

  text(value: string): this {
    return this.bytes(Buffer.from(value, 'utf8'))
  }

  bytes(value: Uint8Array): this {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(value.length)
    this.#parts.push(length, Buffer.from(value))
    return this
  }

  /** A safe integer of at least 0. */
  integer(value: number): this {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64BE(BigInt(value))
    this.#parts.push(bytes)
    return this
  }

  /** An integer 0..2^64-1 of either type; which of them it was is written, too. */
  count(value: number | bigint): this {
    const bytes = Buffer.alloc(9)
    bytes.writeUInt8(typeof value === 'bigint' ? 1 : 0)
    bytes.writeBigUInt64BE(BigInt(value), 1)
    this.#parts.push(bytes)
    return this
  }

  optional<Value>(value: Value | null | undefined, write: (value: Value) => void): this {
    const isThere = value !== null && value !== undefined
    this.#parts.push(Buffer.from([isThere ? 1 : 0]))
    if (isThere) write(value)
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

export class ByteReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes)
  }

  text(): string {
    return this.bytes().toString('utf8')
  }

  bytes(): Buffer {
    return this.#take(this.#take(4).readUInt32BE())
  }

  integer(): number {
    const value = Number(this.#take(8).readBigUInt64BE())
    if (Number.isSafeInteger(value)) return value
    throw undecodable('a number is too large')
  }

  count(): number | bigint {
    const mark = this.#take(1)[0]
    if (mark === 0) return this.integer()
    if (mark === 1) return this.#take(8).readBigUInt64BE()
    throw undecodable('a number is of no known type')
  }

  optional<Value>(read: () => Value): Value | null {
    const mark = this.#take(1)[0]
    if (mark === 0) return null
    if (mark === 1) return read()
    throw undecodable('a mark is neither 0 nor 1')
  }

  texts(): readonly string[] {
    const count = this.integer()
    const values: string[] = []
    for (let index = 0; index < count; index += 1) values.push(this.text())
    return values
  }

  isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  #take(length: number): Buffer {
    const end = this.#at + length
    if (end > this.#bytes.length) throw undecodable('the bytes end too early')
    const taken = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return taken
  }
}

/** Base64url in its one spelling: without padding, without stray bits, without anything else. */
export function fromBase64Url(field: string, text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') === text) return bytes
  throw undecodable(`${field} is no base64url`)
}

export function undecodable(problem: string, cause?: unknown): LeaseError {
  return new LeaseError('DECODE_ERROR', `the bytes cannot be read: ${problem}`, { cause })
}
