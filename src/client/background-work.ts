/**
 * Work that no caller waits for, or not alone. It is counted, so that a client that closes can wait until all of it has
 * ended, and what fails is reported, because no caller hears of it.
 */
import { report } from '../runtime/diagnostics.ts'

/** Takes over work that no caller waits for; `source` is what a failure of it is reported under. */
export type TakeOver = (source: string, work: Promise<unknown>) => void

export class BackgroundWork {
  #underWay = 0
  #onIdle: (() => void) | null = null

  readonly add: TakeOver = (source, work) => {
    this.begin()
    work.then(this.end, (error: unknown) => {
      report(source, error)
      this.end()
    })
  }

  /** For work that has a caller as well; each is followed by one `end`. */
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
