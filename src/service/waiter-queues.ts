/** The waiters of one process, or of one client, by what they wait for and in the order in which they are served. */
import { compareTickets } from '../core/conflict.ts'
import type { LeaseId } from '../core/lease.ts'
import type { Resource } from '../core/resource.ts'
import { TransientMap } from '../runtime/transient-map.ts'

export interface QueuedWaiter {
  /** Of its ticket. */
  readonly id: LeaseId
  readonly resource: Resource
  readonly orderUs: number
  /** It is one of the first now, because one that was before it is gone. */
  readonly onFirst: () => void
}

export class WaiterQueues<Waiter extends QueuedWaiter> {
  readonly #firstCount: number
  readonly #queues = new TransientMap<Resource, Waiter[]>()

  /** `firstCount`: how many of a queue are its first. */
  constructor(firstCount: number) {
    this.#firstCount = firstCount
  }

  add(waiter: Waiter): void {
    const queue = this.#queues.get(waiter.resource)
    if (queue === undefined) this.#queues.set(waiter.resource, [waiter])
    else queue.splice(placeIn(queue, waiter), 0, waiter)
  }

  first(resource: Resource): Waiter | null {
    return this.#queues.get(resource)?.[0] ?? null
  }

  firstOf(resource: Resource, count: number): readonly Waiter[] {
    return this.#queues.get(resource)?.slice(0, count) ?? []
  }

  /** Whether all the first places are others'; also of one that has none yet. */
  isBehind(waiter: Pick<Waiter, 'id' | 'resource'>): boolean {
    const queue = this.#queues.get(waiter.resource) ?? []
    if (queue.length < this.#firstCount) return false
    for (let place = 0; place < this.#firstCount; place += 1) {
      if (queue[place]?.id === waiter.id) return false
    }
    return true
  }

  /** Without effect on one that is not in. */
  remove(waiter: Waiter): void {
    const queue = this.#queues.get(waiter.resource)
    const place = queue?.indexOf(waiter) ?? -1
    if (queue === undefined || place < 0) return
    if (queue.length === 1) return void this.#queues.delete(waiter.resource)
    queue.splice(place, 1)
    if (place < this.#firstCount) queue[this.#firstCount - 1]?.onFirst()
  }
}

/** Behind all that come before it. Thousands may join at once, so it is not looked for one by one. */
function placeIn(queue: readonly QueuedWaiter[], waiter: QueuedWaiter): number {
  let from = 0
  let to = queue.length
  while (from < to) {
    const middle = (from + to) >>> 1
    const other = queue[middle]
    if (other !== undefined && compareTickets(other, waiter) < 0) from = middle + 1
    else to = middle
  }
  return from
}
