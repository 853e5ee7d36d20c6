/**
 * Which reaches have a decision under way. Decisions of one process that depend on each other go one after the other:
 * sent together, the later one would be made on what the earlier one is about to change, and miss.
 *
 * A decision about an entry alone waits only for others about the same entry: a renewal must not be late because
 * somebody else keeps missing in the same place.
 */
import type { Footprint } from '../../core/realm.ts'
import { isTree, overlap, type Resource } from '../../core/resource.ts'
import { TransientMap } from '../../runtime/transient-map.ts'
import { LiveIndex } from '../live-index.ts'

export class UnderWay {
  readonly #ids = new TransientMap<string, Count>()
  /** Flat resources about which there is a decision that depends on all that is there. */
  readonly #flat = new TransientMap<Resource, Count>()
  readonly #trees = new LiveIndex()
  readonly #inTrees = new Map<string, Footprint>()
  readonly #keys = new Map<Footprint, string>()
  #count = 0

  /** Whether a decision about these footprints must wait for another. */
  concerns(footprints: readonly Footprint[]): boolean {
    for (const footprint of footprints) {
      if (this.#ids.has(footprint.leaseId)) return true
      if (footprint.depth === 'claims' && this.#touches(footprint)) return true
    }
    return false
  }

  begin(footprints: readonly Footprint[]): void {
    for (const footprint of footprints) {
      const { leaseId, resource, depth } = footprint
      increase(this.#ids, leaseId)
      if (depth === 'entry') continue
      if (isTree(resource)) this.#addToTree(footprint)
      else increase(this.#flat, resource)
    }
  }

  end(footprints: readonly Footprint[]): void {
    for (const footprint of footprints) {
      const { leaseId, resource, depth } = footprint
      decrease(this.#ids, leaseId)
      if (depth === 'entry') continue
      if (isTree(resource)) this.#removeFromTree(footprint)
      else decrease(this.#flat, resource)
    }
  }

  #addToTree(footprint: Footprint): void {
    this.#count += 1
    const key = String(this.#count)
    this.#keys.set(footprint, key)
    this.#inTrees.set(key, footprint)
    this.#trees.add(footprint.resource, key)
  }

  #removeFromTree(footprint: Footprint): void {
    const key = this.#keys.get(footprint)
    if (key === undefined) return
    this.#keys.delete(footprint)
    this.#inTrees.delete(key)
    this.#trees.remove(footprint.resource, key)
  }

  #touches(footprint: Footprint): boolean {
    if (!isTree(footprint.resource)) return this.#flat.has(footprint.resource)
    for (const key of this.#trees.near(footprint)) {
      const other = this.#inTrees.get(key)
      if (other !== undefined && overlap(other, footprint)) return true
    }
    return false
  }
}

interface Count {
  underWay: number
}

function increase<Key extends string>(counts: TransientMap<Key, Count>, key: Key): void {
  const count = counts.get(key)
  if (count === undefined) counts.set(key, { underWay: 1 })
  else count.underWay += 1
}

function decrease<Key extends string>(counts: TransientMap<Key, Count>, key: Key): void {
  const count = counts.get(key)
  if (count === undefined) return
  count.underWay -= 1
  if (count.underWay === 0) counts.delete(key)
}
