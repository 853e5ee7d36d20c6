/**
 * Defects of a server that compares and writes, planted around the reference server: it is asked what is there, and then
 * given an attempt that believes just that where a defective server would not have compared. Nothing happens in between,
 * because a simulated world goes on only when all that one message set in motion has come to rest.
 */
import { isLive, type LeaseId } from '../../src/core/lease.ts'
import { overlap } from '../../src/core/resource.ts'
import type {
  Attempt,
  Backend,
  Group,
  GroupReply,
  VersionedEntry,
  Place,
  PlaceView,
  SeenClaim,
} from '../../src/store/optimistic/backend.ts'
import type { Defect } from '../../sim/simulation.ts'
import type { KnownDefect } from './planting.ts'

export const SERVER_DEFECTS: readonly KnownDefect[] = [
  {
    name: 'a claim is not compared',
    promise: 'I1',
    says: /was granted to .* while the ledger shows it held by/,
    store: 'optimistic',
    defect: notComparing((attempt, views) => withPlaces(attempt, views, seeingAll)),
  },
  {
    name: 'a fence is not moved past what was given meanwhile',
    promise: 'I2',
    says: /does not exceed|was given to/,
    store: 'optimistic',
    defect: notComparing((attempt) => {
      if (attempt.fences === null) return attempt
      return { ...attempt, fences: { ...attempt.fences, first: Number.MAX_SAFE_INTEGER } }
    }),
  },
  {
    name: 'a renewal is committed however late',
    promise: 'I4',
    says: /counted on .*, the store on/,
    store: 'optimistic',
    defect: notComparing(asLongAsItLives),
  },
  {
    name: 'a keep-alive does not look at what its holder was given',
    promise: 'I5',
    says: /was told at .* to wait for .*, which .* had been given/,
    store: 'optimistic',
    defect: notComparing((attempt, views) => {
      return withPlaces(attempt, views, (place, view) => {
        return place.isKeepAlive === true ? seeingAll(place, view) : place
      })
    }),
  },
  {
    name: 'a refusal is believed without comparing what it is based on',
    promise: 'I5',
    says: /although nothing live stood in its way/,
    store: 'optimistic',
    defect: notComparing((attempt, views) => {
      const isRefusal = attempt.writes.length === 0
      return isRefusal ? withPlaces(attempt, views, seeingAll) : attempt
    }),
  },
  {
    name: 'the revision of the settings is not compared',
    promise: 'I5',
    says: /has a TTL of .*; configured were/,
    store: 'optimistic',
    defect: { server: ignoringSettings },
  },
  {
    name: 'an id that is known is granted again',
    promise: 'I6',
    says: /lease\.issued .* it was issued before/,
    store: 'optimistic',
    defect: notComparing((attempt, views) => {
      const isGrant = attempt.events.some(({ type }) => type === 'lease.issued')
      return isGrant ? takenForKnown(attempt, views) : attempt
    }),
  },
]

type Correct = (attempt: Attempt, views: readonly PlaceView[]) => Attempt

function notComparing(correct: Correct): Defect {
  return {
    server: (backend) => {
      return withAttempt(backend, async (attempt, group) => {
        const replies: GroupReply[] = []
        for (const one of group.attempts) {
          const views = await viewsOf(attempt, one)
          const corrected = views === null ? one : correct(one, views)
          replies.push(await attempt({ ...group, attempts: [corrected] }))
        }
        const last = replies.at(-1) ?? (await attempt(group))
        return { ...last, replies: replies.flatMap((reply) => reply.replies) }
      })
    },
  }
}

/** What is at the places of an attempt, which the server tells when it refuses one that comes from its future. */
async function viewsOf(
  attempt: Backend['attempt'],
  one: Attempt,
): Promise<readonly PlaceView[] | null> {
  const { settingsRevision } = await attempt({ settingsRevision: -1, attempts: [] })
  const refused = { ...one, fromUs: Infinity }
  const { replies } = await attempt({ settingsRevision, attempts: [refused] })
  return replies[0]?.kind === 'missed' ? replies[0].views : null
}

/** Processes are told of no change, and what they decided is taken for decided with the settings that there are. */
function ignoringSettings(backend: Backend): Backend {
  return withAttempt(backend, async (attempt, group) => {
    const { settingsRevision } = group
    if (group.attempts.length === 0) return attempt(group)
    const present = await attempt({ settingsRevision, attempts: [] })
    const reply = await attempt({ ...group, settingsRevision: present.settingsRevision })
    return { ...reply, settingsRevision, settings: null }
  })
}

type AttemptBy = (attempt: Backend['attempt'], group: Group) => Promise<GroupReply>

function withAttempt(backend: Backend, by: AttemptBy): Backend {
  return {
    description: backend.description,
    clockDomain: backend.clockDomain,
    isQuick: backend.isQuick,
    attempt: (group) => by((one) => backend.attempt(one), group),
    find: (query) => backend.find(query),
    history: (query) => backend.history(query),
    end: () => backend.end(),
    countRefusals: (refusals) => backend.countRefusals(refusals),
    refusals: (query) => backend.refusals(query),
    settings: () => backend.settings(),
    configure: (change) => backend.configure(change),
    prune: (policy) => backend.prune(policy),
    subscribe: (session, listener) => backend.subscribe(session, listener),
    follow: (listener) => backend.follow(listener),
    close: () => backend.close(),
  }
}

type CorrectPlace = (place: Place, view: PlaceView) => Place

function withPlaces(attempt: Attempt, views: readonly PlaceView[], correct: CorrectPlace): Attempt {
  const places = attempt.places.map((place, index) => {
    const view = views[index]
    return view === undefined ? place : correct(place, view)
  })
  return { ...attempt, places }
}

/** As if all claims had been seen that are there. */
function seeingAll(place: Place, view: PlaceView): Place {
  if (place.claims === null) return place
  const { readSet } = place
  const there = view.entries.filter(({ entry }) => isLive(entry) && overlap(entry, readSet))
  return { ...place, claims: there.map(claimOf) }
}

/** As if a renewal could come at any time before the end of its lease, whatever the time that it was decided at. */
function asLongAsItLives(attempt: Attempt): Attempt {
  const [renewed, ...others] = attempt.writes
  const isRenewal = attempt.events.every(({ type }) => type === 'lease.renewed')
  if (renewed?.before?.entry.kind !== 'lease' || others.length > 0 || !isRenewal) return attempt
  return { ...attempt, beforeUs: renewed.before.entry.deadline.us }
}

function claimOf(record: VersionedEntry): SeenClaim {
  return { id: record.entry.id, claim: record.claim, record }
}

/** As if what the store knows of the request's own id had been known, and did not matter. */
function takenForKnown(attempt: Attempt, views: readonly PlaceView[]): Attempt {
  const known = new Map<LeaseId, VersionedEntry>()
  const corrected = withPlaces(attempt, views, (place, view) => {
    const { leaseId } = place.readSet
    const own = view.entries.find(({ entry }) => entry.id === leaseId)
    const others = place.claims?.filter(({ id }) => id !== leaseId) ?? []
    const isThere = own !== undefined && isLive(own.entry)
    if (own !== undefined) known.set(leaseId, own)
    return {
      ...place,
      own: own?.version ?? 0,
      hasPrior: view.prior !== null,
      claims: isThere ? [...others, claimOf(own)] : others,
    }
  })
  const writes = attempt.writes.map((write) => {
    return { ...write, before: known.get(write.id) ?? write.before }
  })
  return { ...corrected, writes }
}
