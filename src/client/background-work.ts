/**
 * Work that no caller waits for, or not alone. It is counted, so that nothing rejects into the void and whoever closes
 * can wait until all of it has ended.
 */
export class BackgroundWork {
  #underWay = 0
  #onIdle: (() => void) | null = null

  readonly add = (work: Promise<unknown>): void => {
    this.begin()
    work.then(this.end, this.end)
  }

  /** For whoever knows by itself when its work ends; each is followed by one `end`. */
  begin(): void {
    this.#underWay += 1
  }

  /** Work may leave other work behind. */
  async ends(): Promise<void> {
    while (this.#underWay > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve
      })
    }
  }

  readonly end = (): void => {
    this.#underWay -= 1
    if (this.#underWay === 0) this.#onIdle?.()
  }
}
