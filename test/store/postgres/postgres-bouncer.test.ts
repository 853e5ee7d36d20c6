/** Behind PgBouncer in transaction mode, where no connection is kept from one statement to the next. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTenure, type Tenure } from '../../../src/index.ts'
import { startBouncer } from '../../servers/bouncer-server.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'
import type { TestServer } from '../../servers/test-server.ts'

let place: Place
let bouncer: TestServer
const clients: Tenure[] = []

beforeAll(async () => {
  place = await freshDatabase()
  bouncer = await startBouncer(place.url)
})

afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()))
  await bouncer.close()
  await place.remove()
})

async function open(holder: string): Promise<Tenure> {
  // A pool of its own for each, as if they were several processes.
  const url = `${bouncer.url}?prepare=false&callMs=${20_000 + clients.length}`
  const client = await openTenure(url, { holder, claimWindowMs: 300 })
  clients.push(client)
  return client
}

it('many acquire, renew and release through few connections, and nobody gets what another has', async () => {
  const workers = await Promise.all(['ann', 'bob', 'cat'].map(open))
  const holding = new Set<string>()
  let turns = 0
  const take = (tenure: Tenure, resource: string): Promise<void> => {
    return tenure.withLease(resource, { ttlMs: 60_000, waitMs: 30_000 }, async (lease) => {
      expect(holding.has(resource)).toBe(false)
      holding.add(resource)
      await lease.renew({ ttlMs: 120_000 })
      holding.delete(resource)
      turns += 1
    })
  }
  const work = async (tenure: Tenure): Promise<void> => {
    for (let round = 0; round < 5; round += 1) {
      const own = [0, 1, 2].map((n) => take(tenure, `work:${tenure.holder}-${n}`))
      await Promise.all([take(tenure, 'work:door'), ...own])
    }
  }
  await Promise.all(workers.map(work))
  expect(turns).toBe(60)
}, 60_000)

it('a waiter hears of its turn and a watcher of events without notifications', async () => {
  const [ann, bob] = [await open('ann'), await open('bob')]
  const held = await ann.acquire('work:door', { ttlMs: 60_000 })
  const [last] = await bob.history({ newestFirst: true, limit: 1 })
  const from = { after: last?.position ?? '0' }
  const seen = (async () => {
    const wanted = { resource: 'work:door', types: ['lease.issued'] } as const
    for await (const { event } of bob.watch({ ...from, ...wanted })) {
      if (event.holder === 'bob') return event.type
    }
    return null
  })()
  const next = bob.acquire('work:door', { ttlMs: 60_000, waitMs: 20_000 })
  await held.release()
  await (await next).release()
  expect(await seen).toBe('lease.issued')
}, 60_000)

it('in session mode it needs prepare=false as well, and is told why', async () => {
  await using sessions = await startBouncer(place.url, 'session')
  const opening = openTenure(sessions.url, { holder: 'ann' })
  await expect(opening).rejects.toThrow('unsupported startup parameter: statement_timeout')
  await using ann = await openTenure(`${sessions.url}?prepare=false`, { holder: 'ann' })
  await using bob = await openTenure(`${sessions.url}?prepare=false&callMs=9000`, { holder: 'bob' })
  const held = await ann.acquire('work:session', { ttlMs: 60_000 })
  const next = bob.acquire('work:session', { ttlMs: 60_000, waitMs: 20_000 })
  await held.release()
  expect((await next).state).toBe('held')
}, 60_000)

it('configuration and lists are those of all', async () => {
  const [ann, bob] = [await open('ann'), await open('bob')]
  await ann.config.set('max_renewals', '3')
  await ann.acquire('work:listed', { ttlMs: 60_000 })
  expect(await bob.list({ resource: 'work:listed' })).toMatchObject([{ maxRenewals: 3 }])
}, 60_000)
