/** Runs work that has a key in common one after the other, in the order of the calls; other work runs in parallel. */
export class SerialQueue<Key> {
  /** The last call for each key; it never rejects. */
  readonly #last = new Map<Key, Promise<void>>()

  /** Runs `work` after every earlier call for any of these keys has ended, whether or not that call failed. */
  run<Result>(keys: readonly Key[], work: () => Promise<Result>): Promise<Result> {
    const earlier = keys.flatMap((key) => this.#last.get(key) ?? [])
    const result = earlier.length === 0 ? work() : Promise.all(earlier).then(work)
    const forget = (): void => {
      for (const key of keys) if (this.#last.get(key) === ended) this.#last.delete(key)
    }
    // No fault: the caller gets the error; later calls only wait for the end.
    const ended: Promise<void> = result.then(forget, forget)
    for (const key of keys) this.#last.set(key, ended)
    return result
  }

  /** Whether a call for this key is running or waiting. */
  has(key: Key): boolean {
    return this.#last.has(key)
  }

  /** Resolves when every call that has begun has ended. */
  async idle(): Promise<void> {
    await Promise.all(this.#last.values())
  }
}
