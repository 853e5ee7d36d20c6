/**
 * A binary heap whose slots know where they are, so that one can be moved or taken out in O(log n) without looking for
 * it: the caller that puts something in keeps the slot, or lets a `KeyedHeap` keep it by the item itself.
 */

export interface Slot<Item> {
  readonly item: Item
  /** To be changed by the heap alone. */
  key: number
  position: number
}

/** Where a slot is that has been taken out. */
const OUTSIDE = -1

export class SlotHeap<Item> {
  readonly #slots: Slot<Item>[] = []

  get size(): number {
    return this.#slots.length
  }

  /** The slot with the smallest key. */
  get first(): Slot<Item> | undefined {
    return this.#slots[0]
  }

  get slots(): readonly Slot<Item>[] {
    return this.#slots
  }

  add(item: Item, key: number): Slot<Item> {
    const slot = { item, key, position: this.#slots.length }
    this.#rise(slot.position, slot)
    return slot
  }

  /** Gives a slot another key; one that was taken out is put in again. */
  move(slot: Slot<Item>, key: number): void {
    slot.key = key
    if (slot.position === OUTSIDE) this.#rise(this.#slots.length, slot)
    else this.#place(slot.position, slot)
  }

  /** Without effect on a slot that is not in. */
  remove(slot: Slot<Item>): void {
    const { position } = slot
    if (position === OUTSIDE) return
    slot.position = OUTSIDE
    const last = this.#slots.pop()
    if (last !== undefined && last !== slot) this.#place(position, last)
  }

  clear(): void {
    for (const slot of this.#slots) slot.position = OUTSIDE
    this.#slots.length = 0
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
    slot.position = position
  }
}

/** A heap from which an item is moved or taken out by itself: it leaves at once, not when its time comes. */
export class KeyedHeap<Item> {
  readonly #heap = new SlotHeap<Item>()
  readonly #slots = new Map<Item, Slot<Item>>()

  get size(): number {
    return this.#heap.size
  }

  /** The item with the smallest key. */
  get first(): { readonly item: Item; readonly key: number } | undefined {
    return this.#heap.first
  }

  items(): Iterable<Item> {
    return this.#slots.keys()
  }

  /** Puts the item in, or moves it if it is in already. */
  set(item: Item, key: number): void {
    const slot = this.#slots.get(item)
    if (slot === undefined) this.#slots.set(item, this.#heap.add(item, key))
    else this.#heap.move(slot, key)
  }

  delete(item: Item): void {
    const slot = this.#slots.get(item)
    if (slot === undefined) return
    this.#slots.delete(item)
    this.#heap.remove(slot)
  }

  clear(): void {
    this.#heap.clear()
    this.#slots.clear()
  }
}
