/** What the functions on the server do, below the store that decides before it asks. */
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Lease } from '../../../src/core/lease.ts'
import {
  type PostgresBackend,
  openPostgresBackend,
} from '../../../src/store/postgres/postgres-store.ts'
import type { Attempt, VersionedEntry, Reply } from '../../../src/store/optimistic/backend.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'
import { advanceOf, grantOf, leaseOf, releaseOf, renewalOf } from './hand-made.ts'
import { freshNamespace } from './postgres-stage.ts'

/** As in postgres-functions.ts. */
const APPENDER_LOCK_CLASS = 1_952_804_469
const START_US = 1_700_000_000_000_000

let place: Place
let nowUs: number
const opened: PostgresBackend[] = []

beforeAll(async () => {
  place = await freshDatabase()
})

afterAll(() => place.remove())

beforeEach(() => {
  nowUs = START_US
  return async () => {
    await Promise.all(opened.splice(0).map((backend) => backend.close()))
  }
})

async function open(namespace = freshNamespace()): Promise<PostgresBackend> {
  // Many calls at once wait for their turn on a slow machine.
  const patient = { connectMs: 60_000, callMs: 60_000 }
  const options = { url: place.url, namespace, nowUs: () => nowUs, ...patient }
  const backend = await openPostgresBackend(options)
  opened.push(backend)
  return backend
}

async function send(backend: PostgresBackend, ...attempts: Attempt[]): Promise<readonly Reply[]> {
  return (await backend.attempt({ settingsRevision: 1, attempts })).replies
}

function kept(lease: Lease, version = 1): VersionedEntry {
  return { entry: lease, version, claim: 1 }
}

/** Each of these touches one resource of its own, in a state that `prepare` has made. */
interface Case {
  readonly name: string
  readonly attempt: Attempt
}

/** Resources where a grant was made, and what may be tried next there and on others. */
async function prepare(backend: PostgresBackend): Promise<readonly Case[]> {
  const lease = (n: number): Lease => leaseOf(`work:case-${n}`, { nowUs })
  const leases = Array.from({ length: 9 }, (_, n) => ({ ...lease(n), id: idOf(n) }))
  for (const one of leases.slice(0, 7)) await send(backend, grantOf(one, nowUs))
  const [a, b, c, d, e, f, g, h, i] = leases as [Lease, ...Lease[]]
  const stranger = (taken: Lease | undefined, n: number): Lease => ({
    ...(taken ?? a),
    id: idOf(n),
  })
  const claimed = [{ id: idOf(2), claim: 1 }]
  return [
    { name: 'a renewal', attempt: renewalOf(kept(a), nowUs).attempt },
    { name: 'a renewal of another version', attempt: renewalOf(kept(b ?? a, 7), nowUs).attempt },
    { name: 'a release', attempt: releaseOf(kept(c ?? a), nowUs).attempt },
    { name: 'a grant of what is held', attempt: grantOf(stranger(d, 20), nowUs) },
    {
      name: 'a grant beside what is believed',
      attempt: grantOf(stranger(c, 21), nowUs, { claims: claimed }),
    },
    { name: 'a renewal from the future', attempt: renewalOf(kept(e ?? a), nowUs + 1).attempt },
    { name: 'a release too late', attempt: releaseOf(kept(f ?? a), nowUs - 2_000_000).attempt },
    {
      name: 'a request that is not known yet',
      attempt: requesting(renewalOf(kept(g ?? a), nowUs).attempt, { hasPrior: true }),
    },
    { name: 'a grant', attempt: grantOf(h ?? a, nowUs) },
    {
      name: 'a grant with a fence that is taken',
      attempt: grantOf({ ...(i ?? a), fence: 5 }, nowUs),
    },
  ]
}

function idOf(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
}

function requesting(attempt: Attempt, change: { readonly hasPrior: boolean }): Attempt {
  const places = attempt.places.map((one) => {
    return { ...one, ...change, readSet: { ...one.readSet, requestId: idOf(900) } }
  })
  return { ...attempt, places }
}

