/**
 * Ids that sort by the time of their making (UUID version 7). Stores keep ids in ordered indexes: new ones that all
 * land at the end touch a few pages, where random ones touch one page each. Measured on SQLite with 100 operations
 * to a transaction, that made the whole store more than twice as fast.
 */

const RANDOM_BYTES = 8
const POOL = new Uint8Array(RANDOM_BYTES * 256)
const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, '0'),
)

let used = POOL.length
let lastMs = 0
let counter = 0
/** The time of the last id as it is written, up to its counter. */
let prefix = prefixAt(lastMs)

export function timeOrderedUuid(wallMs: number): string {
  if (used === POOL.length) {
    globalThis.crypto.getRandomValues(POOL)
    used = 0
  }
  const at = used
  used += RANDOM_BYTES
  advance(wallMs)
  const order = hexOf(counter >> 8).charAt(1) + hexOf(counter & 0xff)
  const variant = hexOf(0x80 | (byteAt(at) & 0x3f))
  const tail =
    hexAt(at + 2) + hexAt(at + 3) + hexAt(at + 4) + hexAt(at + 5) + hexAt(at + 6) + hexAt(at + 7)
  return `${prefix}${order}-${variant}${hexAt(at + 1)}-${tail}`
}

/** Ids of one millisecond are told apart by a counter, which borrows from the next when it is full. */
function advance(wallMs: number): void {
  if (wallMs <= lastMs && counter < 0xfff) {
    counter += 1
    return
  }
  lastMs = Math.max(wallMs, lastMs + 1)
  counter = 0
  prefix = prefixAt(lastMs)
}

function prefixAt(ms: number): string {
  const time = ms.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7`
}

function byteAt(index: number): number {
  return POOL[index] ?? 0
}

function hexAt(index: number): string {
  return hexOf(byteAt(index))
}

function hexOf(byte: number): string {
  return HEX[byte] ?? '00'
}
