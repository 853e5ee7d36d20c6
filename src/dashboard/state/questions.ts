/** What views ask the server: whatever it is about, asked again when that may have changed. */
import { useSignal, type ReadonlySignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { isLeaseError } from '../../core/errors.ts'
import { ProblemError } from '../wire/server-calls.ts'
import { pause } from '../page-runtime.ts'
import { newestText, type History } from './history.ts'

/** What is said of a history that was not read to its beginning. */
export function cutText(past: Asked<History>, pagesMax: number): string {
  return past.kind === 'answered' && past.answer.isCut ? newestText(pagesMax) : ''
}

export type Asked<Answer> =
  | { readonly kind: 'asking' }
  | { readonly kind: 'answered'; readonly answer: Answer }
  | { readonly kind: 'refused'; readonly problem: string }

type Ask<Answer> = (stop: AbortSignal) => Promise<Answer>

/** Questions follow each other with a rest between them, however often things change. */
const REST_MS = 300

/**
 * Asks when `subject` is another one, which must name all that `ask` depends on; and again when `version` is another number,
 * keeping the answer until the next one is there.
 */
export function useAsked<Answer>(
  subject: string,
  version: number,
  ask: Ask<Answer>,
): ReadonlySignal<Asked<Answer>> {
  const asked = useSignal<Asked<Answer>>({ kind: 'asking' })
  const question = useRef<Question<Answer> | null>(null)
  useEffect(() => {
    const own = new Question(ask, (result) => (asked.value = result))
    question.current = own
    asked.value = { kind: 'asking' }
    return () => own.end()
  }, [subject])
  useEffect(() => question.current?.again(), [subject, version])
  return asked
}

class Question<Answer> {
  readonly #ask: Ask<Answer>
  readonly #tell: (result: Asked<Answer>) => void
  readonly #stop = new AbortController()
  #isUnderWay = false
  #isWanted = false

  constructor(ask: Ask<Answer>, tell: (result: Asked<Answer>) => void) {
    this.#ask = ask
    this.#tell = tell
  }

  again(): void {
    this.#isWanted = true
    if (!this.#isUnderWay) void this.#run()
  }

  end(): void {
    this.#stop.abort()
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    this.#isUnderWay = true
    while (this.#isWanted && !signal.aborted) {
      this.#isWanted = false
      const result = await this.#answer(signal)
      if (signal.aborted) return
      this.#tell(result)
      await pause(REST_MS, signal)
    }
    this.#isUnderWay = false
  }

  async #answer(signal: AbortSignal): Promise<Asked<Answer>> {
    try {
      return { kind: 'answered', answer: await this.#ask(signal) }
    } catch (error) {
      // What was asked for is no resource, or the answer says what this page does not know.
      const isTold = error instanceof ProblemError || isLeaseError(error)
      if (isTold) return { kind: 'refused', problem: error.message }
      // The view that ended the question is gone, and takes no answer.
      if (signal.aborted) return { kind: 'asking' }
      throw error
    }
  }
}
