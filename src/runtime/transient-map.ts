/**
 * A map for what comes and goes often. Use it where many values are put in and taken out while the map itself lives on.
 *
 * V8 keeps the entries of a `Map` in a table, makes a new one whenever deletions have used the old one up, and lets the
 * old table refer to the new one. Once one table has grown old, all that follow it stay until the next full collection,
 * and with them all values that were there when a table was replaced: every scavenge then copies what is long over.
 * Measured with 100 leases in flight, that was a third of a client's time. So the values are kept in boxes, which are
 * emptied on the way out; what lingers is an empty box. And before V8 would make a new table, those that are left are put
 * into another map, so that nothing refers to the new table but that: tables were half of all that grew old.
 */

/** Fewer deletions are not worth a copy; a copy of more entries would block the event loop for too long. */
const GONE_MIN = 32
const COPIED_MAX = 2_000

export class TransientMap<Key extends string | number, Value extends object> {
  #boxes = new Map<Key, { value: Value | undefined }>()
  /** How many were taken out of the present map. */
  #gone = 0

  get size(): number {
    return this.#boxes.size
  }

  has(key: Key): boolean {
    return this.#boxes.has(key)
  }

  get(key: Key): Value | undefined {
    return this.#boxes.get(key)?.value
  }

  /** A key that is there already keeps its place in the order. */
  set(key: Key, value: Value): void {
    const box = this.#boxes.get(key)
    if (box === undefined) this.#boxes.set(key, { value })
    else box.value = value
  }

  delete(key: Key): boolean {
    const box = this.#boxes.get(key)
    if (box === undefined) return false
    box.value = undefined
    this.#boxes.delete(key)
    this.#gone += 1
    if (this.#gone > GONE_MIN && this.#gone > this.size && this.size <= COPIED_MAX) this.#copy()
    return true
  }

  /** An iteration that is in progress skips the empty boxes of removed values, as before. */
  #copy(): void {
    const boxes = new Map<Key, { value: Value | undefined }>()
    // Not by the constructor: that makes a pair of each entry.
    this.#boxes.forEach((box, key) => boxes.set(key, box))
    this.#boxes = boxes
    this.#gone = 0
  }

  keys(): Iterable<Key> {
    return this.#boxes.keys()
  }

  *values(): Iterable<Value> {
    for (const { value } of this.#boxes.values()) if (value !== undefined) yield value
  }
}
