/** Attempts as a store would send them, made by hand: one grant, its renewals and its release. */
import { randomUUID } from 'node:crypto'
import type { LeaseEvent } from '../../../src/core/event.ts'
import type { Lease } from '../../../src/core/lease.ts'
import { parseResource, realmOf } from '../../../src/core/resource.ts'
import type { Attempt, VersionedEntry, Place } from '../../../src/store/optimistic/backend.ts'

export const DOMAIN = 'postgres#1'
const WINDOW_US = 1_000_000

export interface Moment {
  readonly nowUs: number
  readonly ttlMs?: number
}

function attemptOf(place: Place, nowUs: number, change: Partial<Attempt>): Attempt {
  return {
    places: [place],
    fromUs: nowUs,
    beforeUs: nowUs + WINDOW_US,
    wallMs: Math.floor(nowUs / 1000),
    ...{ writes: [], events: [], requests: [], epochs: [], wakes: [], fences: null },
    ...change,
  }
}

function commonOf(lease: Lease, atMs: number) {
  const { id: leaseId, resource, holder, session } = lease
  const common = { leaseId, resource, holder, session, atMs }
  return { ...common, renewals: lease.renewals, reason: null, requestId: null }
}

export function placeOf(lease: Lease, change: Partial<Place> = {}): Place {
  return {
    readSet: {
      ...{ resource: lease.resource, extent: lease.extent, leaseId: lease.id },
      ...{ requestId: null, depth: 'claims' },
    },
    realm: realmOf(lease.resource),
    own: 0,
    claims: [],
    hasPrior: false,
    epoch: 0,
    ...change,
  }
}

export function leaseOf(name: string, { nowUs, ttlMs = 30_000 }: Moment): Lease {
  const wallMs = Math.floor(nowUs / 1000)
  return {
    ...{ kind: 'lease', state: 'active', id: randomUUID(), resource: parseResource(name) },
    ...{ mode: 'exclusive', extent: 'exact', holder: 'ada', session: 'session-of-ada' },
    ...{ ttlMs, maxRenewals: -1, maxHoldMs: null, slots: null, lockDelayMs: 0, breakable: false },
    ...{ reason: null, metadata: null, createdAtMs: wallMs, recorded: true },
    ...{ fence: wallMs * 1000, grantedAtMs: wallMs, renewedAtMs: null },
    ...{ expiresAtMs: wallMs + ttlMs, terminatedAtMs: null, renewals: 0, releaseReason: null },
    deadline: { domain: DOMAIN, us: nowUs + ttlMs * 1000 },
    ...{
      holdUntilUs: null,
      lockedUntil: null,
      revoking: null,
      upgrading: false,
      adopted: true,
      epoch: 0,
    },
  }
}

export function grantOf(lease: Lease, nowUs: number, change: Partial<Place> = {}): Attempt {
  const event: LeaseEvent = {
    ...commonOf(lease, lease.grantedAtMs),
    ...{ type: 'lease.issued', before: null, after: 'active', lease },
  }
  const place = placeOf(lease, change)
  // The id of a lease is that of the request for it.
  const readSet = { ...place.readSet, requestId: lease.id }
  return attemptOf({ ...place, readSet }, nowUs, {
    writes: [{ id: lease.id, before: null, after: { entry: lease, version: 1, claim: 1 } }],
    events: [event],
    fences: { first: lease.fence, last: lease.fence },
  })
}

/** A step of a lease that is kept, and what is kept after it. */
export interface Step {
  readonly attempt: Attempt
  readonly after: VersionedEntry
}

export function renewalOf(before: VersionedEntry, nowUs: number): Step {
  const lease = before.entry as Lease
  const wallMs = Math.floor(nowUs / 1000)
  const deadline = { domain: DOMAIN, us: nowUs + lease.ttlMs * 1000 }
  const expiresAtMs = wallMs + lease.ttlMs
  const renewed: Lease = {
    ...{ ...lease, deadline, expiresAtMs, renewedAtMs: wallMs, renewals: lease.renewals + 1 },
  }
  const after: VersionedEntry = { entry: renewed, version: before.version + 1, claim: before.claim }
  const place = placeOf(lease, { own: before.version, claims: null })
  const event: LeaseEvent = {
    ...commonOf(renewed, wallMs),
    ...{ type: 'lease.renewed', before: 'active', after: 'active', ttlMs: lease.ttlMs },
    ...{ expiresAtMs, deadline },
  }
  const writes = [{ id: lease.id, before, after }]
  const readSet = { ...place.readSet, depth: 'entry' } as const
  return { after, attempt: attemptOf({ ...place, readSet }, nowUs, { writes, events: [event] }) }
}

/** Uses up the next epoch of a workflow. */
export function advanceOf(before: VersionedEntry, nowUs: number): Step {
  const lease = before.entry as Lease
  const advanced: Lease = { ...lease, epoch: lease.epoch + 1 }
  const after: VersionedEntry = {
    entry: advanced,
    version: before.version + 1,
    claim: before.claim,
  }
  const place = placeOf(lease, { own: before.version, claims: null, epoch: lease.epoch })
  const event: LeaseEvent = {
    ...commonOf(advanced, Math.floor(nowUs / 1000)),
    ...{ type: 'lease.advanced', before: 'active', after: 'active' },
    ...{ from: lease.epoch, to: advanced.epoch },
  }
  const readSet = { ...place.readSet, depth: 'entry' } as const
  const change = {
    writes: [{ id: lease.id, before, after }],
    events: [event],
    epochs: [{ resource: lease.resource, epoch: advanced.epoch }],
  }
  return { after, attempt: attemptOf({ ...place, readSet }, nowUs, change) }
}

export function releaseOf(before: VersionedEntry, nowUs: number): Step {
  const lease = before.entry as Lease
  const wallMs = Math.floor(nowUs / 1000)
  const released: Lease = {
    ...{ ...lease, state: 'released', terminatedAtMs: wallMs, releaseReason: 'voluntary' },
  }
  const after = { entry: released, version: before.version + 1, claim: before.claim + 1 }
  const claims = [{ id: lease.id, claim: before.claim }]
  const event: LeaseEvent = {
    ...commonOf(released, wallMs),
    ...{ type: 'lease.released', before: 'active', after: 'released' },
    releaseReason: 'voluntary',
  }
  const writes = [{ id: lease.id, before, after }]
  const place = placeOf(lease, { own: before.version, claims })
  return { after, attempt: attemptOf(place, nowUs, { writes, events: [event] }) }
}
