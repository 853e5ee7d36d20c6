/**
 * Known defects of lease systems, each planted into the production code without a switch in it: the store is wrapped,
 * so that decisions see a falsified view or clock, or so that part of a commit is lost; or the service is wrapped, so
 * that requests or answers are changed on their way; or the process has a runtime that lies. What each of them breaks
 * is what a system with that defect would break.
 */
import { isLeaseError, LeaseError } from '../../src/core/errors.ts'
import { isLive, type Entry, type LeaseInfo } from '../../src/core/lease.ts'
import type { RealmView } from '../../src/core/realm.ts'
import { hasPassed, tickAfter, US_PER_MS, type Tick } from '../../src/core/time.ts'
import type { Runtime } from '../../src/runtime/runtime.ts'
import type { AcquireAnswer, LeaseApi, RenewAnswer } from '../../src/service/lease-api.ts'
import type { Ruling } from '../../src/store-port/store.ts'
import { sameApi } from '../../sim/api-tap.ts'
import type { Incarnation } from '../../sim/sim-process.ts'
import {
  changed,
  isActiveLease,
  isUnserved,
  lyingStore,
  without,
  type KnownDefect,
  type Look,
} from './planting.ts'

export const STILL_HELD: KnownDefect = {
  name: 'a resource that is still held is granted to a newcomer',
  promise: 'I1',
  says: /was granted to .* while the ledger shows it held by/,
  defect: lyingStore({
    view: (view, look) => (look.isNew ? without(view, isActiveLease) : view),
  }),
}

export const KNOWN_DEFECTS: readonly KnownDefect[] = [
  STILL_HELD,
  {
    name: 'a change of owner does not raise the fence',
    promise: 'I2',
    says: /does not exceed|was given to/,
    defect: lyingStore({
      view: (view) => ({ ...view, lastFence: 0 }),
      now: (now) => ({ ...now, wallMs: Math.floor(now.wallMs / HOUR_MS) * HOUR_MS }),
    }),
  },
  {
    name: 'releasing a lease that ran out frees what the next holder has',
    promise: 'I3',
    says: /was released by a stranger/,
    defect: { api: releasingByName },
  },
  {
    name: 'a lease expires before its time',
    promise: 'I3',
    says: /expired before its time/,
    defect: lyingStore({ view: (view, look) => (look.isNew ? shifted(view, -300) : view) }),
  },
  {
    name: 'a holder counts from after the reply',
    promise: 'I4',
    says: /counted on|said (held|uncertain)/,
    defect: { api: countingFromReply },
  },
  {
    name: 'loss is noticed only when somebody looks',
    promise: 'I4',
    says: /had not heard of it by/,
    defect: { runtime: withoutQuietTimers },
  },
  {
    name: 'an expired lease blocks until somebody sweeps it',
    promise: 'I5',
    says: /although nothing live stood in its way/,
    defect: lyingStore({ view: (view, look) => (look.isNew ? shifted(view, 5_000) : view) }),
  },
  {
    name: 'a renewal does not look at the deadline',
    promise: 'I6',
    says: /lease\.renewed .* its deadline had passed/,
    defect: lyingStore({ view: revived }),
  },
  {
    name: 'a lease that ended is issued again to its late request',
    promise: 'I6',
    says: /lease\.issued .* it was issued before/,
    defect: lyingStore({
      view: (view, { own }) => (own !== null && !isLive(own) ? forgotten(view, own) : view),
    }),
  },
  {
    name: 'an event is not written',
    promise: 'I7',
    says: /in the store and .* in the ledger/,
    defect: lyingStore({ ruling: withoutExpiries }),
  },
  {
    name: 'a repeated request counts twice',
    promise: 'I8',
    says: /is the second effect of one request/,
    defect: lyingStore({ view: (view) => ({ ...view, prior: null }) }),
  },
  {
    name: 'a timeout leaves a grant behind',
    promise: 'I8',
    says: /was told (WAIT_TIMEOUT|ABORTED) .* lived on/,
    defect: {
      api: (api) => ({
        ...sameApi(api),
        withdraw: () => Promise.resolve({ kind: 'withdrawn', released: false }),
      }),
    },
  },
  {
    name: 'a lost answer is taken for no',
    promise: 'I8',
    says: /was told STORE_UNAVAILABLE/,
    defect: { api: denyingDoubt },
  },
  {
    name: 'a call never ends',
    promise: 'I8',
    says: /had no answer by/,
    defect: { api: (api) => ({ ...sameApi(api), inspect: () => new Promise(() => undefined) }) },
  },
  {
    name: 'a newcomer passes the queue',
    promise: 'I9',
    says: /passed .*, who came before/,
    defect: lyingStore({ view: (view, look) => (look.isNew ? without(view, isUnserved) : view) }),
  },
  {
    name: 'the last to come is served first',
    promise: 'I9',
    says: /lease\.offered .* passed .*, who came before/,
    defect: lyingStore({ view: (view) => changed(view, mirrored), ruling: mirroredBack }),
  },
  {
    name: 'a dead waiter at the head blocks all others',
    promise: 'I9',
    says: /waited for it in good health/,
    defect: lyingStore({ view: immortalOffers }),
  },
]

