/** Defects that systems with derived leases have, planted as those in `defects.ts` are. */
import type { Delegation } from '../../src/core/delegation.ts'
import type { Entry } from '../../src/core/lease.ts'
import { changed, isActiveLease, lyingStore, type KnownDefect } from './planting.ts'

export const FAMILY_DEFECTS: readonly KnownDefect[] = [
  {
    name: 'a lease does not know what was derived from it',
    promise: 'I11',
    says: /lives on without its parent/,
    defect: lyingStore({
      view: (view) => changed(view, (entry) => accounted(entry, { children: [] })),
    }),
  },
  {
    name: 'what was spent before is not looked at',
    promise: 'I11',
    says: /has used \d+ of \d+ tokens/,
    defect: lyingStore({
      view: (view, { readSet }) => {
        if (readSet.depth !== 'entry') return view
        return changed(view, (entry) => accounted(entry, { used: {} }))
      },
    }),
  },
  {
    name: 'a derived lease is renewed past its parent',
    promise: 'I11',
    says: /has more time than its parent/,
    defect: lyingStore({
      view: (view, { readSet }) => {
        return readSet.depth === 'entry' ? changed(view, withLongParent) : view
      },
    }),
  },
]

function accounted(entry: Entry, change: Partial<Delegation>): Entry {
  if (!isActiveLease(entry) || entry.delegation === undefined) return entry
  return { ...entry, delegation: { ...entry.delegation, ...change } }
}

const HOUR_US = 3_600_000_000

function withLongParent(entry: Entry): Entry {
  if (!isActiveLease(entry) || (entry.delegation?.children.length ?? 0) === 0) return entry
  const { domain, us } = entry.deadline
  return { ...entry, deadline: { domain, us: us + HOUR_US } }
}