async function everything(backend: PostgresBackend): Promise<readonly unknown[]> {
  const { entries } = await backend.find({ limit: 100 })
  const byId = entries.toSorted((a, b) => a.id.localeCompare(b.id))
  const events = (await backend.history({ limit: 100 })).map(({ event }) => event)
  return [byId, events.toSorted((a, b) => a.leaseId.localeCompare(b.leaseId))]
}

describe('attempts of one call', () => {
  it('come to the same as each alone', async () => {
    const [together, alone] = [await open(), await open()]
    const cases = await prepare(together)
    await prepare(alone)
    const inGroup = await send(together, ...cases.map(({ attempt }) => attempt))
    const one: Reply[] = []
    for (const { attempt } of cases) one.push(...(await send(alone, attempt)))
    for (const [index, { name }] of cases.entries()) {
      expect([name, inGroup[index]]).toEqual([name, one[index]])
    }
    expect(inGroup.map(({ kind }) => kind === 'committed')).toEqual([
      ...[true, false, true, false, false, false, false, false, true, true],
    ])
    expect(await everything(together)).toEqual(await everything(alone))
  })

  it('carry names of any letters, together and alone', async () => {
    const names = [`o'"\\{},NULL`, '{"a":1}', '%s $1 ;--', '日本 👩‍💻', 'NULL', '\\"', ' ', 'ü']
    const leases = names.map((name, n) => {
      const lease = leaseOf(`work:${name}`, { nowUs })
      return { ...lease, id: idOf(n), holder: name, session: name, reason: name }
    })
    const metadata = { text: `\\"{}'`, 日本: '👩‍💻' }
    const [together, alone] = [await open(), await open()]
    const attempts = leases.map((lease) => grantOf({ ...lease, metadata }, nowUs))
    const replies = await send(together, ...attempts)
    expect(new Set(replies.map(({ kind }) => kind))).toEqual(new Set(['committed']))
    for (const attempt of attempts) await send(alone, attempt)
    const { entries } = await together.find({ limit: 100 })
    expect(entries).toEqual(leases.map((lease) => ({ ...lease, metadata })))
    expect(await everything(together)).toEqual(await everything(alone))
  })

  it('see what the ones before them wrote', async () => {
    const backend = await open()
    const lease = leaseOf('work:chain', { nowUs })
    const renewed = renewalOf(kept(lease), nowUs)
    const steps = [grantOf(lease, nowUs), renewed.attempt, releaseOf(renewed.after, nowUs).attempt]
    const replies = await send(backend, ...steps)
    expect(replies.map(({ kind }) => kind)).toEqual(['committed', 'committed', 'committed'])
    expect((await backend.history({ limit: 9 })).map(({ event }) => event.type)).toEqual([
      ...['lease.issued', 'lease.renewed', 'lease.released'],
    ])
  })

  it.each([1, 5])('miss a clock that is more than 5 s behind (%i in the call)', async (count) => {
    const backend = await open()
    const leases = Array.from({ length: count }, (_, n) => leaseOf(`work:clock-${n}`, { nowUs }))
    await send(backend, ...leases.map((lease) => grantOf(lease, nowUs)))
    nowUs -= 5_000_000
    const renewals = leases.map((lease) => renewalOf(kept(lease), nowUs).attempt)
    const [first] = await send(backend, ...renewals)
    expect(first?.kind).not.toBe('clock_behind')
    nowUs -= 1
    const later = leases.map((lease) => releaseOf(kept(lease), nowUs).attempt)
    for (const reply of await send(backend, ...later)) {
      expect(reply).toEqual({ kind: 'clock_behind', behindMs: 5_001 })
    }
  })

  it('that believe another configuration all miss, and are told the present one', async () => {
    const backend = await open()
    await backend.configure({ key: 'max_renewals', value: '3', scope: 'global', resourceId: null })
    const lease = leaseOf('work:configured', { nowUs })
    const reply = await backend.attempt({ settingsRevision: 1, attempts: [grantOf(lease, nowUs)] })
    expect(reply.replies.map(({ kind }) => kind)).toEqual(['missed'])
    expect(reply.settings).toEqual([
      { key: 'max_renewals', value: '3', scope: 'global', resourceId: null },
    ])
  })

  it('miss when their event would be earlier than that of an advance', async () => {
    const backend = await open()
    const lease = leaseOf('workflow:walls', { nowUs })
    await send(backend, grantOf(lease, nowUs))
    nowUs += 5_000
    const { attempt, after } = advanceOf(kept(lease), nowUs)
    await send(backend, attempt)
    const release = (atUs: number): Attempt => {
      const { attempt: released } = releaseOf(after, atUs)
      return { ...released, places: released.places.map((one) => ({ ...one, epoch: 1 })) }
    }
    const [early] = await send(backend, release(nowUs - 1_000))
    expect(early).toMatchObject({ kind: 'missed', views: [{ lastWallMs: nowUs / 1_000 }] })
    const [inTime] = await send(backend, release(nowUs))
    expect(inTime?.kind).toBe('committed')
  })

  it('miss when their event would be earlier than that of an offer that was taken up', async () => {
    const backend = await open()
    const first = leaseOf('work:W-1', { nowUs })
    await send(backend, grantOf(first, nowUs))
    // It depends on its own entry alone, as a request that was told of its offer does.
    nowUs += 5_000
    const second = leaseOf('work:W-1', { nowUs })
    const [taken] = await send(backend, grantOf(second, nowUs, { claims: null }))
    expect(taken).toMatchObject({ kind: 'committed' })
    const claims = [first, second].map(({ id }) => ({ id, claim: 1 }))
    const next = (atUs: number): Attempt => {
      return grantOf(leaseOf('work:W-1', { nowUs: atUs }), atUs, { claims })
    }
    const [early] = await send(backend, next(nowUs - 1_000))
    expect(early).toMatchObject({ kind: 'missed', views: [{ lastWallMs: nowUs / 1_000 }] })
    const [inTime] = await send(backend, next(nowUs))
    expect(inTime?.kind).toBe('committed')
  })

  it('move new fences above all that the realm has given', async () => {
    const backend = await open()
    const lease = leaseOf('work:fenced', { nowUs })
    await send(backend, grantOf(lease, nowUs))
    const own = [{ id: lease.id, claim: 1 }]
    const next = { ...leaseOf('work:fenced', { nowUs }), mode: 'shared' as const }
    const [reply] = await send(backend, grantOf(next, nowUs, { claims: own }))
    expect(reply).toEqual({ kind: 'committed', fencesMovedBy: 1 })
    const { entries } = await backend.find({ ids: [next.id], limit: 1 })
    expect(entries).toEqual([{ ...next, fence: lease.fence + 1 }])
  })
})

