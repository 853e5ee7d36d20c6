/**
 * Waiters of this process that stand by. When somebody here releases what one of them waits for, the release takes the
 * claim of the first of them along: what would have been an offer, a wake-up and a claim is one commit. If it is not that
 * one's turn after all, because somebody elsewhere is before it, nothing has happened to its ticket.
 */
import { compareTickets } from '../core/conflict.ts'
import type { Resource } from '../core/resource.ts'
import { TransientMap } from '../runtime/transient-map.ts'
import type { Standby, Unsubscribe } from './lease-api.ts'

export class Standbys {
  /** In the order in which they are served. */
  readonly #queues = new TransientMap<Resource, Standby[]>()

  add(standby: Standby): Unsubscribe {
    const { resource } = standby
    const queue = this.#queues.get(resource) ?? []
    const behind = queue.findLastIndex((other) => compareTickets(other, standby) < 0)
    queue.splice(behind + 1, 0, standby)
    this.#queues.set(resource, queue)
    return () => this.#remove(standby)
  }

  /** Whoever is first, unless it is asking by itself at this moment: nobody behind it is next. */
  first(resource: Resource): Standby | null {
    const first = this.#queues.get(resource)?.[0]
    return first !== undefined && first.isReady() ? first : null
  }

  #remove(standby: Standby): void {
    const queue = this.#queues.get(standby.resource) ?? []
    const place = queue.indexOf(standby)
    if (place >= 0) queue.splice(place, 1)
    if (queue.length === 0) this.#queues.delete(standby.resource)
  }
}
