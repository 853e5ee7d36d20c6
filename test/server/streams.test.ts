/** Live events over HTTP: in order, once each, and resumed where they ended. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openApi } from '../../src/open.ts'
import { revokeToken } from '../../src/server/token-file.ts'
import { FakeRuntime } from '../../src/testing/index.ts'
import { serving, type Serving } from './serving.ts'
import { openStream } from './stream-reader.ts'

const DAY_MS = 86_400_000

interface LeaseAnswer {
  readonly lease: { readonly id: string }
}
interface Page {
  readonly events: readonly { readonly position: string }[]
  readonly next?: string
}

async function acquire(server: Serving, resource: string, more: object = {}): Promise<string> {
  const body = { resource, holder: 'ann', ...more }
  const answer = await server.ask<LeaseAnswer>('POST /v1/leases', { body })
  expect(answer.status).toBe(201)
  return answer.body.lease.id
}

async function change(server: Serving, id: string, verb: string): Promise<void> {
  await server.ask(`POST /v1/leases/${id}/${verb}`, { body: { holder: 'ann' } })
}

/** Every position of the ledger, by pages. */
async function positions(server: Serving): Promise<readonly string[]> {
  const all: string[] = []
  for (let after: string | undefined; ;) {
    const { body } = await server.ask<Page>(
      `GET /v1/events?limit=100${after === undefined ? '' : `&after=${after}`}`,
    )
    all.push(...body.events.map(({ position }) => position))
    if (body.next === undefined) return all
    after = body.next
  }
}

