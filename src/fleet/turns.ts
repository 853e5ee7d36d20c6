/** Lets calls about one session run one after the other, and calls about different sessions side by side. */

export class Turns {
  /** The last call about each session. */
  readonly #last = new Map<string, Promise<unknown>>()

  /** Runs after every earlier call about any of these sessions, whatever became of it. */
  async take<Result>(sessionIds: readonly string[], work: () => Promise<Result>): Promise<Result> {
    const earlier = sessionIds.flatMap((id) => this.#last.get(id) ?? [])
    const turn = earlier.length === 0 ? work() : Promise.allSettled(earlier).then(work)
    for (const id of sessionIds) this.#last.set(id, turn)
    try {
      return await turn
    } finally {
      for (const id of sessionIds) if (this.#last.get(id) === turn) this.#last.delete(id)
    }
  }

  /** Resolves when every call that has begun is over. */
  async rest(): Promise<void> {
    await Promise.allSettled(this.#last.values())
  }
}