describe('a grant that misses', () => {
  it.each([1, 3])('uses up no fence (%i in the call)', async (count) => {
    const backend = await open()
    const names = Array.from({ length: count }, (_, n) => `work:missed-${n}`)
    const held = names.map((name) => leaseOf(name, { nowUs }))
    const fence = (held[0]?.fence ?? 0) + 1
    const later = names.map((name) => ({ ...leaseOf(name, { nowUs }), fence }))
    await send(backend, ...held.map((lease) => grantOf(lease, nowUs)))
    for (const reply of await send(backend, ...later.map((lease) => grantOf(lease, nowUs)))) {
      expect(reply).toMatchObject({ kind: 'missed', views: [{ lastFence: fence - 1 }] })
    }
    await send(backend, ...held.map((lease) => releaseOf(kept(lease), nowUs).attempt))
    for (const reply of await send(backend, ...later.map((lease) => grantOf(lease, nowUs)))) {
      expect(reply).toEqual({ kind: 'committed', fencesMovedBy: 0 })
    }
  })

  it.each([1, 3])('leaves a realm that is new to whoever comes next (%i)', async (count) => {
    const backend = await open()
    const leases = Array.from({ length: count }, (_, n) => leaseOf(`work:new-${n}`, { nowUs }))
    const early = leases.map((lease) => ({ ...grantOf(lease, nowUs), beforeUs: nowUs }))
    const missed = await send(backend, ...early)
    expect(missed.map(({ kind }) => kind)).toEqual(leases.map(() => 'missed'))
    for (const reply of await send(backend, ...leases.map((lease) => grantOf(lease, nowUs)))) {
      expect(reply).toEqual({ kind: 'committed', fencesMovedBy: 0 })
    }
  })

  it.each([1, 3])('because it is from the future takes no time there (%i)', async (count) => {
    const backend = await open()
    const laterUs = nowUs + 3_600_000_000
    const leases = Array.from({ length: count }, (_, n) => {
      return leaseOf(`work:future-${n}`, { nowUs: laterUs })
    })
    await send(backend, ...leases.map((lease) => grantOf(lease, laterUs)))
    for (const reply of await send(backend, ...leases.map((lease) => grantOf(lease, laterUs)))) {
      const { views } = reply as Extract<Reply, { kind: 'missed' }>
      expect(views[0]?.lastWallMs).toBeLessThanOrEqual(nowUs / 1_000 + 5_000)
    }
  })
})

