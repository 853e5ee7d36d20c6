/**
 * Many texts as one argument, in MessagePack, which the scripts can take apart without any code of their own. An argument
 * of its own for each text costs the driver, the socket and the server more than all that is done with it: the driver
 * measures and encodes each as UTF-8, character by character.
 */

/** Each text in characters of one byte: what may not be ASCII must have been made so by `oneByte`. */
export function packed(texts: readonly string[]): Buffer {
  let all = `\u00dd${bigEndian(texts.length)}`
  for (const text of texts) all += headOf(text.length) + text
  return Buffer.from(all, 'latin1')
}

const LENGTHS: readonly string[] = Array.from({ length: 256 }, (_, length) => {
  return length < 32 ? String.fromCharCode(0xa0 | length) : String.fromCharCode(0xd9, length)
})

function headOf(length: number): string {
  return LENGTHS[length] ?? `\u00db${bigEndian(length)}`
}

function bigEndian(value: number): string {
  const bytes = [value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff]
  return String.fromCharCode(...bytes)
}

// oxlint-disable-next-line no-control-regex -- all of ASCII is meant
const ASCII = /^[\u0000-\u007f]*$/

/** The UTF-8 bytes of a text, each as a character. */
export function oneByte(text: string): string {
  return ASCII.test(text) ? text : Buffer.from(text).toString('latin1')
}

/** What JSON writes as it is. */
const PLAIN = /^[ !#-[\]-~]*$/

/** A text as JSON, which for most of them means no more than quotes. */
export function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text)
}

/** JSON in which everything beyond ASCII is escaped. */
export function asciiJson(value: unknown): string {
  return asciiText(JSON.stringify(value))
}

/** Of JSON: the same in ASCII. */
export function asciiText(json: string): string {
  if (ASCII.test(json)) return json
  return json.replaceAll(BEYOND_ASCII, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

const BEYOND_ASCII = /[\u0080-\uffff]/g
