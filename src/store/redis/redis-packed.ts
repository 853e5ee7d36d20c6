/**
 * Many texts as one argument, in MessagePack, which the scripts can take apart without any code of their own. An argument
 * of its own for each text costs the driver, the socket and the server more than all that is done with it: the driver
 * measures and encodes each as UTF-8, character by character.
 *
 * The texts are written as bytes from the beginning. Put together as strings, each piece is an object of its own, and
 * all pieces of a group have to be gone through once more to make bytes of them.
 */

/** A text and how long it is: 0xdb, and four bytes. */
const HEAD_BYTES = 5
const FIRST_BYTES = 16_384
/** Larger than this, the bytes are not kept for the next group. */
const KEPT_BYTES_MAX = 1_048_576
/** Up to this length writing each character is faster than asking Node to. */
const SHORT_MAX = 64
const EIGHT_DIGITS = 100_000_000
const ZERO = 48

export class PackedTexts {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES)
  #end = 0
  #textAt = 0
  #count = 0

  /** How many texts there are. */
  get count(): number {
    return this.#count
  }

  clear(): void {
    this.#end = 0
    this.#count = 0
    if (this.#bytes.length > KEPT_BYTES_MAX) this.#bytes = Buffer.allocUnsafe(FIRST_BYTES)
  }

  /** A whole text, in characters of one byte: what may not be ASCII must have been made so by `oneByte`. */
  add(text: string): void {
    this.begin()
    this.text(text)
    this.finish()
  }

  /** What is written from here to `finish` is one text. */
  begin(): void {
    this.#reserve(HEAD_BYTES)
    this.#textAt = this.#end
    this.#end += HEAD_BYTES
  }

  finish(): void {
    this.#bytes[this.#textAt] = 0xdb
    this.#bytes.writeUInt32BE(this.#end - this.#textAt - HEAD_BYTES, this.#textAt + 1)
    this.#count += 1
  }

  /** Characters of one byte. */
  text(part: string): void {
    const { length } = part
    this.#reserve(length)
    const bytes = this.#bytes
    const end = this.#end
    if (length > SHORT_MAX) bytes.write(part, end, 'latin1')
    else for (let at = 0; at < length; at += 1) bytes[end + at] = part.charCodeAt(at)
    this.#end = end + length
  }

  /** A whole number from 0 on, with zeros before it. In two parts, because both fit a machine word. */
  digits(value: number, width: number): void {
    this.#reserve(width)
    const start = this.#end
    const high = Math.floor(value / EIGHT_DIGITS)
    const middle = Math.max(start, start + width - 8)
    this.#digitsBefore(start + width, middle, value - high * EIGHT_DIGITS)
    this.#digitsBefore(middle, start, high)
    this.#end = start + width
  }

  #digitsBefore(end: number, start: number, value: number): void {
    const bytes = this.#bytes
    let left = value | 0
    for (let at = end - 1; at >= start; at -= 1) {
      const rest = (left / 10) | 0
      bytes[at] = ZERO + left - rest * 10
      left = rest
    }
  }

  /** A number as JSON writes it. */
  number(value: number): void {
    if (!Number.isSafeInteger(value) || value < 0) return this.text(String(value))
    let width = 1
    for (let limit = 10; limit <= value; limit *= 10) width += 1
    this.digits(value, width)
  }

  append(other: PackedTexts): void {
    this.#reserve(other.#end)
    other.#bytes.copy(this.#bytes, this.#end, 0, other.#end)
    this.#end += other.#end
    this.#count += other.#count
  }

  /** All of them as a list, in bytes of their own. */
  list(): Buffer {
    const list = Buffer.allocUnsafe(HEAD_BYTES + this.#end)
    list[0] = 0xdd
    list.writeUInt32BE(this.#count, 1)
    this.#bytes.copy(list, HEAD_BYTES, 0, this.#end)
    return list
  }

  #reserve(more: number): void {
    const needed = this.#end + more
    if (needed <= this.#bytes.length) return
    const bytes = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length))
    this.#bytes.copy(bytes, 0, 0, this.#end)
    this.#bytes = bytes
  }
}

// oxlint-disable-next-line no-control-regex -- all of ASCII is meant
const ASCII = /^[\u0000-\u007f]*$/

/** The UTF-8 bytes of a text, each as a character. */
export function oneByte(text: string): string {
  return ASCII.test(text) ? text : Buffer.from(text).toString('latin1')
}

/** What JSON writes as it is. */
const PLAIN = /^[ !#-[\]-~]*$/

/** A text as JSON, for most of which quotes will do, in characters of one byte. */
export function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : jsonText(text)
}

/** JSON, in characters of one byte. */
export function jsonText(value: unknown): string {
  return oneByte(JSON.stringify(value))
}