describe('the ledger', () => {
  it('is read no further than a transaction that may still append below', async () => {
    const backend = await open()
    const slow = new pg.Client({ connectionString: place.url })
    await slow.connect()
    await slow.query('BEGIN')
    await slow.query('SELECT tenure.announce()')
    const { rows } = await slow.query<{ seq: string }>(`SELECT nextval('tenure.ledger_seq') AS seq`)
    const lease = leaseOf('work:late', { nowUs })
    await send(backend, grantOf(lease, nowUs))
    const end = await backend.end()
    expect(await backend.history({ limit: 9 })).toEqual([])
    expect(Number(end)).toBeLessThan(Number(rows[0]?.seq))
    await slow.query('COMMIT')
    await slow.end()
    const read = await backend.history({ after: end, limit: 9 })
    expect(read.map(({ event }) => event.leaseId)).toEqual([lease.id])
  })

  it('is complete up to an end that was told once, though a transaction announces itself below it later', async () => {
    const backend = await open()
    const slow = new pg.Client({ connectionString: place.url })
    await slow.connect()
    await slow.query('BEGIN')
    // As `tenure.announce`, between taking a number and locking it.
    const { rows } = await slow.query<{ seq: string }>(`SELECT nextval('tenure.ledger_seq') AS seq`)
    await send(backend, grantOf(leaseOf('work:told', { nowUs }), nowUs))
    const end = await backend.end()
    expect(Number(end)).toBeGreaterThan(Number(rows[0]?.seq))
    await slow.query(`SELECT pg_advisory_xact_lock_shared(${APPENDER_LOCK_CLASS}, ${rows[0]?.seq})`)
    expect(Number(await backend.end())).toBeGreaterThanOrEqual(Number(end))
    await slow.query('COMMIT')
    await slow.end()
  })
})

