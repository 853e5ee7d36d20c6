/**
 * The highest fence that a client has seen in each realm. A store that grants a lower one has lost data, and whoever
 * checks fences downstream would refuse the holder anyway, so the client does not hand such a lease out.
 *
 * Grants of one realm may arrive in another order than they were made, and an offer has its fence from long before it
 * is claimed. So a grant is compared with what had been seen before its request was first sent: only that is certain
 * to be older. Bounded: of the realms that were used least recently nothing is remembered.
 */
import type { LeaseId } from '../core/lease.ts'

const REALMS_MAX = 10_000

export interface SeenFence {
  readonly fence: number
  readonly leaseId: LeaseId
}

export class FenceMemory {
  readonly #capacity: number
  /** In order of use, the least recent first. */
  readonly #seen = new Map<string, SeenFence>()

  constructor(capacity: number = REALMS_MAX) {
    this.#capacity = capacity
  }

  /** The highest fence seen so far; to be read before a request is sent. */
  highest(realm: string): SeenFence | null {
    return this.#seen.get(realm) ?? null
  }

  /**
   * While there is room for as many again, a realm keeps its place: taking a key out of a map and putting it back costs
   * more than the rest of this. Whoever fills the other half moves all that are still in use.
   */
  remember(realm: string, seen: SeenFence): void {
    const known = this.#seen.get(realm)
    if (known !== undefined && this.#seen.size * 2 > this.#capacity) this.#seen.delete(realm)
    this.#seen.set(realm, known !== undefined && known.fence > seen.fence ? known : seen)
    if (this.#seen.size <= this.#capacity) return
    for (const oldest of this.#seen.keys()) {
      this.#seen.delete(oldest)
      return
    }
  }
}

/**
 * Whether a grant contradicts what was seen before its request was sent. A repeated grant may be older than that, and
 * only its own fence of then can contradict it.
 */
export function isStale(
  granted: SeenFence & { readonly repeated: boolean },
  before: SeenFence | null,
): boolean {
  if (before === null) return false
  if (!granted.repeated) return granted.fence <= before.fence
  return granted.leaseId === before.leaseId && granted.fence < before.fence
}
