/** A piece of work for the next transaction: runs inside it, and hears how the transaction ended. */
export interface GroupJob {
  readonly sinceMs: number
  /** Throws only what `isFatal` says is the end of the whole transaction; may be run again after a rollback. */
  run(isFatal: (error: unknown) => boolean): void
  committed(): void
  failed(error: unknown): void
}

interface Ending<Result> {
  resolve(result: Result): void
  reject(error: unknown): void
}

type Came<Result> =
  | { readonly kind: 'answer'; readonly result: Result }
  | { readonly kind: 'refusal'; readonly error: unknown }

/** Work with an answer, which its caller hears after the commit and not before. */
export class AnsweringJob<Result> implements GroupJob {
  readonly sinceMs: number
  readonly #work: () => Result
  readonly #ending: Ending<Result>
  #came: Came<Result> | null = null

  constructor(sinceMs: number, work: () => Result, ending: Ending<Result>) {
    this.sinceMs = sinceMs
    this.#work = work
    this.#ending = ending
  }

  run(isFatal: (error: unknown) => boolean): void {
    this.#came = null
    try {
      this.#came = { kind: 'answer', result: this.#work() }
    } catch (error) {
      if (isFatal(error)) throw error
      this.#came = { kind: 'refusal', error }
    }
  }

  committed(): void {
    if (this.#came?.kind === 'answer') this.#ending.resolve(this.#came.result)
    else this.#ending.reject(this.#came?.error)
  }

  failed(error: unknown): void {
    this.#ending.reject(error)
  }
}
