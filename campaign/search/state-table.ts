/**
 * Which states were met, by a hash of 53 bits of what their future depends on, and with how many commands to come. Typed
 * arrays, because ten million entries of a map would not fit. Two states of one hash count as one; among ten million that
 * is to be expected less than once in a hundred searches.
 */
const EMPTY = 0
const FULL_SHARE = 0.6

export class StateTable {
  #keys = new Float64Array(1 << 16)
  #toCome = new Uint8Array(1 << 16)
  #size = 0

  get size(): number {
    return this.#size
  }

  /** True if the state is new, or was met with fewer commands to come. */
  meet(text: string, toCome: number): boolean {
    if (this.#size > this.#keys.length * FULL_SHARE) this.#grow()
    const key = hashOf(text)
    const at = this.#find(key)
    if (this.#keys[at] === EMPTY) {
      this.#keys[at] = key
      this.#size += 1
    } else if ((this.#toCome[at] ?? 0) >= toCome) return false
    this.#toCome[at] = toCome
    return true
  }

  #find(key: number): number {
    const mask = this.#keys.length - 1
    let at = (key % 4_294_967_291) & mask
    while (this.#keys[at] !== EMPTY && this.#keys[at] !== key) at = (at + 1) & mask
    return at
  }

  #grow(): void {
    const [keys, toCome] = [this.#keys, this.#toCome]
    this.#keys = new Float64Array(keys.length * 2)
    this.#toCome = new Uint8Array(keys.length * 2)
    for (const [from, key] of keys.entries()) {
      if (key === EMPTY) continue
      const at = this.#find(key)
      this.#keys[at] = key
      this.#toCome[at] = toCome[from] ?? 0
    }
  }
}

/** Of 53 bits, never 0. */
function hashOf(text: string): number {
  let high = 0x9e3779b9
  let low = 0x85ebca6b
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index)
    high = Math.imul(high ^ code, 0x5bd1e995)
    low = Math.imul(low ^ code, 0xc2b2ae35)
  }
  for (let round = 0; round < 3; round += 1) {
    high = Math.imul(high ^ (low >>> 15), 0x2545f491) ^ low
    low = Math.imul(low ^ (high >>> 13), 0x9e3779b1) ^ (high >>> 7)
  }
  return (high >>> 11) * 4_294_967_296 + (low >>> 0) + 1
}
