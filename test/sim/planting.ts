/**
 * How defects are planted into the production code without a switch in it: the store is wrapped, so that decisions see
 * a falsified view or clock, or so that part of a commit is lost.
 */
import type { Entry, Lease } from '../../src/core/lease.ts'
import type { ReadSet, RealmView } from '../../src/core/realm.ts'
import type { Now } from '../../src/core/time.ts'
import type { Ruling, Store } from '../../src/store-port/store.ts'
import type { Defect } from '../../sim/simulation.ts'
import { sameStore, type StoreKind } from '../../sim/store-host.ts'

export interface KnownDefect {
  readonly name: string
  /** The promise that it breaks. */
  readonly promise: string
  /** What the checker must say. */
  readonly says: RegExp
  /** The memory store, unless it is a defect of a server. */
  readonly store?: StoreKind
  readonly defect: Defect
}

/** What a decision is about, as far as the store can tell. */
export interface Look {
  readonly now: Now
  readonly readSet: ReadSet
  /** The entry that the command names; null when the store does not know it. */
  readonly own: Entry | null
  /** The command names an entry that does not exist yet: somebody asks for the first time. */
  readonly isNew: boolean
}

export interface Lie {
  readonly view?: (view: RealmView, look: Look) => RealmView
  readonly now?: (now: Now) => Now
  readonly ruling?: <Outcome>(ruling: Ruling<Outcome>) => Ruling<Outcome>
}

export function lyingStore(lie: Lie): Defect {
  return { store: (store) => withLie(store, lie) }
}

function withLie(store: Store, { view: falsify, now: misread, ruling: change }: Lie): Store {
  const transact: Store['transact'] = (readSets, decide) =>
    store.transact(readSets, (views, now) => {
      const seen = views.map((view, index) => {
        const readSet = readSets[index]
        if (readSet === undefined || falsify === undefined) return view
        const own = view.entries.get(readSet.leaseId) ?? null
        return falsify(view, { now, readSet, own, isNew: own === null })
      })
      const ruling = decide(seen, misread?.(now) ?? now)
      return change?.(ruling) ?? ruling
    })
  return sameStore(store, transact)
}

export function changed(view: RealmView, change: (entry: Entry) => Entry | null): RealmView {
  const entries = new Map<string, Entry>()
  for (const [id, entry] of view.entries) {
    const after = change(entry)
    if (after !== null) entries.set(id, after)
  }
  return { ...view, entries }
}

export function without(view: RealmView, isHidden: (entry: Entry) => boolean): RealmView {
  return changed(view, (entry) => (isHidden(entry) ? null : entry))
}

export function isActiveLease(entry: Entry): entry is Lease & { state: 'active' } {
  return entry.kind === 'lease' && entry.state === 'active'
}

export function isUnserved(entry: Entry): boolean {
  return entry.kind === 'ticket' && entry.offer === null
}
