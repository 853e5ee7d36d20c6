/**
 * Says who would wait for ever, by playing the future: whoever waits for nothing, or for what is free, gets it, is done
 * some day and gives everything back; and so on until nobody is left, or only those who wait for each other. It shares
 * no rule with the core and no search with the service.
 */
import type { Entry, Lease, Ticket } from '../../src/core/lease.ts'

export function stuckSessions(entries: readonly Entry[]): readonly string[] {
  let left = entries.filter((entry) => entry.state === 'active' || entry.state === 'pending')
  // A lease whose holder was asked to finish ends, whatever its holder waits for.
  left = left.filter((entry) => entry.kind === 'ticket' || entry.revoking === null)
  for (;;) {
    const sessions = [...new Set(left.map((entry) => entry.session))]
    const done = sessions.find((session) => {
      return left.every((entry) => entry.session !== session || isServed(entry, left))
    })
    if (done === undefined) return sessions.toSorted()
    left = left.filter((entry) => entry.session !== done)
  }
}

function isServed(entry: Entry, entries: readonly Entry[]): boolean {
  if (entry.kind === 'ticket' && entry.offer !== null) return true
  if (entry.kind === 'lease' && !entry.upgrading) return true
  const inTheWay = entries.filter((other) => {
    return other.session !== entry.session && touches(entry, other) && standsBefore(other, entry)
  })
  const excludes = (other: Entry): boolean => {
    const isMixed = (entry.slots === null) !== (other.slots === null)
    return isMixed || wantsAlone(entry) || wantsAlone(other)
  }
  if (inTheWay.some(excludes)) return false
  return [entry, ...inTheWay].every(({ slots }) => inTheWay.length + 1 <= (slots ?? Infinity))
}

/** Leases and offers stand in everybody's way; a ticket in that of whoever comes after it, and of no upgrade. */
function standsBefore(other: Entry, entry: Lease | Ticket): boolean {
  if (other.kind === 'lease' || other.offer !== null) return true
  if (entry.kind === 'lease') return false
  if (other.orderUs !== entry.orderUs) return other.orderUs < entry.orderUs
  return other.id < entry.id
}

function wantsAlone(entry: Entry): boolean {
  return entry.mode === 'exclusive' || (entry.kind === 'lease' && entry.upgrading)
}

function touches(a: Entry, b: Entry): boolean {
  const within = (inner: Entry, outer: Entry): boolean =>
    outer.extent === 'subtree' && inner.resource.startsWith(`${outer.resource}/`)
  return a.resource === b.resource || within(a, b) || within(b, a)
}
