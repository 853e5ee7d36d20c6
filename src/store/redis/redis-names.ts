/** Texts that a group sends once and refers to by number. */
import { oneByte } from './redis-packed.ts'

/** Three characters that Lua can read without making a string. */
export function three(count: number): string {
  return THREES[count] ?? threeOf(count)
}

function threeOf(count: number): string {
  const parts = [Math.floor(count / 8_100), Math.floor(count / 90) % 90, count % 90]
  return String.fromCharCode(...parts.map((part) => 33 + part))
}

const THREES: readonly string[] = Array.from({ length: 1_000 }, (_, count) => threeOf(count))

/** The number of nothing. */
export const NONE: string = three(0)

/** Numbered from 1 on. */
export class Names {
  readonly all: string[] = []
  readonly #numbers = new Map<string, string>()

  numberOf(name: string): string {
    const known = this.#numbers.get(name)
    if (known !== undefined) return known
    const number = three(this.all.push(oneByte(name)))
    this.#numbers.set(name, number)
    return number
  }
}

/** What the attempts of a group refer to, and what else they say. */
export class GroupLists {
  /** Fields of the hash of entries and realms. */
  readonly fields: Names = new Names()
  readonly names: Names = new Names()
  readonly requests: Names = new Names()
  readonly rest: string[] = []
}