describe('locks', () => {
  it('of calls that name the same in any order never wait for each other in a cycle', async () => {
    const namespace = freshNamespace()
    const backends = [await open(namespace), await open(namespace), await open(namespace)]
    const leases = Array.from({ length: 12 }, (_, n) => leaseOf(`work:l-${n}`, { nowUs }))
    const [first] = backends
    if (first !== undefined) await send(first, ...leases.map((lease) => grantOf(lease, nowUs)))
    const calls = backends.flatMap((backend, number) => {
      return Array.from({ length: 40 }, async (_, round) => {
        const turned = leases.map((_lease, n) => leases[(n * 5 + number + round) % 12] as Lease)
        const renewals = turned.map((lease) => renewalOf(kept(lease), nowUs).attempt)
        const grants = turned.map((lease, n) => {
          return grantOf({ ...lease, id: idOf(1_000 * number + n) }, nowUs)
        })
        await send(backend, ...(round % 2 === 0 ? renewals : [...renewals, ...grants]))
      })
    })
    await Promise.all(calls)
    const client = new pg.Client({ connectionString: place.url })
    await client.connect()
    const { rows } = await client.query<{ deadlocks: string }>(
      'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()',
    )
    await client.end()
    expect(rows).toEqual([{ deadlocks: '0' }])
  })
})

describe('realms of names that nothing is left of', () => {
  /** A lease that came and went and left no history. */
  async function passBy(backend: PostgresBackend, name: string): Promise<Lease> {
    const lease = leaseOf(name, { nowUs })
    await send(backend, grantOf(lease, nowUs))
    const { attempt } = releaseOf(kept(lease), nowUs)
    const writes = attempt.writes.map((write) => ({ ...write, after: null }))
    const [reply] = await send(backend, { ...attempt, writes, events: [] })
    expect(reply?.kind).toBe('committed')
    return lease
  }

  async function realms(): Promise<readonly unknown[]> {
    const client = new pg.Client({ connectionString: place.url })
    await client.connect()
    const { rows } = await client.query<{ realm: string }>(
      `SELECT realm FROM tenure.realms WHERE realm LIKE 'idle%' ORDER BY realm`,
    )
    await client.end()
    return rows.map(({ realm }) => realm)
  }

  async function pruneAll(backend: PostgresBackend, batch: number): Promise<void> {
    const nowMs = nowUs / 1_000
    while ((await backend.prune({ endedBeforeMs: nowMs, nowMs, batch })).more);
  }

  /** A clock that jumps is not believed: time passes, and there are sweeps meanwhile. */
  async function pass(backend: PostgresBackend, us: number): Promise<void> {
    for (const endUs = nowUs + us; nowUs < endUs;) {
      await pruneAll(backend, 2)
      nowUs = Math.min(endUs, nowUs + DAY_US / 2)
    }
    await pruneAll(backend, 2)
  }

  const DAY_US = 86_400_000_000

  it('go in batches; what is used or of the last day stays, and fences go on growing', async () => {
    const backend = await open()
    const gone: Lease[] = []
    for (let n = 0; n < 5; n += 1) gone.push(await passBy(backend, `idle:a-${n}`))
    await send(backend, grantOf(leaseOf('idle:b-held', { nowUs }), nowUs))
    nowUs += 2_000
    await passBy(backend, 'idle:c-recent')
    await pass(backend, DAY_US - 1_000)
    expect(await realms()).toEqual(['idle:b-held', 'idle:c-recent'])
    const [first] = gone
    const again = { ...leaseOf('idle:a-0', { nowUs }), fence: 1 }
    const [reply] = await send(backend, grantOf(again, nowUs))
    expect(reply).toEqual({ kind: 'committed', fencesMovedBy: first?.fence })
  })

  it('stay while a fence is ahead of the clock, which would be given again', async () => {
    const backend = await open()
    const ahead = { ...leaseOf('idle:d-ahead', { nowUs }), fence: nowUs + 2 * DAY_US }
    await send(backend, grantOf(ahead, nowUs))
    const { attempt } = releaseOf(kept(ahead), nowUs)
    const writes = attempt.writes.map((write) => ({ ...write, after: null }))
    await send(backend, { ...attempt, writes, events: [] })
    await pass(backend, 2 * DAY_US)
    expect(await realms()).toContain('idle:d-ahead')
    await pass(backend, DAY_US + 1_000)
    expect(await realms()).not.toContain('idle:d-ahead')
  })
})
