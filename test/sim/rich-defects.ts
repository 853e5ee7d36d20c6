/**
 * Defects that systems with shared leases, subtrees, counted resources, transfers and waiting in several places have,
 * planted as those in `defects.ts` are.
 */
import type { LeaseEvent } from '../../src/core/event.ts'
import type { Entry, Lease } from '../../src/core/lease.ts'
import type { RealmView } from '../../src/core/realm.ts'
import { isTree } from '../../src/core/resource.ts'
import { tickAfter } from '../../src/core/time.ts'
import type {
  AcquireAllAnswer,
  AcquireAllRequest,
  AcquireAnswer,
  LeaseApi,
} from '../../src/service/lease-api.ts'
import type { Ruling, Store } from '../../src/store-port/store.ts'
import { sameApi } from '../../sim/api-tap.ts'
import { sameStore } from '../../sim/store-host.ts'
import {
  changed,
  isActiveLease,
  isUnserved,
  lyingStore,
  without,
  type KnownDefect,
  type Look,
} from './planting.ts'

export const RICH_DEFECTS: readonly KnownDefect[] = [
  {
    name: 'a file is granted below a directory that is held',
    promise: 'I1',
    says: /was granted to .* while the ledger shows it held by .* as file:\/repo$/,
    defect: lyingStore({
      view: (view, { isNew, readSet }) => {
        if (!isNew) return view
        return without(view, (entry) => entry.resource !== readSet.resource && isRoot(entry))
      },
    }),
  },
  {
    name: 'a writer comes in beside readers',
    promise: 'I1',
    says: /was granted to .* while the ledger shows it held by/,
    defect: lyingStore({ view: (view, { isNew }) => (isNew ? without(view, isReader) : view) }),
  },
  {
    name: 'an upgrade does not wait for the other readers',
    promise: 'I1',
    says: /became alone for .* while the ledger shows it held by/,
    defect: lyingStore({ view: withoutFellows }),
  },
  {
    name: 'a holder that was downgraded counts on being alone',
    promise: 'I1',
    says: / held .* until/,
    defect: { api: claimingToBeAlone },
  },
  {
    name: 'a counted resource lets one more in',
    promise: 'I1',
    says: /has \d leases in \d slots/,
    defect: lyingStore({ view: (view, { isNew }) => (isNew ? withOneLess(view) : view) }),
  },
  {
    name: 'several are granted one after the other',
    promise: 'I1',
    says: /of \d that belong together were granted/,
    defect: { api: oneByOne },
  },
  {
    name: 'the receiver of a transfer gets nothing',
    promise: 'I1',
    says: /was given away .* and has no holder/,
    defect: lyingStore({
      ruling: (ruling) => withoutEvents(ruling, (event) => event.type === 'lease.issued'),
    }),
  },
  {
    name: 'whoever gives a lease away keeps it',
    promise: 'I1',
    says: /was given at .* and no holder gave it up/,
    defect: lyingStore({
      ruling: (ruling) => withoutEvents(ruling, (event) => event.type === 'lease.transferred'),
    }),
  },
  {
    name: 'each file of a tree counts its own fences',
    promise: 'I2',
    says: /file:.* does not exceed|was given to/,
    defect: lyingStore({
      view: (view, { readSet }) => {
        const own = [...view.entries.values()].filter((e) => e.resource === readSet.resource)
        const fences = own.map((entry) => (entry.kind === 'lease' ? entry.fence : 0))
        return isTree(readSet.resource) ? { ...view, lastFence: Math.max(0, ...fences) } : view
      },
      now: (now) => ({ ...now, wallMs: Math.floor(now.wallMs / HOUR_MS) * HOUR_MS }),
    }),
  },
  {
    name: 'nobody keeps away after an expiry',
    promise: 'I3',
    says: /the lock delay of .* lasts until/,
    defect: lyingStore({ view: (view) => without(view, isDelay) }),
  },
  {
    name: 'a renewal goes past the longest time',
    promise: 'I3',
    says: /it had to end by/,
    defect: lyingStore({
      view: (view) => changed(view, (entry) => (isLease(entry) ? unlimited(entry) : entry)),
    }),
  },
  {
    name: 'whoever is asked to finish renews',
    promise: 'I3',
    says: /it had to end by/,
    defect: lyingStore({
      view: (view, { readSet }) => (readSet.depth === 'entry' ? unasked(view) : view),
    }),
  },
  {
    name: 'readers pass a writer who waits',
    promise: 'I9',
    says: /came to share .* past the writer/,
    defect: lyingStore({
      view: (view, { isNew }) => (isNew ? without(view, isUnservedWriter) : view),
    }),
  },
  {
    name: 'priority is not looked at',
    promise: 'I9',
    says: /passed .*, who came before/,
    defect: lyingStore({ view: (view, look) => changed(view, (entry) => byArrival(entry, look)) }),
  },
  {
    name: 'nobody looks for cycles',
    promise: 'I9',
    says: /in a cycle from/,
    defect: { store: blindToWaiters },
  },
  {
    name: 'whoever would have to wait hears of a cycle',
    promise: 'I9',
    says: /for a cycle that there was not/,
    defect: { api: cryingDeadlock },
  },
  {
    name: 'the search takes a session for a thread',
    promise: 'I9',
    says: /was refused at .* for a cycle that there was not/,
    defect: { store: takingSessionsForThreads },
  },
  {
    name: 'the search passes over what was transferred',
    promise: 'I9',
    says: /in a cycle from/,
    defect: { store: blindToTransfers },
  },
  {
    name: 'a keep-alive revives a ticket that has ended',
    promise: 'I6',
    says: /was kept in line at .*, after lease\.failed/,
    defect: lyingStore({ view: withTicketBack }),
  },
  {
    name: 'a downgrade forgets the slots',
    promise: 'I1',
    says: /was given in \d slots of pool:P, then none/,
    defect: lyingStore({ ruling: withoutSlots }),
  },
  {
    name: 'what was lost is not given back',
    promise: 'I8',
    says: /lost .* and left it in the store until/,
    defect: { api: keepingWhatWasLost },
  },
  {
    name: 'a withdrawal that the store did not hear is not sent again',
    promise: 'I8',
    says: /and its ticket .* stood until/,
    defect: { api: withdrawingOnce },
  },
]

