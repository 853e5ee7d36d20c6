/** What the server does where many wait: steps alone, signs of life, and views that tell only what has changed. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Lease } from '../../../src/core/lease.ts'
import {
  type PostgresBackend,
  openPostgresBackend,
} from '../../../src/store/postgres/postgres-store.ts'
import type {
  Attempt,
  VersionedEntry,
  Place as AttemptPlace,
  Reply,
  SeenClaim,
} from '../../../src/store/optimistic/backend.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'
import { grantOf, leaseOf, releaseOf, renewalOf } from './hand-made.ts'
import { freshNamespace } from './postgres-stage.ts'

let database: Place
let backend: PostgresBackend
let nowUs: number
let namespace: string
/** Ten who share a resource, as they were granted. */
let crowd: readonly VersionedEntry[]

beforeAll(async () => {
  database = await freshDatabase()
})

afterAll(() => database.remove())

beforeEach(async () => {
  nowUs = 1_700_000_000_000_000
  namespace = freshNamespace()
  backend = await openPostgresBackend({ url: database.url, namespace, nowUs: () => nowUs })
  const granted: VersionedEntry[] = []
  for (let n = 0; n < 10; n += 1) {
    const lease = { ...leaseOf('work:crowd', { nowUs }), holder: `h-${n}`, fence: nowUs + n }
    expect(await send(grantOf(lease, nowUs, { claims: seen(granted) }))).toEqual(COMMITTED)
    granted.push({ entry: lease, version: 1, claim: 1 })
  }
  crowd = granted
  return () => backend.close()
})

const COMMITTED = { kind: 'committed', fencesMovedBy: 0 }

async function send(attempt: Attempt): Promise<Reply | undefined> {
  return (await backend.attempt({ settingsRevision: 1, attempts: [attempt] })).replies[0]
}

function seen(entries: readonly VersionedEntry[]): readonly SeenClaim[] {
  return entries.map((record) => ({ id: record.entry.id, claim: record.claim, record }))
}

function nth(n: number): VersionedEntry {
  const kept = crowd[n]
  if (kept === undefined) throw new Error(`nobody is number ${n}`)
  return kept
}

/** Prolongs an entry that was granted, having seen these. */
function signOfLife(own: VersionedEntry, others: readonly VersionedEntry[] = crowd): Attempt {
  const { attempt } = renewalOf(own, nowUs)
  const places = attempt.places.map((place) => {
    return { ...place, claims: seen(others), isKeepAlive: true }
  })
  return { ...attempt, places, events: [] }
}

function asKept(entry: VersionedEntry['entry']): VersionedEntry {
  return { entry, version: 1, claim: 1 }
}

function byId(entries: readonly VersionedEntry[]): readonly VersionedEntry[] {
  return entries.toSorted((a, b) => (a.entry.id < b.entry.id ? -1 : 1))
}

describe('a miss among many', () => {
  it('is answered with all that is there: what changed, what came, and what was left out', async () => {
    const renewed = renewalOf(nth(3), nowUs)
    expect(await send(renewed.attempt)).toEqual(COMMITTED)
    const gone = releaseOf(nth(5), nowUs).attempt
    const places = gone.places.map((one) => ({ ...one, claims: seen(crowd) }))
    expect(await send({ ...gone, places })).toEqual(COMMITTED)
    const stranger = { ...leaseOf('work:crowd', { nowUs }), fence: nowUs + 100 }
    const reply = await send(grantOf(stranger, nowUs, { claims: seen(crowd) }))
    if (reply?.kind !== 'missed') throw new Error('it should have missed')
    const left = crowd.filter(({ entry }) => entry.id !== nth(5).entry.id)
    const expected = left.map((one) => (one === nth(3) ? renewed.after : one))
    expect(byId(reply.views[0]?.entries ?? [])).toEqual(byId(expected))
    const blind = await send(grantOf(stranger, nowUs))
    expect(blind).toEqual({ kind: 'missed', views: [expect.anything()] })
  })
})

/** Ends one of the crowd and prolongs another in the same commit, as whoever hands over does, having seen all. */
function handOver(change: { readonly place?: Partial<AttemptPlace> } & Partial<Attempt>): Attempt {
  const { place: placeChange, ...others } = change
  const [ended, prolonged] = [releaseOf(nth(1), nowUs).attempt, renewalOf(nth(2), nowUs).attempt]
  const places = ended.places.map((one) => ({ ...one, claims: seen(crowd), ...placeChange }))
  const writes = [...ended.writes, ...prolonged.writes]
  return { ...ended, places, writes, events: [...ended.events, ...prolonged.events], ...others }
}

/** Writes nothing, and makes of a call one that has several attempts. */
function look(): Attempt {
  const { places, ...attempt } = grantOf(leaseOf('work:elsewhere', { nowUs }), nowUs)
  return { ...attempt, places, writes: [], events: [], fences: null }
}

async function sendBeside(attempt: Attempt): Promise<Reply | undefined> {
  const group = { settingsRevision: 1, attempts: [attempt, look()] }
  return (await backend.attempt(group)).replies[0]
}

