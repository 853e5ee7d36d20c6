/**
 * Which read sets have a decision in flight. Decisions of one process that depend on each other go one after the other:
 * sent together, the later one would be made on what the earlier one is about to change, and miss.
 *
 * A decision about an entry alone waits only for others about the same entry: a renewal must not be late because
 * another request keeps missing in the same place.
 */
import type { LeaseId } from '../../core/lease.ts'
import type { ReadSet } from '../../core/realm.ts'
import { isTree, overlap, type Resource } from '../../core/resource.ts'
import { TransientMap } from '../../runtime/transient-map.ts'
import { LiveIndex } from '../live-index.ts'

export class InFlight {
  readonly #ids = new TransientMap<string, Count>()
  /** Flat resources about which there is a decision that depends on all that is there. */
  readonly #flat = new TransientMap<Resource, Count>()
  readonly #trees = new LiveIndex()
  readonly #inTrees = new Map<string, ReadSet>()
  readonly #keys = new Map<ReadSet, string>()
  #count = 0

  /** Whether a decision about these read sets must wait for another. */
  concerns(readSets: readonly ReadSet[]): boolean {
    for (const readSet of readSets) {
      if (this.#ids.has(readSet.leaseId)) return true
      if (readSet.depth === 'claims' && this.#touches(readSet)) return true
    }
    return false
  }

  /** Whether there is one about this very entry. */
  hasEntry(leaseId: LeaseId): boolean {
    return this.#ids.has(leaseId)
  }

  begin(readSets: readonly ReadSet[]): void {
    for (const readSet of readSets) {
      const { leaseId, resource, depth } = readSet
      increase(this.#ids, leaseId)
      if (depth === 'entry') continue
      if (isTree(resource)) this.#addToTree(readSet)
      else increase(this.#flat, resource)
    }
  }

  end(readSets: readonly ReadSet[]): void {
    for (const readSet of readSets) {
      const { leaseId, resource, depth } = readSet
      decrease(this.#ids, leaseId)
      if (depth === 'entry') continue
      if (isTree(resource)) this.#removeFromTree(readSet)
      else decrease(this.#flat, resource)
    }
  }

  #addToTree(readSet: ReadSet): void {
    this.#count += 1
    const key = String(this.#count)
    this.#keys.set(readSet, key)
    this.#inTrees.set(key, readSet)
    this.#trees.add(readSet.resource, key)
  }

  #removeFromTree(readSet: ReadSet): void {
    const key = this.#keys.get(readSet)
    if (key === undefined) return
    this.#keys.delete(readSet)
    this.#inTrees.delete(key)
    this.#trees.remove(readSet.resource, key)
  }

  #touches(readSet: ReadSet): boolean {
    if (!isTree(readSet.resource)) return this.#flat.has(readSet.resource)
    for (const key of this.#trees.near(readSet)) {
      const other = this.#inTrees.get(key)
      if (other !== undefined && overlap(other, readSet)) return true
    }
    return false
  }
}

interface Count {
  inFlight: number
}

function increase<Key extends string>(counts: TransientMap<Key, Count>, key: Key): void {
  const count = counts.get(key)
  if (count === undefined) counts.set(key, { inFlight: 1 })
  else count.inFlight += 1
}

function decrease<Key extends string>(counts: TransientMap<Key, Count>, key: Key): void {
  const count = counts.get(key)
  if (count === undefined) return
  count.inFlight -= 1
  if (count.inFlight === 0) counts.delete(key)
}