const HOUR_MS = 3_600_000

function isLease(entry: Entry): entry is Lease {
  return entry.kind === 'lease'
}

function isRoot(entry: Entry): boolean {
  return entry.resource === 'file:/repo' && entry.extent === 'subtree'
}

function isReader(entry: Entry): boolean {
  return isActiveLease(entry) && entry.mode === 'shared' && entry.slots === null
}

function isDelay(entry: Entry): boolean {
  return isLease(entry) && entry.state !== 'active' && entry.lockedUntil !== null
}

function isUnservedWriter(entry: Entry): boolean {
  return isUnserved(entry) && entry.mode === 'exclusive'
}

/** The holder of a shared lease sees nobody else who shares it. */
function withoutFellows(view: RealmView, { own }: Look): RealmView {
  if (own === null || !isReader(own)) return view
  return without(view, (entry) => entry.id !== own.id && isReader(entry))
}

function withOneLess(view: RealmView): RealmView {
  const counted = [...view.entries.values()].find((one) => isActiveLease(one) && one.slots !== null)
  return without(view, (entry) => entry === counted)
}

function unlimited(lease: Lease): Lease {
  return { ...lease, holdUntilUs: null }
}

function unasked(view: RealmView): RealmView {
  return changed(view, (entry) => (isLease(entry) ? { ...entry, revoking: null } : entry))
}

/** Tickets look as if they had come when they came, whatever they are worth. */
function byArrival(entry: Entry, { now }: Look): Entry {
  if (entry.kind !== 'ticket' || entry.state !== 'pending') return entry
  return { ...entry, orderUs: now.tick.us - (now.wallMs - entry.createdAtMs) * 1000 }
}

/** Where a transfer is committed, what the choice finds is neither written nor kept. */
function withoutEvents<Outcome>(
  ruling: Ruling<Outcome>,
  isLost: (event: LeaseEvent) => boolean,
): Ruling<Outcome> {
  const { commit } = ruling
  if (!commit.events.some((event) => event.type === 'lease.transferred')) return ruling
  const lost = new Set(commit.events.filter(isLost).map((event) => event.leaseId))
  const events = commit.events.filter((event) => !lost.has(event.leaseId))
  const changes = commit.changes.filter((change) => !lost.has(change.id))
  return { ...ruling, commit: { ...commit, events, changes } }
}

/** Asks for the members one by one, as programs do that have no way to ask for all of them. */
function oneByOne(api: LeaseApi): LeaseApi {
  const acquireAll = async (request: AcquireAllRequest): Promise<AcquireAllAnswer> => {
    const { members, group: _group, ...common } = request
    const answers: AcquireAnswer[] = []
    for (const member of members) answers.push(await api.acquire({ ...common, ...member }))
    const leases = answers.flatMap((answer) => (answer.kind === 'granted' ? [answer.lease] : []))
    if (leases.length === members.length) return { kind: 'granted_all', leases, repeated: false }
    const refusal = answers.find(({ kind }) => kind !== 'granted' && kind !== 'queued')
    if (refusal !== undefined && refusal.kind !== 'granted' && refusal.kind !== 'queued') {
      return refusal
    }
    const leaseIds = members.map(({ id: leaseId }) => leaseId)
    return {
      kind: 'queued_all',
      leaseIds,
      blockers: [],
      waitMs: 100,
      waitedMs: 0,
      keepAliveMs: 50,
      checkAfterMs: 50,
    }
  }
  return { ...sameApi(api), acquireAll }
}

