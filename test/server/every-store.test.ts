/** Two servers before one store, on every store: nobody need stay with one of them. */
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { EVERY_STORE, freshStoreOf } from '../servers/every-store.ts'
import { serving, type Serving } from './serving.ts'
import { openStream, type Reader } from './stream-reader.ts'

interface LeaseAnswer {
  readonly lease: { readonly id: string; readonly fence: number; readonly holder: string }
}

async function acquire(server: Serving, body: object): Promise<LeaseAnswer['lease']> {
  const answer = await server.ask<LeaseAnswer>('POST /v1/leases', { body })
  expect(answer.status).toBe(201)
  return answer.body.lease
}

async function untilSeen(stream: Reader, type: string): Promise<void> {
  while ((await stream.next()).type !== type);
}

describe.each(EVERY_STORE)('two servers on %s', (kind) => {
  it('serve one queue: a wait at one ends with a release at the other', async () => {
    const store = await freshStoreOf(kind)
    const [one, other] = [await serving({ store }), await serving({ store })]
    const held = await acquire(one, { resource: 'work:1', holder: 'ann' })
    const stream = await openStream(one.url, '/v1/events')
    const waiting = acquire(other, { resource: 'work:1', holder: 'bob', waitMs: 60_000 })
    await untilSeen(stream, 'lease.queued')
    await one.ask(`POST /v1/leases/${held.id}/release`, { body: { holder: 'ann' } })
    const granted = await waiting
    expect(granted.holder).toBe('bob')
    expect(granted.fence).toBeGreaterThan(held.fence)
  })

  it('keep a lease whose client goes from one to the other', async () => {
    const store = await freshStoreOf(kind)
    const [one, other] = [await serving({ store }), await serving({ store })]
    const wanted = { id: randomUUID(), resource: 'work:1', holder: 'ann' }
    const first = await acquire(one, wanted)
    await other.ask('GET /v1/leases')
    await one.server.close()
    expect(await acquire(other, wanted)).toMatchObject({ id: wanted.id, fence: first.fence })
    const renewed = await other.ask(`POST /v1/leases/${wanted.id}/renew`, {
      body: { holder: 'ann' },
    })
    expect(renewed.status).toBe(200)
  })

  it('stream one ledger: a reader goes on at the other where it was', async () => {
    const store = await freshStoreOf(kind)
    const [one, other] = [await serving({ store }), await serving({ store })]
    const { body: list } = await one.ask<{ position: string }>('GET /v1/leases')
    const leases = []
    for (let count = 0; count < 20; count += 1) {
      leases.push(await acquire(one, { resource: `work:${count}`, holder: 'ann' }))
    }
    const seen: string[] = []
    const first = await openStream(one.url, `/v1/events?after=${encodeURIComponent(list.position)}`)
    let lastId = ''
    for (let count = 0; count < 7; count += 1) {
      const { id = '', data } = await first.next()
      seen.push(data.event.leaseId)
      lastId = id
    }
    first.close()
    const second = await openStream(other.url, '/v1/events', {
      headers: { 'Last-Event-ID': lastId },
    })
    while (seen.length < leases.length) seen.push((await second.next()).data.event.leaseId)
    expect(seen.toSorted()).toEqual(leases.map(({ id }) => id).toSorted())
  })
})
