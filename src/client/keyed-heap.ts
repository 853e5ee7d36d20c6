/**
 * A binary heap that knows where each of its items is, so that an item can be moved or taken out in O(log n). Items
 * that were released leave at once instead of lingering until their time comes, which could be days away.
 */

interface Slot<Item> {
  readonly item: Item
  readonly key: number
}

export class KeyedHeap<Item> {
  readonly #slots: Slot<Item>[] = []
  readonly #positions = new Map<Item, number>()

  get size(): number {
    return this.#slots.length
  }

  /** The item with the smallest key. */
  get first(): Slot<Item> | undefined {
    return this.#slots[0]
  }

  items(): Iterable<Item> {
    return this.#positions.keys()
  }

  /** Puts the item in, or moves it if it is in already. */
  set(item: Item, key: number): void {
    const slot = { item, key }
    const position = this.#positions.get(item)
    if (position === undefined) {
      this.#rise(this.#slots.length, slot)
      return
    }
    this.#place(position, slot)
  }

  delete(item: Item): void {
    const position = this.#positions.get(item)
    if (position === undefined) return
    this.#positions.delete(item)
    const last = this.#slots.pop()
    if (last === undefined || last.item === item) return
    this.#place(position, last)
  }

  clear(): void {
    this.#slots.length = 0
    this.#positions.clear()
  }

  #place(position: number, slot: Slot<Item>): void {
    const parent = this.#slots[(position - 1) >> 1]
    if (position > 0 && parent !== undefined && slot.key < parent.key) this.#rise(position, slot)
    else this.#sink(position, slot)
  }

  #rise(start: number, slot: Slot<Item>): void {
    let position = start
    while (position > 0) {
      const above = (position - 1) >> 1
      const parent = this.#slots[above]
      if (parent === undefined || parent.key <= slot.key) break
      this.#put(position, parent)
      position = above
    }
    this.#put(position, slot)
  }

  #sink(start: number, slot: Slot<Item>): void {
    let position = start
    for (;;) {
      const below = this.#smallerChild(position)
      const child = this.#slots[below]
      if (child === undefined || child.key >= slot.key) break
      this.#put(position, child)
      position = below
    }
    this.#put(position, slot)
  }

  #smallerChild(position: number): number {
    const left = 2 * position + 1
    const leftKey = this.#slots[left]?.key ?? Infinity
    const rightKey = this.#slots[left + 1]?.key ?? Infinity
    return rightKey < leftKey ? left + 1 : left
  }

  #put(position: number, slot: Slot<Item>): void {
    this.#slots[position] = slot
    this.#positions.set(slot.item, position)
  }
}
