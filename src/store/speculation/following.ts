/**
 * Who decides on what somebody of the same process is still writing. Whoever gives back a resource need not wait for the
 * answer to another who is just joining its queue: the later decision is made on what the earlier one is about to write,
 * and sent after it. The server compares as always: if the earlier one missed, so does the later, because the entry that
 * it believes to be there is not.
 *
 * So only new entries can be counted on, whose ids nobody else gives. What an entry becomes is known by its numbers
 * alone, and another process may have given the same number to something else. For the same reason whoever missed is not
 * sent again until the one that follows it was answered: it could then put something else under the same id.
 *
 * Nobody follows a decision that takes new fences, which the server may move. The caller sees to it that of one resource
 * no more than two decisions are under way.
 */
import { isTree, type Resource } from '../../core/resource.ts'
import type { Attempt, EntryWrite } from './backend.ts'

/** What is on its way to the server. */
export interface Pending {
  readonly writes: readonly EntryWrite[]
  readonly wallMs: number
  /** When it was decided. Whoever follows is decided later, because tickets are ordered by that. */
  readonly fromUs: number
}

interface Leader<Errand> {
  readonly errand: Errand
  readonly resource: Resource
  readonly pending: Pending
  follower: Errand | null
  isHeldBack: boolean
}

export class Following<Errand extends object> {
  /** The last one that was sent about a resource and not answered yet. */
  readonly #newest = new Map<Resource, Leader<Errand>>()
  /** Those that were sent and not answered, or missed while somebody follows. */
  readonly #leaders = new Map<Errand, Leader<Errand>>()
  readonly #leaderOf = new Map<Errand, Leader<Errand>>()

  /** To be called for what is sent for the first time. */
  sent(errand: Errand, attempt: Attempt): void {
    const [place] = attempt.places
    if (place === undefined || attempt.places.length > 1) return
    const { resource, depth } = place.footprint
    const { fences, writes, epochs, wallMs, fromUs } = attempt
    if (depth !== 'claims' || isTree(resource) || fences !== null || epochs.length > 0) return
    if (writes.length === 0 || writes.some(({ before }) => before !== null)) return
    const pending = { writes, wallMs, fromUs }
    const leader = { errand, resource, pending, follower: null, isHeldBack: false }
    this.#newest.set(resource, leader)
    this.#leaders.set(errand, leader)
  }

  /** What an errand about a resource may count on, if somebody is there whom it can follow at this time. */
  follow(errand: Errand, resource: Resource, nowUs: number): Pending | null {
    const leader = this.#newest.get(resource)
    if (leader === undefined || nowUs <= leader.pending.fromUs) return null
    leader.follower = errand
    this.#leaderOf.set(errand, leader)
    return leader.pending
  }

  /** Whether an errand that missed must not be sent again yet. */
  holdsBack(errand: Errand): boolean {
    const leader = this.#leaders.get(errand)
    if (leader === undefined || leader.follower === null) return false
    leader.isHeldBack = true
    return true
  }

  /** To be called after each answer, or none. Gives the errand that may be sent again now. */
  answered(errand: Errand): Errand | null {
    const own = this.#leaders.get(errand)
    if (own !== undefined && !own.isHeldBack) this.#forget(own)
    const leader = this.#leaderOf.get(errand)
    if (leader === undefined) return null
    this.#leaderOf.delete(errand)
    leader.follower = null
    if (!leader.isHeldBack) return null
    this.#forget(leader)
    return leader.errand
  }

  #forget(leader: Leader<Errand>): void {
    this.#leaders.delete(leader.errand)
    if (this.#newest.get(leader.resource) === leader) this.#newest.delete(leader.resource)
  }
}
