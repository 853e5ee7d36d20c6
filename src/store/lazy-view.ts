/** What a store that decides inside its own transaction shows to a decision. */
import type { ReadSet, PriorEffect, RealmView } from '../core/realm.ts'
import type { Resource } from '../core/resource.ts'
import type { Now } from '../core/time.ts'

export interface ViewParts extends Pick<RealmView, 'entries' | 'lastFence' | 'prior' | 'settings'> {
  readonly countTickets: (resource: Resource, now: Now) => number
  readonly readEpoch: (resource: Resource) => number
  readonly readSet: ReadSet
  readonly now: Now
}

/** A view that counts tickets and reads the epoch only if it is asked to: hardly any decision needs to know. */
export class LazyView implements RealmView {
  readonly entries: RealmView['entries']
  readonly lastFence: number
  readonly prior: PriorEffect | null
  readonly settings: RealmView['settings']
  readonly #parts: ViewParts

  constructor(parts: ViewParts) {
    this.entries = parts.entries
    this.lastFence = parts.lastFence
    this.prior = parts.prior
    this.settings = parts.settings
    this.#parts = parts
  }

  get ticketCount(): number {
    const { countTickets, readSet, now } = this.#parts
    return countTickets(readSet.resource, now)
  }

  get epoch(): number {
    const { readEpoch, readSet } = this.#parts
    return readEpoch(readSet.resource)
  }
}