const HOUR_MS = 3_600_000

function forgotten(view: RealmView, own: Entry): RealmView {
  return without(view, (entry) => entry.id === own.id)
}

/** Leases look as if they ended so much later, or sooner. */
function shifted(view: RealmView, byMs: number): RealmView {
  const later = (tick: Tick): Tick => ({ ...tick, us: tick.us + byMs * US_PER_MS })
  return changed(view, (entry) =>
    isActiveLease(entry) ? { ...entry, deadline: later(entry.deadline) } : entry,
  )
}

/** The lease that a renewal is about looks as if it had not run out. */
function revived(view: RealmView, { readSet, own, now }: Look): RealmView {
  if (readSet.depth !== 'entry' || own === null || !isActiveLease(own)) return view
  if (!hasPassed(own.deadline, now.tick)) return view
  const deadline = tickAfter(now.tick, 1)
  return changed(view, (entry) => (entry.id === own.id ? { ...own, deadline } : entry))
}

/** An offer that nobody claimed looks as if it were still open. */
function immortalOffers(view: RealmView, { now }: Look): RealmView {
  return changed(view, (entry) => {
    if (entry.kind !== 'ticket' || entry.state !== 'pending' || entry.offer === null) return entry
    if (entry.offer.deadline.domain !== now.tick.domain) return entry
    return { ...entry, offer: { ...entry.offer, deadline: tickAfter(now.tick, 1) } }
  })
}

/** Far below every tick of a simulated clock. */
const MIRROR_US = -1e15

/** Tickets look as if the last of them had come first, and all of them before any time that a clock will tell. */
function mirrored(entry: Entry): Entry {
  return entry.kind === 'ticket' ? { ...entry, orderUs: MIRROR_US - entry.orderUs } : entry
}

function mirroredBack<Outcome>(ruling: Ruling<Outcome>): Ruling<Outcome> {
  const changes = ruling.commit.changes.map((change) => {
    const isMirrored = change.after?.kind === 'ticket' && change.after.orderUs < MIRROR_US / 2
    return isMirrored ? { ...change, after: mirrored(change.after) } : change
  })
  return { ...ruling, commit: { ...ruling.commit, changes } }
}

function withoutExpiries<Outcome>(ruling: Ruling<Outcome>): Ruling<Outcome> {
  const events = ruling.commit.events.filter((event) => event.type !== 'lease.expired')
  return { ...ruling, commit: { ...ruling.commit, events } }
}

/** Releases whatever lease the resource has, as systems do whose releases name the resource only. */
function releasingByName(api: LeaseApi): LeaseApi {
  return {
    ...sameApi(api),
    release: async (request) => {
      const answer = await api.release(request)
      if (answer.kind !== 'expired' || request.resource === undefined) return answer
      const { leases } = await api.inspect({ resource: request.resource })
      const [lease] = leases
      if (lease === undefined) return answer
      const { id: leaseId, resource, holder } = lease
      await api.release({ id: leaseId, resource, holder })
      return answer
    },
  }
}

/** What the store says is left looks as if it began with the answer. */
function countingFromReply(api: LeaseApi, { runtime }: Incarnation): LeaseApi {
  const stretched = async <Answer extends AcquireAnswer | RenewAnswer>(
    call: () => Promise<Answer>,
  ): Promise<Answer> => {
    const sentMs = runtime.monotonicMs()
    const answer = await call()
    if (!('lease' in answer)) return answer
    const byMs = Math.ceil(runtime.monotonicMs() - sentMs)
    return { ...answer, lease: longer(answer.lease, byMs) }
  }
  return {
    ...sameApi(api),
    acquire: (request) => stretched(() => api.acquire(request)),
    renew: (request) => stretched(() => api.renew(request)),
  }
}

function longer(lease: LeaseInfo, byMs: number): LeaseInfo {
  return { ...lease, ttlMs: lease.ttlMs + byMs, remainingMs: lease.remainingMs + byMs }
}

/** Timers that do not keep a process alive never fire: those of handles. */
function withoutQuietTimers(runtime: Runtime): Runtime {
  return {
    ...runtime,
    setTimer: (delayMs, callback, options) =>
      options.keepAlive
        ? runtime.setTimer(delayMs, callback, options)
        : { cancel: () => undefined },
  }
}

/** Says that nothing happened when nobody knows. */
function denyingDoubt(api: LeaseApi): LeaseApi {
  const denied = async <Answer>(call: () => Promise<Answer>): Promise<Answer> => {
    try {
      return await call()
    } catch (error) {
      if (!isLeaseError(error) || error.effect === 'none') throw error
      throw new LeaseError('STORE_UNAVAILABLE', 'the simulated answer was lost')
    }
  }
  return {
    ...sameApi(api),
    acquire: (request) => denied(() => api.acquire(request)),
    release: (request) => denied(() => api.release(request)),
    revoke: (request) => denied(() => api.revoke(request)),
  }
}