/** The answer to a downgrade, and all that is heard of the lease after it, says that it is still alone. */
function claimingToBeAlone(api: LeaseApi): LeaseApi {
  return {
    ...sameApi(api),
    acquire: async (request) => {
      const answer = await api.acquire(request)
      if (answer.kind !== 'granted' || request.slots !== undefined) return answer
      return { ...answer, lease: { ...answer.lease, mode: 'exclusive' } }
    },
  }
}

/** The search for cycles is told of nobody who waits. */
function blindToWaiters(store: Store): Store {
  return {
    ...sameStore(store, (readSets, decide) => store.transact(readSets, decide)),
    find: async (query) => {
      const found = await store.find(query)
      const isSearch = query.holder !== undefined && query.states?.[0] === 'pending'
      return isSearch ? { ...found, entries: [] } : found
    },
  }
}

function cryingDeadlock(api: LeaseApi): LeaseApi {
  return {
    ...sameApi(api),
    acquire: async (request) => {
      const answer = await api.acquire(request)
      if (answer.kind !== 'queued') return answer
      const { id: leaseId, resource, session, holder, extent = 'exact' } = request
      await api.withdraw({ id: leaseId, resource, holder, session, extent, why: 'aborted' })
      return { kind: 'deadlock', leaseId, cycle: [{ holder, session, resource }] }
    },
  }
}

/** Whatever a session holds is taken to stay until whatever it waits for has come. */
function takingSessionsForThreads(store: Store): Store {
  const withAll = async (entry: Entry): Promise<Entry> => {
    if (entry.kind !== 'ticket' || entry.state !== 'pending') return entry
    const { holder, session } = entry
    const held = await store.find({ holder, session, states: ['active'], limit: 100 })
    const leaseIds = held.entries.map(({ id }) => id)
    return { ...entry, under: { leaseIds, implied: false } }
  }
  return reading(store, (entries) => Promise.all(entries.map(withAll)))
}

/** What was transferred looks like any other lease of its holder. */
function blindToTransfers(store: Store): Store {
  return reading(store, async (entries) => {
    return entries.map((entry) => (isActiveLease(entry) ? { ...entry, adopted: true } : entry))
  })
}

function reading(
  store: Store,
  change: (entries: readonly Entry[]) => Promise<readonly Entry[]>,
): Store {
  return {
    ...sameStore(store, (readSets, decide) => store.transact(readSets, decide)),
    find: async (query) => {
      const found = await store.find(query)
      return { ...found, entries: await change(found.entries) }
    },
  }
}

/** A ticket that a claim is about looks as if it had never ended. */
function withTicketBack(view: RealmView, { readSet, own, now }: Look): RealmView {
  if (readSet.depth !== 'entry' || own?.kind !== 'ticket' || own.state !== 'failed') return view
  const ticket = { ...own, failure: null, cycle: null, deadline: tickAfter(now.tick, 1) }
  return changed(view, (entry) => (entry.id === own.id ? { ...ticket, state: 'pending' } : entry))
}

function withoutSlots<Outcome>(ruling: Ruling<Outcome>): Ruling<Outcome> {
  const { commit } = ruling
  const events = commit.events.filter((event) => event.type === 'lease.downgraded')
  const downgraded = new Set(events.map((event) => event.leaseId))
  const changes = commit.changes.map((change) => {
    if (change.after === null || !downgraded.has(change.id)) return change
    return { ...change, after: { ...change.after, slots: null } }
  })
  return { ...ruling, commit: { ...commit, changes } }
}

/** A holder that has lost its lease leaves it to its deadline. */
function keepingWhatWasLost(api: LeaseApi): LeaseApi {
  return {
    ...sameApi(api),
    release: (request) => {
      if (request.releaseReason !== 'aborted') return api.release(request)
      return Promise.resolve({ kind: 'not_found', leaseId: request.id })
    },
  }
}

function withdrawingOnce(api: LeaseApi): LeaseApi {
  return {
    ...sameApi(api),
    withdraw: (ticket) => {
      return api.withdraw(ticket).catch(() => ({ kind: 'withdrawn', released: false }) as const)
    },
  }
}
