/** What the server does where many wait: signs of life, and views that tell only what has changed. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Lease } from '../../../src/core/lease.ts'
import type { PostgresBackend } from '../../../src/store/postgres/postgres-backend.ts'
import { openPostgresBackend } from '../../../src/store/postgres/postgres-store.ts'
import type { Attempt, Kept, Reply, SeenClaim } from '../../../src/store/speculation/backend.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'
import { grantOf, leaseOf, releaseOf, renewalOf } from './hand-made.ts'
import { freshNamespace } from './postgres-stage.ts'

let database: Place
let backend: PostgresBackend
let nowUs: number
/** Ten who share a resource, as they were granted. */
let crowd: readonly Kept[]

beforeAll(async () => {
  database = await freshDatabase()
})

afterAll(() => database.remove())

beforeEach(async () => {
  nowUs = 1_700_000_000_000_000
  const namespace = freshNamespace()
  backend = await openPostgresBackend({ url: database.url, namespace, nowUs: () => nowUs })
  const granted: Kept[] = []
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

function seen(entries: readonly Kept[]): readonly SeenClaim[] {
  return entries.map((kept) => ({ id: kept.entry.id, claim: kept.claim, kept }))
}

function nth(n: number): Kept {
  const kept = crowd[n]
  if (kept === undefined) throw new Error(`nobody is number ${n}`)
  return kept
}

/** Prolongs an entry that was granted, having seen these. */
function signOfLife(own: Kept, others: readonly Kept[] = crowd): Attempt {
  const { attempt } = renewalOf(own, nowUs)
  const places = attempt.places.map((place) => {
    return { ...place, claims: seen(others), isSignOfLife: true }
  })
  return { ...attempt, places, events: [] }
}

function byId(entries: readonly Kept[]): readonly Kept[] {
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
