/**
 * Which reaches have a decision under way. Decisions of one process that depend on each other go one after the other:
 * sent together, the later one would be made on what the earlier one is about to change, and miss.
 *
 * A decision about an entry alone waits only for others about the same entry: a renewal must not be late because
 * somebody else keeps missing in the same place.
 */
import type { Footprint } from '../../core/realm.ts'
import { overlap } from '../../core/resource.ts'
import { LiveIndex } from '../live-index.ts'

export class UnderWay {
  readonly #footprints = new Map<string, Footprint>()
  readonly #claims = new LiveIndex()
  readonly #ids = new Map<string, number>()
  #count = 0

  /** Whether a decision about these footprints must wait for another. */
  concerns(footprints: readonly Footprint[]): boolean {
    return footprints.some((footprint) => {
      if (this.#ids.has(footprint.leaseId)) return true
      return footprint.depth === 'claims' && this.#touches(footprint)
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
    if (footprint.depth === 'claims') this.#claims.add(footprint.resource, key)
    this.#ids.set(footprint.leaseId, (this.#ids.get(footprint.leaseId) ?? 0) + 1)
    return key
  }

  #remove(key: string): void {
    const footprint = this.#footprints.get(key)
    if (footprint === undefined) return
    this.#footprints.delete(key)
    if (footprint.depth === 'claims') this.#claims.remove(footprint.resource, key)
    const left = (this.#ids.get(footprint.leaseId) ?? 1) - 1
    if (left === 0) this.#ids.delete(footprint.leaseId)
    else this.#ids.set(footprint.leaseId, left)
  }

  #touches(footprint: Footprint): boolean {
    for (const key of this.#claims.near(footprint)) {
      const other = this.#footprints.get(key)
      if (other !== undefined && overlap(other, footprint)) return true
    }
    return false
  }
}
