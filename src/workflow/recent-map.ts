/** A map that keeps what was used last, up to a limit, so that whoever sees ever new keys does not fill the memory. */
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

  /** A map is in order of insertion: what was used just now is the last to go. */
  #touch(key: string, value: Value): void {
    this.#values.delete(key)
    this.#values.set(key, value)
  }
}