describe('the stream of events', () => {
  it('shows each event with the lease as it was after it, also to who comes late', async () => {
    const server = await serving()
    const id = await acquire(server, 'work:W-1')
    await change(server, id, 'renew')
    await change(server, id, 'renew')
    await change(server, id, 'release')
    const stream = await openStream(server.url, '/v1/events?after=0')
    const seen = [
      await stream.next(),
      await stream.next(),
      await stream.next(),
      await stream.next(),
    ]
    expect(seen.map(({ type, data }) => [type, data.lease?.state, data.lease?.renewals])).toEqual([
      ['lease.issued', 'active', 0],
      ['lease.renewed', 'active', 1],
      ['lease.renewed', 'active', 2],
      ['lease.released', 'released', 2],
    ])
    const second = await acquire(server, 'work:W-2')
    expect((await stream.next()).data.event.leaseId).toBe(second)
    const late = await openStream(server.url, `/v1/events?after=${seen[1]?.id}`)
    expect((await late.next()).data.lease).toMatchObject({ renewals: 2, state: 'active' })
  })

  it('goes on after Last-Event-ID: nothing is lost and nothing comes twice', async () => {
    const server = await serving()
    const EVENTS = 120
    const writing = (async () => {
      for (let done = 0; done < EVENTS; done += 2) {
        await change(server, await acquire(server, `work:${done}`), 'release')
      }
    })()
    const seen: string[] = []
    let lastId = '0'
    for (let turn = 0; seen.length < EVENTS; turn += 1) {
      const stream = await openStream(server.url, '/v1/events', {
        headers: { 'Last-Event-ID': lastId },
      })
      for (let got = 0; got <= turn && seen.length < EVENTS; got += 1) {
        const { id = '' } = await stream.next()
        seen.push(id)
        lastId = id
      }
      stream.close()
    }
    await writing
    expect(seen).toEqual(await positions(server))
  })

  it('begins with what is new, and after a list with what is new since', async () => {
    const server = await serving()
    await acquire(server, 'work:old')
    const { body } = await server.ask<{ position: string }>('GET /v1/leases')
    const first = await acquire(server, 'work:first')
    const stream = await openStream(server.url, `/v1/events?after=${body.position}`)
    expect((await stream.next()).data.event.leaseId).toBe(first)
  })

  it('answers 410 to a position that is none of this store', async () => {
    const server = await serving()
    const answer = await server.ask<{ code: string }>('GET /v1/events', {
      headers: { Accept: 'text/event-stream', 'Last-Event-ID': '17.23.-.4' },
    })
    expect([answer.status, answer.body.code]).toEqual([410, 'INVALID_INPUT'])
  })

  it.each(['text/event-stream', 'application/json'])(
    'answers 410 to a position beyond the end, and says where that is (%s)',
    async (accept) => {
      const server = await serving()
      await acquire(server, 'work:1')
      const { body: list } = await server.ask<{ position: string }>('GET /v1/leases')
      const ask = (after: number) => {
        const headers = { Accept: accept }
        return server.ask<{ code: string; detail: string }>(`GET /v1/events?after=${after}`, {
          headers,
        })
      }
      const { status, body } = await ask(Number(list.position) + 1)
      expect([status, body.code]).toEqual([410, 'INVALID_INPUT'])
      expect(body.detail).toBe('after must be a position of this store, at most 1, got "2"')
    },
  )

  it('shows what was asked for only', async () => {
    const server = await serving()
    const place = '/v1/events?kinds=work,job&types=lease.issued&after=0'
    const stream = await openStream(server.url, place)
    for (const name of ['file:/a', 'work:1', 'other:2', 'job:3']) {
      await change(server, await acquire(server, name), 'release')
    }
    const seen = [await stream.next(), await stream.next()]
    expect(seen.map(({ type, data }) => [type, data.event.resource])).toEqual([
      ['lease.issued', 'work:1'],
      ['lease.issued', 'job:3'],
    ])
  })

  it('shows what the token may see only, and ends with the token', async () => {
    const server = await serving({ withTokens: true })
    const token = server.token({ name: 'ci', role: 'holder', as: ['*'], resources: ['work:'] })
    const writer = server.token({ name: 'writer', role: 'operator' })
    const stream = await openStream(server.url, '/v1/events?after=0', { token })
    for (const resource of ['file:/secret', 'work:1']) {
      await server.ask('POST /v1/leases', { token: writer, body: { resource, holder: 'ann' } })
    }
    expect((await stream.next()).data.event.resource).toBe('work:1')
    revokeToken(server.tokenFile, 'ci')
    await stream.ended
    expect(stream.comments.at(-1)).toBe(': the token is not valid')
  })

  it('says that the server stops', async () => {
    const server = await serving()
    const stream = await openStream(server.url, '/v1/events')
    await server.server.close()
    await stream.ended
    expect(stream.comments.at(-1)).toBe(': the server is stopping')
  })

  it('has a comment every 15 s, with the position up to which all was seen', async () => {
    const runtime = new FakeRuntime()
    const store = `memory:comments-${process.pid}`
    const server = await serving({
      runtime,
      open: (namespace) => openApi(store, { namespace, runtime }),
    })
    const stream = await openStream(server.url, '/v1/events?kinds=none&after=0')
    const id = await acquire(server, 'work:1')
    await runtime.advance(15_000)
    while (stream.comments.length === 0) await runtime.settle()
    const { body } = await server.ask<Page>(`GET /v1/events?id=${id}`)
    expect(stream.lastId).toBe(body.events[0]?.position)
  })

  it('cuts off a reader that does not read, and lets it go on where it was', async () => {
    const runtime = new FakeRuntime()
    const store = `memory:slow-${process.pid}`
    let isCut = false
    const server = await serving({
      runtime,
      open: (namespace) => openApi(store, { namespace, runtime }),
      onRequest: ({ method, path }) => (isCut ||= method === 'GET' && path === '/v1/events'),
    })
    const request = http.get(`${server.url}/v1/events?after=0`, {
      agent: false,
      headers: { Accept: 'text/event-stream' },
    })
    onTestFinished(() => void request.destroy())
    request.on('error', () => undefined)
    request.once('response', (response) => response.on('error', () => undefined))
    // The response is never read: buffers fill up, first the kernel's, then the server's.
    await once(request, 'response')
    const metadata = { text: 'x'.repeat(1_000) }
    let written = 0
    while (!isCut) {
      const calls = Array.from({ length: 500 }, () => {
        const resource = `work:${(written += 1)}`
        const asked = { resource, holder: 'ann', ttlMs: DAY_MS, waitMs: 0, metadata }
        return { call: 'acquire', request: { id: randomUUID(), session: 'ann', ...asked } }
      })
      await server.ask('POST /v1/batch', { body: { calls } })
      await runtime.advance(10_000)
    }
    const stream = await openStream(server.url, '/v1/events?after=0')
    for (let read = 1; read <= written; read += 1) {
      expect((await stream.next()).data.event.resource).toBe(`work:${read}`)
    }
  })
})

describe('the stream of wake-ups', () => {
  it('tells a session that its turn has come', async () => {
    const server = await serving()
    const held = await acquire(server, 'work:W-1')
    const session = 'bob’s secret'
    const stream = await openStream(server.url, '/v1/wakes', {
      headers: { 'Tenure-Session': encodeURIComponent(session) },
    })
    expect(await stream.next()).toMatchObject({ type: 'wake', data: { leaseIds: null } })
    const id = randomUUID()
    const request = { id, resource: 'work:W-1', holder: 'bob', session, waitMs: 60_000 }
    await server.ask('POST /v1/batch', { body: { calls: [{ call: 'acquire', request }] } })
    await change(server, held, 'release')
    let woken = await stream.next()
    while (woken.data.leaseIds === null) woken = await stream.next()
    expect(woken.data.leaseIds).toEqual([id])
    const { body } = await server.ask<{ answers: { answer: { kind: string } }[] }>(
      'POST /v1/batch',
      {
        body: {
          calls: [
            {
              call: 'claim',
              request: { id, resource: 'work:W-1', holder: 'bob', session, expects: 'offer' },
            },
          ],
        },
      },
    )
    expect(body.answers[0]?.answer.kind).toBe('granted')
  })

  it('is refused without a session', async () => {
    const server = await serving()
    const answer = await server.ask<{ detail: string }>('GET /v1/wakes')
    expect([answer.status, answer.body.detail]).toEqual([400, expect.stringContaining('session')])
  })
})
