/**
 * Many texts as one argument, in MessagePack, which the scripts can take apart without any code of their own. An argument
 * of its own for each text costs the driver, the socket and the server more than all that is done with it: the driver
 * measures and encodes each as UTF-8, character by character.
 *
 * All of them are put together as one string, which is made bytes in one go. V8 notes a string that is made of two others
 * as a pair of them; writing the same pieces one by one into bytes took more than twice as long.
 */

/** In MessagePack: a text, and a list, whose lengths are told in four bytes. */
const TEXT = 0xdb
const LIST = 0xdd

/** How texts of up to this length begin is known beforehand; almost all are shorter. */
const SHORT_MAX = 255
const SHORT_HEADS: readonly string[] = Array.from({ length: SHORT_MAX + 1 }, (_, length) => {
  return headOf(TEXT, length)
})

function headOf(type: number, length: number): string {
  const bytes = [length >>> 24, (length >>> 16) & 0xff, (length >>> 8) & 0xff, length & 0xff]
  return String.fromCharCode(type, ...bytes)
}

export class PackedTexts {
  #texts = ''
  #count = 0

  /** How many texts there are. */
  get count(): number {
    return this.#count
  }

  /** In characters of one byte: what may not be ASCII must have been made so by `oneByte`. */
  add(text: string): void {
    this.#texts += (SHORT_HEADS[text.length] ?? headOf(TEXT, text.length)) + text
    this.#count += 1
  }

  append(other: PackedTexts): void {
    this.#texts += other.#texts
    this.#count += other.#count
  }

  /** All of them as a list. */
  list(): Buffer {
    return Buffer.from(headOf(LIST, this.#count) + this.#texts, 'latin1')
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