describe('a step among many', () => {
  it.each<[string, () => Attempt | Promise<Attempt>]>([
    ['one too few is seen', () => handOver({ place: { claims: seen(crowd.slice(1)) } })],
    ['one too many is seen', () => handOver({ place: { claims: seen([...crowd, other()]) } })],
    ['another is seen', () => handOver({ place: { claims: seen([...rest(), other()]) } })],
    ['another claim is seen', () => handOver({ place: { claims: seen([changed(), ...rest()]) } })],
    ['its own version is another', () => handOver({ place: { own: 7 } })],
    ['it is from the future', () => handOver({ fromUs: nowUs + 1 })],
    ['it is too late', () => handOver({ beforeUs: nowUs })],
    ['its events would be earlier than others', () => handOver({ wallMs: 1 })],
    ['its events would be earlier than a renewal', renewedLater],
    ['an entry that it writes has moved', renewedSince],
    ['its request is not known', () => handOver({ place: { hasPrior: true, ...requesting() } })],
  ])('misses when %s, alone as beside another', async (_when, prepare) => {
    const attempt = await prepare()
    const alone = await send(attempt)
    expect(alone?.kind).toBe('missed')
    expect(await sendBeside(attempt)).toEqual(alone)
  })

  it('writes all of its entries and events, and moves its fences up', async () => {
    const given = nowUs + 3
    const [released, prolonged] = handOver({}).writes
    if (released === undefined || prolonged?.after?.entry.kind !== 'lease') throw new Error('none')
    const entry = { ...prolonged.after.entry, fence: given }
    const writes = [released, { ...prolonged, after: { ...prolonged.after, entry } }]
    const reply = await send(handOver({ writes, fences: { first: given, last: given } }))
    expect(reply).toEqual({ kind: 'committed', fencesMovedBy: 7 })
    const { entries } = await backend.find({ limit: 20, ids: [released.id, prolonged.id] })
    expect(byId(entries.map(asKept))).toEqual(
      byId([asKept(released.after?.entry ?? entry), asKept({ ...entry, fence: given + 7 })]),
    )
    const told = (await backend.history({ limit: 50 })).slice(-2).map(({ event }) => event.type)
    expect(told).toEqual(['lease.released', 'lease.renewed'])
    const later = { ...leaseOf('work:crowd', { nowUs }), fence: 1 }
    const left = crowd.flatMap((one) => (one === nth(1) ? [] : [one]))
    expect(await send(grantOf(later, nowUs, { claims: seen(left) }))).toEqual({
      ...{ kind: 'committed', fencesMovedBy: given + 7 },
    })
  })

  it('wakes whom it names', async () => {
    const heard: unknown[] = []
    const listener = await openPostgresBackend({ url: database.url, namespace })
    try {
      const woken = new Promise<void>((resolve) => {
        void listener
          .subscribe('s-1', (signal) => {
            heard.push(signal)
            resolve()
          })
          .then(() => send(handOver({ wakes: [{ session: 's-1', leaseId: nth(2).entry.id }] })))
      })
      await woken
      expect(heard).toEqual([{ leaseIds: [nth(2).entry.id] }])
    } finally {
      await listener.close()
    }
  })

  function other(): VersionedEntry {
    return asKept(leaseOf('work:crowd', { nowUs }))
  }

  function changed(): VersionedEntry {
    return { ...nth(0), claim: 2 }
  }

  function rest(): readonly VersionedEntry[] {
    return crowd.slice(1)
  }

  function requesting(): Partial<AttemptPlace> {
    const [place] = releaseOf(nth(1), nowUs).attempt.places
    if (place === undefined) throw new Error('a release has a place')
    return { readSet: { ...place.readSet, requestId: nth(9).entry.id } }
  }

  /** Renewals leave the realm alone, so that its own time does not tell. */
  async function renewedLater(): Promise<Attempt> {
    const wallMs = Math.floor(nowUs / 1000)
    nowUs += 50_000
    expect(await send(renewalOf(nth(8), nowUs).attempt)).toEqual(COMMITTED)
    return handOver({ wallMs })
  }

  async function renewedSince(): Promise<Attempt> {
    const attempt = handOver({})
    expect(await send(renewalOf(nth(2), nowUs).attempt)).toEqual(COMMITTED)
    return attempt
  }
})

describe('a sign of life', () => {
  it('stands whatever strangers do', async () => {
    const left = releaseOf(nth(5), nowUs).attempt
    const places = left.places.map((one) => ({ ...one, claims: seen(crowd) }))
    await send({ ...left, places })
    expect(await send(signOfLife(nth(2)))).toEqual(COMMITTED)
  })

  it.each([
    ['the time of another has run out', () => void (nowUs += 31_000_000)],
    ['it was heard of since', async () => void (await send(signOfLife(nth(2))))],
    ['its holder was given something', () => giveTo('h-2')],
  ])('misses when %s', async (_what, happen) => {
    const attempt = signOfLife(nth(2))
    await happen()
    const from = { fromUs: nowUs, beforeUs: nowUs + 1_000_000 }
    const reply = await send({ ...attempt, ...from })
    expect(reply).toMatchObject({ kind: 'missed', views: [{ prior: null }] })
  })

  async function giveTo(holder: string): Promise<void> {
    const gift: Lease = { ...leaseOf('work:crowd', { nowUs }), holder, fence: nowUs + 50 }
    expect(await send(grantOf(gift, nowUs, { claims: seen(crowd) }))).toEqual(COMMITTED)
  }
})
