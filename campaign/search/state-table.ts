/**
 * Which states were met, by 64 bits of a SHA-256 of what their future depends on, in memory that the threads of a search
 * share. Two states with the same 64 bits would count as one and the second would not be looked at: among ten million states
 * the chance that there is any such pair is below one in 300,000.
 */
import { createHash } from 'node:crypto'

const EMPTY = 0n
/** A power of two; at most half of it is used. */
const SLOTS = 1 << 25

export const STATES_MAX: number = SLOTS / 2

export class StateTable {
  readonly memory: SharedArrayBuffer
  readonly #keys: BigUint64Array

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(SLOTS * 8)) {
    this.memory = memory
    this.#keys = new BigUint64Array(memory)
  }

  /** True for one caller only, of whatever thread: the state is new. */
  meet(text: string): boolean {
    const key = keyOf(text)
    const mask = this.#keys.length - 1
    let at = Number(key & 0xffff_ffffn) & mask
    for (;;) {
      const found = Atomics.compareExchange(this.#keys, at, EMPTY, key)
      if (found === EMPTY) return true
      if (found === key) return false
      at = (at + 1) & mask
    }
  }
}

/** Never that of an empty slot. */
function keyOf(text: string): bigint {
  const key = createHash('sha256').update(text).digest().readBigUInt64LE(0)
  return key === EMPTY ? 1n : key
}
