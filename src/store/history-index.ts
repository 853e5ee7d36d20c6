/**
 * Finds the events of one resource, holder or ending state in a long ledger, without an index that every write pays for.
 *
 * The ledger is cut into runs of `RUN_EVENTS` positions. When a run is full the store builds its index once, from the
 * events themselves, and appends it: 6 bytes per name, in buckets of which a search reads one per run. The events after
 * the last full run, fewer than `RUN_EVENTS`, have no index yet; a search reads them all. So a write costs nothing, the
 * index is never behind by more than one run, and a search among a million events reads 500 small rows.
 *
 * An index may point to an event that was pruned since, or, where two names share a hash, to one of another name: the
 * store reads the event and compares.
 */
import type { EntryState } from '../core/lease.ts'

export const RUN_EVENTS = 2_048
const BUCKETS = 64
const ENTRY_BYTES = 6

/** What an index needs to know of an event. */
export interface IndexedEvent {
  /** Within its run, 0 to `RUN_EVENTS - 1`. */
  readonly offset: number
  readonly resource: string
  readonly holder: string
  /** The state in which it left its entry behind, if it ended it. */
  readonly ended: EntryState | null
}

/** What can be searched for. */
export type IndexName =
  | { readonly kind: 'resource'; readonly resource: string; readonly ended: boolean }
  | { readonly kind: 'holder'; readonly holder: string; readonly ended: boolean }
  | { readonly kind: 'state'; readonly state: EntryState }

export interface IndexBucket {
  readonly bucket: number
  readonly entries: Uint8Array
}

/** The index of one full run, without the buckets that are empty. */
export function buildIndex(events: Iterable<IndexedEvent>): readonly IndexBucket[] {
  const buckets: number[][] = Array.from({ length: BUCKETS }, () => [])
  for (const event of events) {
    for (const name of namesOf(event)) {
      const hash = hashOf(name)
      buckets[hash % BUCKETS]?.push(hash, event.offset)
    }
  }
  return buckets.flatMap((pairs, bucket) => {
    return pairs.length === 0 ? [] : [{ bucket, entries: packed(pairs) }]
  })
}

export function bucketOf(name: IndexName): number {
  return hashOf(textOf(name)) % BUCKETS
}

/** The offsets of events that may have the name, from the oldest to the newest. */
export function searchBucket(entries: Uint8Array, name: IndexName): readonly number[] {
  const hash = hashOf(textOf(name))
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength)
  const offsets: number[] = []
  for (let at = 0; at + ENTRY_BYTES <= entries.byteLength; at += ENTRY_BYTES) {
    if (view.getUint32(at) === hash) offsets.push(view.getUint16(at + 4))
  }
  return offsets
}

function namesOf({ resource, holder, ended }: IndexedEvent): readonly string[] {
  const all = [
    textOf({ kind: 'resource', resource, ended: false }),
    textOf({ kind: 'holder', holder, ended: false }),
  ]
  if (ended === null) return all
  return [
    ...all,
    textOf({ kind: 'resource', resource, ended: true }),
    textOf({ kind: 'holder', holder, ended: true }),
    textOf({ kind: 'state', state: ended }),
  ]
}

function textOf(name: IndexName): string {
  if (name.kind === 'state') return `s${name.state}`
  if (name.kind === 'resource') return `${name.ended ? 'R' : 'r'}${name.resource}`
  return `${name.ended ? 'H' : 'h'}${name.holder}`
}

function packed(pairs: readonly number[]): Uint8Array {
  const bytes = new Uint8Array((pairs.length / 2) * ENTRY_BYTES)
  const view = new DataView(bytes.buffer)
  for (let at = 0; at < pairs.length; at += 2) {
    view.setUint32((at / 2) * ENTRY_BYTES, pairs[at] ?? 0)
    view.setUint16((at / 2) * ENTRY_BYTES + 4, pairs[at + 1] ?? 0)
  }
  return bytes
}

/** FNV-1a over UTF-16 units: 32 bits that differ for different names but for one pair in 4 billion. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  }
  return hash >>> 0
}
