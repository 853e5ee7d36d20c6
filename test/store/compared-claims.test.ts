/** What a server compares before it writes: the claims at a place, exactly; and what it leaves at every realm. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Lease } from '../../src/core/lease.ts'
import { openPostgresBackend } from '../../src/store/postgres/postgres-store.ts'
import { openRedisBackend } from '../../src/store/redis/redis-store.ts'
import type { Attempt, Backend, Reply, SeenClaim } from '../../src/store/optimistic/backend.ts'
import { freshDatabase, freshRedis, type Place } from '../servers/shared-servers.ts'
import { grantOf, leaseOf } from './postgres/hand-made.ts'

const NOW_US = 1_700_000_000_000_000
const nowUs = (): number => NOW_US
/** Fences are never below the time. */
const FENCE = NOW_US

interface Options {
  readonly url: string
  readonly namespace: string
  readonly nowUs: () => number
}

const SERVERS = [
  ['postgres', freshDatabase, (options: Options) => openPostgresBackend(options)],
  ['redis', freshRedis, (options: Options) => openRedisBackend(options)],
] as const

function idOf(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
}

function claimOf(n: number, claim = 1): SeenClaim {
  return { id: idOf(n), claim }
}

/** A wake-up is nothing that the plainest attempts have, so a server takes another way with it. */
const SHAPES = [
  ['alone', (attempt: Attempt) => attempt],
  [
    'with a wake-up',
    (attempt: Attempt) => ({ ...attempt, wakes: [{ session: 'ben', leaseId: idOf(1) }] }),
  ],
] as const

describe.each(SERVERS)('on %s', (_name, freshPlace, openBackend) => {
  let place: Place
  let backend: Backend
  let opened = 0

  beforeAll(async () => {
    place = await freshPlace()
  })

  afterAll(() => place.remove())

  beforeEach(async () => {
    opened += 1
    backend = await openBackend({ url: place.url, namespace: `test-${opened}`, nowUs })
    const there: SeenClaim[] = []
    for (const n of [1, 2, 3]) {
      const attempt = grantOf(lease(n, { fence: FENCE + n }), NOW_US, { claims: [...there] })
      expect(await send(attempt)).toMatchObject({ kind: 'committed', fencesMovedBy: 0 })
      there.push(claimOf(n))
    }
  })

  afterEach(() => backend.close())

  function lease(n: number, change: Partial<Lease> = {}, name = 'work:A'): Lease {
    const made = leaseOf(name, { nowUs: NOW_US })
    const deadline = { ...made.deadline, domain: backend.clockDomain }
    return { ...made, id: idOf(n), deadline, fence: FENCE + 1_000 + n, ...change }
  }

  async function send(attempt: Attempt): Promise<Reply | undefined> {
    const { settingsRevision } = await backend.attempt({ settingsRevision: -1, attempts: [] })
    return (await backend.attempt({ settingsRevision, attempts: [attempt] })).replies[0]
  }

  describe.each(SHAPES)('an attempt %s', (_shape, shaped) => {
    it.each([
      ['none', []],
      ['one too few', [claimOf(1), claimOf(2)]],
      ['one too many', [claimOf(1), claimOf(2), claimOf(3), claimOf(4)]],
      ['another id', [claimOf(1), claimOf(2), claimOf(4)]],
      ['another number at the end', [claimOf(1), claimOf(2), claimOf(3, 2)]],
      ['another number at the beginning', [claimOf(1, 2), claimOf(2), claimOf(3)]],
      ['one of them twice', [claimOf(1), claimOf(1), claimOf(3)]],
      ['two that have changed numbers', [claimOf(1, 3), claimOf(2), claimOf(3, 1)]],
    ])('misses that has seen %s', async (_claims, claims) => {
      const reply = await send(shaped(grantOf(lease(9), NOW_US, { claims })))
      expect(reply).toMatchObject({ kind: 'missed' })
      expect((await backend.find({ limit: 10 })).entries).toHaveLength(3)
    })

    it.each([
      ['in the order in which they came', [1, 2, 3]],
      ['in another order', [3, 1, 2]],
    ])('is carried out that has seen all of them %s', async (_order, numbers) => {
      const claims = numbers.map((n) => claimOf(n))
      const reply = await send(shaped(grantOf(lease(9), NOW_US, { claims })))
      expect(reply).toEqual({ kind: 'committed', fencesMovedBy: 0 })
      const seen = [1, 2, 3, 9].map((n) => claimOf(n))
      const next = await send(shaped(grantOf(lease(10), NOW_US, { claims: seen })))
      expect(next).toMatchObject({ kind: 'committed' })
    })

    it('has its fence moved past those that are taken', async () => {
      const claims = [1, 2, 3].map((n) => claimOf(n))
      const reply = await send(shaped(grantOf(lease(9, { fence: FENCE + 1 }), NOW_US, { claims })))
      expect(reply).toEqual({ kind: 'committed', fencesMovedBy: 3 })
      const { entries } = await backend.find({ ids: [idOf(9)], limit: 1 })
      expect(entries).toMatchObject([{ fence: FENCE + 4 }])
    })
  })

  it('two realms know the last fence of what was done in both in the same moment', async () => {
    await send(grantOf(lease(20, { fence: FENCE + 1 }, 'work:B'), NOW_US))
    const here = grantOf(lease(9, { fence: FENCE + 201 }), NOW_US, {
      claims: [1, 2, 3].map((n) => claimOf(n)),
    })
    const there = grantOf(lease(21, { fence: FENCE + 200 }, 'work:B'), NOW_US, {
      claims: [claimOf(20)],
    })
    const both: Attempt = {
      ...here,
      places: [...here.places, ...there.places],
      writes: [...here.writes, ...there.writes],
      events: [...here.events, ...there.events],
      fences: { first: FENCE + 200, last: FENCE + 201 },
    }
    expect(await send(both)).toEqual({ kind: 'committed', fencesMovedBy: 0 })
    for (const name of ['work:A', 'work:B']) {
      const reply = await send(grantOf(lease(30, {}, name), NOW_US, { claims: [claimOf(40)] }))
      expect(reply).toMatchObject({ kind: 'missed', views: [{ lastFence: FENCE + 201 }] })
    }
  })
})
