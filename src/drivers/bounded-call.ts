/** A call to a driver ends in bounded time, also where its server never answers. */
import type { Runtime } from '../runtime/runtime.ts'

/** What the work comes to, or throws `late` when the time is over; what it comes to after that no caller waits for. */
export function within<Result>(
  runtime: Pick<Runtime, 'setTimer'>,
  withinMs: number,
  work: Promise<Result>,
  late: string,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const expire = (): void => reject(new Error(late))
    const timer = runtime.setTimer(withinMs, expire, { keepAlive: true })
    work.then(resolve, reject).finally(() => timer.cancel())
  })
}
