/**
 * A heap from which an item can be moved or taken out by itself, in O(log n). Items that were released leave at once
 * instead of lingering until their time comes, which could be days away.
 */
import { SlotHeap, type Slot } from './slot-heap.ts'

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
