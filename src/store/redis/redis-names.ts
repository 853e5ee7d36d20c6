/** Texts that a group sends once and refers to by number. */
import { oneByte, PackedTexts } from './redis-packed.ts'

/** Three characters that Lua can read without making a string. */
export function three(count: number): string {
  return THREES[count] ?? threeOf(count)
}

function threeOf(count: number): string {
  const parts = [Math.floor(count / 8_100), Math.floor(count / 90) % 90, count % 90]
  return String.fromCharCode(...parts.map((part) => 33 + part))
}

/** Two bytes, which cost Lua less than half of what three characters do. */
export function two(count: number): string {
  return TWOS[count] ?? twoOf(count)
}

function twoOf(count: number): string {
  return String.fromCharCode(count >>> 8, count & 0xff)
}

export const TWO_MAX = 0xffff

const THREES: readonly string[] = Array.from({ length: 1_000 }, (_, count) => threeOf(count))
const TWOS: readonly string[] = Array.from({ length: 2_000 }, (_, count) => twoOf(count))

const LOOKED_THROUGH_MAX = 8

/** Numbered from 1 on; 0 is none. */
export class Names {
  readonly all: string[] = []
  readonly #names: string[] = []
  /** Made when there are so many that looking through them takes longer. */
  #numbers: Map<string, number> | null = null

  numberOf(name: string): number {
    const number = this.#find(name)
    return number > 0 ? number : this.#add(name, oneByte(name))
  }

  /** An id is ASCII, so nobody has to look. */
  numberOfId(id: string): number {
    const number = this.#find(id)
    return number > 0 ? number : this.#add(id, id)
  }

  #find(name: string): number {
    if (this.#numbers === null) return this.#names.indexOf(name) + 1
    return this.#numbers.get(name) ?? 0
  }

  #add(name: string, text: string): number {
    const number = this.all.push(text)
    this.#names.push(name)
    if (this.#numbers !== null) this.#numbers.set(name, number)
    else if (number === LOOKED_THROUGH_MAX) {
      this.#numbers = new Map(this.#names.map((one, index) => [one, index + 1]))
    }
    return number
  }
}

/** What the attempts of a group refer to, and what else they say. */
export class GroupLists {
  /** Fields of the hash of entries and realms. */
  readonly fields: Names = new Names()
  readonly names: Names = new Names()
  readonly requests: Names = new Names()
  readonly rest: PackedTexts = new PackedTexts()
}
