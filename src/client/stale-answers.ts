/**
 * What a client remembers so that an answer that is late, or that a store gives after it lost data, brings nothing back:
 * the highest fence of each realm, and tombstones of the leases that the client itself has ended.
 */
import type { LeaseId } from '../core/lease.ts'
import { TransientMap } from '../runtime/transient-map.ts'

const REALMS_MAX = 10_000

export interface SeenFence {
  readonly fence: number
  readonly leaseId: LeaseId
}

/**
 * The highest fence that a client has seen in each realm. A store that grants a lower one has lost data, and a guard
 * downstream would refuse the holder anyway, so the client does not hand such a lease out.
 *
 * Grants of one realm may arrive in another order than they were made, and an offer has its fence from long before it is
 * claimed. So a grant is compared with what had been seen before its request was first sent: only that is certain to be
 * older. Bounded: of the realms that were used least recently nothing is remembered.
 */
export class FenceMemory {
  readonly #capacity: number
  #recent = new Map<string, SeenFence>()
  /** What was recent before: all of it goes at once, because taking the oldest key out of a map costs 4 µs. */
  #older: ReadonlyMap<string, SeenFence> = new Map()

  constructor(capacity: number = REALMS_MAX) {
    this.#capacity = capacity
  }

  /** The highest fence seen so far; to be read before a request is sent. */
  highest(realm: string): SeenFence | null {
    return this.#recent.get(realm) ?? this.#older.get(realm) ?? null
  }

  remember(realm: string, seen: SeenFence): void {
    const known = this.highest(realm)
    if (this.#recent.size * 2 >= this.#capacity && !this.#recent.has(realm)) {
      this.#older = this.#recent
      this.#recent = new Map()
    }
    this.#recent.set(realm, known !== null && known.fence > seen.fence ? known : seen)
  }
}

/**
 * Whether a grant contradicts what was seen before its request was sent. A repeated grant may be older than that, and
 * only its own fence of then can contradict it.
 */
export function isStaleGrant(
  granted: SeenFence & { readonly repeated: boolean },
  before: SeenFence | null,
): boolean {
  if (before === null) return false
  if (!granted.repeated) return granted.fence <= before.fence
  return granted.leaseId === before.leaseId && granted.fence < before.fence
}

const ENDED_MAX = 1_000

interface Subject {
  asking: number
  readonly ended: LeaseId[]
}

/**
 * Tombstones of what a client has ended while it was asking for something: an answer that was on its way may still describe
 * a lease that this client itself has ended, and must not bring it back.
 *
 * Kept by what is asked for, a realm or a lease, and only while the client asks for it. Where it always does, the latest
 * are kept: far more than can end during one call.
 */
export class Tombstones {
  readonly #subjects = new TransientMap<string, Subject>()

  begin(subjects: readonly string[]): void {
    for (const name of subjects) {
      const subject = this.#subjects.get(name)
      if (subject === undefined) this.#subjects.set(name, { asking: 1, ended: [] })
      else subject.asking += 1
    }
  }

  end(subjects: readonly string[]): void {
    for (const name of subjects) {
      const subject = this.#subjects.get(name)
      if (subject === undefined) continue
      subject.asking -= 1
      if (subject.asking === 0) this.#subjects.delete(name)
    }
  }

  note(leaseId: LeaseId, realm: string): void {
    this.#noteIn(realm, leaseId)
    this.#noteIn(leaseId, leaseId)
  }

  #noteIn(subject: string, leaseId: LeaseId): void {
    const ended = this.#subjects.get(subject)?.ended
    if (ended === undefined) return
    ended.push(leaseId)
    if (ended.length > ENDED_MAX) ended.splice(0, ENDED_MAX / 2)
  }

  has(leaseId: LeaseId, realm: string): boolean {
    return this.#hasIn(realm, leaseId) || this.#hasIn(leaseId, leaseId)
  }

  #hasIn(subject: string, leaseId: LeaseId): boolean {
    return this.#subjects.get(subject)?.ended.includes(leaseId) === true
  }
}
