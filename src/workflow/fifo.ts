/** First in, first out, in constant time: `shift` of a long array moves all that is left. */
export class Fifo<Item> {
  #items: Item[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  get first(): Item | undefined {
    return this.#items[this.#head]
  }

  *[Symbol.iterator](): IterableIterator<Item> {
    yield* this.#items.slice(this.#head)
  }

  push(item: Item): void {
    this.#items.push(item)
  }

  shift(): Item | undefined {
    const item = this.first
    if (this.length === 0) return undefined
    this.#head += 1
    // Once more than half is used up; so each item is moved once at most.
    if (this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }
}
