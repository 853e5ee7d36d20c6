/** Bounds the wait for a call. The call itself goes on, so its effect is unknown once the bound has passed. */
import type { Runtime } from './runtime.ts'

export interface AnswerBound {
  readonly runtime: Pick<Runtime, 'setTimer'>
  readonly withinMs: number
  /** Whether the wait keeps the process alive. */
  readonly keepAlive: boolean
  /** The error to reject with when no answer came in time. */
  readonly onLate: () => Error
}

/** Settles as `call` does, or rejects with the error of `onLate` after `withinMs`. */
export function answerWithin<Answer>(
  { runtime, withinMs, keepAlive, onLate }: AnswerBound,
  call: Promise<Answer>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const timer = runtime.setTimer(withinMs, () => reject(onLate()), { keepAlive })
    call.then(
      (answer) => {
        timer.cancel()
        resolve(answer)
      },
      (error: unknown) => {
        timer.cancel()
        reject(error)
      },
    )
  })
}
