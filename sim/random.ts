/**
 * Seeded randomness: the same seed gives the same numbers on every machine. Each part of a world draws from a stream
 * of its own, forked by name, so that a change in one part does not reshuffle the others.
 */

export class Random {
  #a: number
  #b: number
  #c: number
  #counter = 1
  readonly #name: string

  constructor(name: string) {
    this.#name = name
    const next = hashOf(name)
    this.#a = next()
    this.#b = next()
    this.#c = next()
    for (let i = 0; i < 12; i += 1) this.#next()
  }

  /** An independent stream; the same name gives the same stream, whatever was drawn before. */
  fork(name: string): Random {
    return new Random(`${this.#name}/${name}`)
  }

  /** 0 inclusive to 1 exclusive. */
  fraction(): number {
    return this.#next() / 4_294_967_296
  }

  /** An integer, both ends included. */
  between(min: number, max: number): number {
    return min + Math.floor(this.fraction() * (max - min + 1))
  }

  /** An integer, both ends included, small ones as likely as large ones are in their order of magnitude. */
  magnitude(min: number, max: number): number {
    const low = Math.log(min)
    const high = Math.log(max)
    return Math.round(Math.exp(low + this.fraction() * (high - low)))
  }

  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[Math.floor(this.fraction() * items.length)]
    if (item === undefined) throw new Error('there is nothing to pick from')
    return item
  }

  /** Picks a name with a likelihood in proportion to its weight. */
  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const entries = Object.entries<number>(weights) as [Name, number][]
    const total = entries.reduce((sum, [, weight]) => sum + weight, 0)
    let left = this.fraction() * total
    for (const [name, weight] of entries) {
      left -= weight
      if (left < 0) return name
    }
    throw new Error('weights must not all be zero')
  }

  uuid(): string {
    const digits = Array.from({ length: 4 }, () => this.#next().toString(16).padStart(8, '0'))
    const hex = digits.join('')
    const parts = [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`]
    return [...parts, `8${hex.slice(17, 20)}`, hex.slice(20)].join('-')
  }

  /** sfc32: small, fast, and good enough to choose faults with. */
  #next(): number {
    const sum = (this.#a + this.#b + this.#counter) >>> 0
    this.#counter = (this.#counter + 1) >>> 0
    this.#a = (this.#b ^ (this.#b >>> 9)) >>> 0
    this.#b = (this.#c + (this.#c << 3)) >>> 0
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) >>> 0
    this.#c = (this.#c + sum) >>> 0
    return sum
  }
}

/** Spreads a name over as many 32-bit numbers as are asked for (FNV-1a, then a mixing step each). */
function hashOf(name: string): () => number {
  let hash = 2_166_136_261
  for (let i = 0; i < name.length; i += 1) {
    hash = Math.imul(hash ^ name.charCodeAt(i), 16_777_619) >>> 0
  }
  return () => {
    hash = (hash + 0x9e3779b9) >>> 0
    let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
    return (mixed ^ (mixed >>> 16)) >>> 0
  }
}
