/** Work that takes turns by name: one after the other for each name; different ones do not wait for each other. */
import { LeaseError } from '../core/errors.ts'
import { isWithin, within } from './within.ts'

interface Queue {
  /** Ends with the last turn that was asked for. */
  last: Promise<void>
}

export class Turns {
  readonly #queues = new Map<string, Queue>()

  /** Throws `DEADLOCK` inside a turn of the same name, which cannot end before this one has. */
  async take<Result>(name: string, run: () => Promise<Result>): Promise<Result> {
    const queue = this.#queues.get(name) ?? { last: Promise.resolve() }
    if (isWithin(queue)) {
      const message =
        'an effect must not wait for another turn on its own marks: it would never end'
      throw new LeaseError('DEADLOCK', message)
    }
    const turn = queue.last.then(() => within(queue, run))
    const ended = turn.then(
      () => undefined,
      // No fault: the caller hears how its turn ended; the next in the queue only needs to know that it did.
      () => undefined,
    )
    queue.last = ended
    this.#queues.set(name, queue)
    void ended.then(() => {
      if (queue.last === ended) this.#queues.delete(name)
    })
    return turn
  }
}
