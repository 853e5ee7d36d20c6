/**
 * Which reaches have a decision under way. Decisions of one process that depend on each other go one after the other:
 * sent together, the later one would be made on what the earlier one is about to change, and miss.
 *
 * A decision about the entry alone concerns that entry, and whoever looks at all claims around it.
 */
import type { Footprint } from '../../core/realm.ts'
import { overlap, type Reach } from '../../core/resource.ts'
import { LiveIndex } from '../live-index.ts'

export class UnderWay {
  readonly #footprints = new Map<string, Footprint>()
  readonly #claims = new LiveIndex()
  readonly #entries = new LiveIndex()
  readonly #ids = new Map<string, number>()
  #count = 0

  /** Whether a decision about these footprints must wait for another. */
  concerns(footprints: readonly Footprint[]): boolean {
    return footprints.some((footprint) => {
      if (this.#ids.has(footprint.leaseId)) return true
      if (this.#touches(this.#claims, footprint)) return true
      return footprint.depth === 'claims' && this.#touches(this.#entries, footprint)
    })
  }

  /** Returns how to end it. */
  begin(footprints: readonly Footprint[]): () => void {
    const keys = footprints.map((footprint) => this.#add(footprint))
    return () => {
      for (const key of keys) this.#remove(key)
    }
  }

  #add(footprint: Footprint): string {
    this.#count += 1
    const key = String(this.#count)
    this.#footprints.set(key, footprint)
    this.#indexOf(footprint).add(footprint.resource, key)
    this.#ids.set(footprint.leaseId, (this.#ids.get(footprint.leaseId) ?? 0) + 1)
    return key
  }

  #remove(key: string): void {
    const footprint = this.#footprints.get(key)
    if (footprint === undefined) return
    this.#footprints.delete(key)
    this.#indexOf(footprint).remove(footprint.resource, key)
    const left = (this.#ids.get(footprint.leaseId) ?? 1) - 1
    if (left === 0) this.#ids.delete(footprint.leaseId)
    else this.#ids.set(footprint.leaseId, left)
  }

  #indexOf({ depth }: Footprint): LiveIndex {
    return depth === 'claims' ? this.#claims : this.#entries
  }

  #touches(index: LiveIndex, reach: Reach): boolean {
    for (const key of index.near(reach)) {
      const other = this.#footprints.get(key)
      if (other !== undefined && overlap(other, reach)) return true
    }
    return false
  }
}
