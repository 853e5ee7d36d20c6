/** A map with least-recently-used eviction. */
export class RecentMap<Value> {
  readonly #limit: number
  readonly #values = new Map<string, Value>()

  constructor(limit: number) {
    this.#limit = limit
  }

  get(key: string): Value | undefined {
    const value = this.#values.get(key)
    if (value !== undefined) this.#touch(key, value)
    return value
  }

  set(key: string, value: Value): void {
    this.#touch(key, value)
    if (this.#values.size <= this.#limit) return
    const [oldest] = this.#values.keys()
    if (oldest !== undefined) this.#values.delete(oldest)
  }

  /** A `Map` iterates in order of insertion, so the first key is the least recently used. */
  #touch(key: string, value: Value): void {
    this.#values.delete(key)
    this.#values.set(key, value)
  }
}
