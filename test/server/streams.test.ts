/** Live events over HTTP: in order, once each, and resumed where they ended. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openApi, openTenure } from '../../src/open.ts'
import type { LeaseApi, LedgerEntry } from '../../src/service/lease-api.ts'
import { revokeToken } from '../../src/server/token-file.ts'
import { FakeRuntime } from '../../src/testing/index.ts'
import { serving, type Serving, type ServingOptions } from './serving.ts'
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

  describe('once the events behind a position were pruned', () => {
    /** `work:kept` is held, and the lease before and the one after it have gone with their histories. */
    async function pruned(): Promise<Serving> {
      const runtime = new FakeRuntime()
      const store = `memory:pruned-${randomUUID()}`
      const open = (): ReturnType<typeof openApi> => openApi(store, { runtime })
      const api = await open()
      onTestFinished(() => api.close())
      const key = 'history_retention_days'
      await api.configure({ key, value: '1', scope: 'global', resourceId: null })
      const server = await serving({ open, runtime })
      await acquire(server, 'work:first', { ttlMs: 1 })
      await acquire(server, 'work:kept', { ttlMs: 30 * DAY_MS })
      await acquire(server, 'work:last', { ttlMs: 1 })
      let leases = 0
      for (let day = 0; day < 4; day += 1) {
        runtime.stall(DAY_MS)
        leases += (await api.cleanup()).prunedLeases
      }
      expect(leases).toBe(2)
      return server
    }

    interface Gone {
      readonly status: number
      readonly code: string
      readonly details: { readonly prunedUpTo: string }
    }

    it.each(['text/event-stream', 'application/json'])(
      'answers 410, and says after which it misses nothing (%s)',
      async (accept) => {
        const server = await pruned()
        const headers = { Accept: accept }
        const { body } = await server.ask<Gone>('GET /v1/events?after=0', { headers })
        expect(body).toMatchObject({ status: 410, code: 'INVALID_INPUT' })
        const id = await acquire(server, 'work:next')
        const stream = await openStream(server.url, `/v1/events?after=${body.details.prunedUpTo}`)
        expect((await stream.next()).data.event.leaseId).toBe(id)
      },
    )

    it('gives a reader that begins anew what is kept, by pages, and then what is new', async () => {
      const server = await pruned()
      await acquire(server, 'work:next')
      const seen: string[] = []
      const read = async (after: string): Promise<string> => {
        const { body, status } = await server.ask<{ events: LedgerEntry[]; next?: string }>(
          `GET /v1/events?limit=1${after === '' ? '' : `&after=${after}`}`,
        )
        expect(status).toBe(200)
        seen.push(...body.events.map(({ event }) => event.resource))
        return body.next === undefined ? after : read(body.next)
      }
      const end = await read('')
      expect(seen).toEqual(['work:kept', 'work:next'])
      await acquire(server, 'work:new')
      await read(end)
      expect(seen).toEqual(['work:kept', 'work:next', 'work:new'])
    })

    it('tells a watch of the library as well', async () => {
      const { url } = await pruned()
      await using tenure = await openTenure(url, { holder: 'bob' })
      const watch = async (after: string): Promise<string> => {
        for await (const { event } of tenure.watch({ after })) return event.resource
        return 'the watch ended'
      }
      const error: unknown = await watch('0').catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ code: 'INVALID_INPUT', details: { field: 'after' } })
      expect(String(error)).toMatch(/nothing was pruned: list what is live, then go on after \d+/)
    })
  })

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

  it('is none of a reader that has gone before it began', async () => {
    let isAsked = (): void => undefined
    let answer = (): void => undefined
    const asked = new Promise<void>((resolve) => (isAsked = resolve))
    const answered = new Promise<void>((resolve) => (answer = resolve))
    let isGone = (): void => undefined
    const gone = new Promise<void>((resolve) => (isGone = resolve))
    const slow = (api: LeaseApi): LeaseApi['history'] => {
      return async (filter) => {
        isAsked()
        await answered
        return api.history(filter)
      }
    }
    const server = await serving({
      withTokens: true,
      streamsPerToken: 1,
      open: async (namespace) => {
        const api = await openApi(`memory:gone-${process.pid}`, { namespace })
        return changed(api, { history: slow(api) })
      },
      onRequest: ({ status }) => status === 499 && isGone(),
    })
    const token = server.token({ name: 'ann', role: 'holder' })
    const body = { resource: 'work:1', holder: 'ann' }
    await server.ask('POST /v1/leases', { token, body })
    const headers = { Accept: 'text/event-stream', Authorization: `Bearer ${token}` }
    const request = http.get(`${server.url}/v1/events?after=0`, { agent: false, headers })
    request.on('error', () => undefined)
    await asked
    request.destroy()
    await gone
    answer()
    const next = await openStream(server.url, '/v1/events?after=0', { token })
    expect(next.status).toBe(200)
    expect((await next.next()).data.event.resource).toBe('work:1')
  })

  /** Whose store reads no history before it is let. */
  async function servingLate(options: ServingOptions): Promise<{
    readonly server: Serving
    readonly asked: () => number
    readonly answer: () => void
  }> {
    let answer = (): void => undefined
    const allowed = new Promise<void>((resolve) => (answer = resolve))
    let asked = 0
    const name = `memory:late-${process.pid}-${Math.random()}`
    const server = await serving({
      ...options,
      open: async (namespace) => {
        const api = await openApi(name, { namespace })
        const history: LeaseApi['history'] = async (filter) => {
          asked += 1
          await allowed
          return api.history(filter)
        }
        return changed(api, { history })
      },
    })
    return { server, asked: () => asked, answer: () => answer() }
  }

  it('are no more of a token than it may have, also where several begin at once', async () => {
    const { server, asked, answer } = await servingLate({ withTokens: true, streamsPerToken: 1 })
    const token = server.token({ name: 'ann', role: 'holder' })
    const body = { resource: 'work:1', holder: 'ann' }
    await server.ask('POST /v1/leases', { token, body })
    const { body: list } = await server.ask<{ position: string }>('GET /v1/leases', { token })
    const opening = ['0', list.position].map((after) => {
      return openStream(server.url, `/v1/events?after=${after}`, { token })
    })
    await expect.poll(asked).toBe(2)
    answer()
    const statuses = (await Promise.all(opening)).map(({ status }) => status)
    expect(statuses).toContain(200)
    expect(statuses).toContain(429)
  })

  it('does not begin any more on a server that stops', async () => {
    const { server, asked, answer } = await servingLate({})
    const opening = openStream(server.url, '/v1/events?after=0')
    await expect.poll(asked).toBeGreaterThan(0)
    const closed = server.server.close()
    answer()
    expect((await opening).status).toBe(503)
    await closed
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

interface Counts {
  /** Pages of the ledger that were read for streams. */
  reads: number
  /** Events that were made into text. */
  encoded: number
}

/** The same API, which counts what the server does with the ledger. */
function counting(api: LeaseApi, counts: Counts): LeaseApi {
  const counted = (entry: LedgerEntry): LedgerEntry => {
    const toJSON = (): object => {
      counts.encoded += 1
      return entry.event
    }
    return { ...entry, event: Object.assign({}, entry.event, { toJSON }) }
  }
  const history: LeaseApi['history'] = async (filter) => {
    counts.reads += 1
    return (await api.history(filter)).map(counted)
  }
  const watch: LeaseApi['watch'] = async function* (...asked) {
    for await (const entry of api.watch(...asked)) yield counted(entry)
  }
  return changed(api, { history, watch })
}

function changed(api: LeaseApi, calls: Partial<LeaseApi>): LeaseApi {
  return new Proxy(api, {
    get: (_, name: keyof LeaseApi) => {
      const own = api[name]
      return calls[name] ?? (typeof own === 'function' ? own.bind(api) : own)
    },
  })
}

describe('many streams at once', () => {
  const EVENTS = 200

  async function acquireTogether(
    server: Serving,
    count: number,
    { from = 0, metadata }: { from?: number; metadata?: object } = {},
  ): Promise<void> {
    const calls = Array.from({ length: count }, (_, offset) => {
      const index = from + offset
      const resource = `${index % 2 === 0 ? 'work' : 'job'}:${index}`
      const holder = index % 4 < 2 ? 'ann' : 'bob'
      const asked = { resource, holder, ttlMs: DAY_MS, waitMs: 0, metadata }
      return { call: 'acquire', request: { id: randomUUID(), session: 'ann', ...asked } }
    })
    await server.ask('POST /v1/batch', { body: { calls } })
  }

  it('read and encode each event once, and get what comes together in few writes', async () => {
    const runtime = new FakeRuntime()
    const counts: Counts = { reads: 0, encoded: 0 }
    const store = `memory:many-streams-${process.pid}`
    const server = await serving({
      runtime,
      open: async (namespace) => counting(await openApi(store, { namespace, runtime }), counts),
    })
    const wanted = [
      ...['', '', '', '', '', 'kinds=work', 'kinds=job', 'holder=ann', 'kinds=job&holder=bob'],
      'types=lease.released',
    ]
    const streams = await Promise.all(
      wanted.map((query) => openStream(server.url, `/v1/events?${query}`)),
    )
    // From here on every stream stands at the end of the ledger.
    const first = await acquire(server, 'work:first')
    expect((await streams[0]?.next())?.data.event.leaseId).toBe(first)
    await runtime.advance(1_000)
    for (const stream of streams.slice(1, 6)) await stream.next()
    await streams[7]?.next()
    const piecesBefore = streams.map(({ pieces }) => pieces)
    Object.assign(counts, { reads: 0, encoded: 0 })

    await acquireTogether(server, EVENTS)
    await runtime.advance(1_000)
    const seen = await Promise.all(
      [EVENTS, EVENTS, EVENTS, EVENTS, EVENTS, 100, 100, 100, 50].map(async (count, index) => {
        const names: string[] = []
        while (names.length < count) {
          names.push((await streams[index]?.next())?.data.event.resource ?? '')
        }
        return names
      }),
    )
    const [all = []] = seen
    expect(new Set(all).size).toBe(EVENTS)
    for (const others of seen.slice(1, 5)) expect(others).toEqual(all)
    const index = (name: string): number => Number(name.split(':')[1])
    expect(seen[5]).toEqual(all.filter((name) => name.startsWith('work:')))
    expect(seen[6]).toEqual(all.filter((name) => name.startsWith('job:')))
    expect(seen[7]).toEqual(all.filter((name) => index(name) % 4 < 2))
    expect(seen[8]).toEqual(all.filter((name) => index(name) % 4 === 3))
    expect(counts).toEqual({ reads: 0, encoded: EVENTS })
    const pieces = streams.map((stream, at) => stream.pieces - (piecesBefore[at] ?? 0))
    expect(Math.max(...pieces)).toBeLessThan(EVENTS / 10)
  })

  it('begin after the event they name, also while the one after it is not told of', async () => {
    const runtime = new FakeRuntime()
    const store = `memory:one-by-one-${process.pid}`
    let gate = Promise.resolve()
    const server = await serving({
      runtime,
      open: async (namespace) => {
        const api = await openApi(store, { namespace, runtime })
        const history: LeaseApi['history'] = async (filter) => {
          if (filter.id !== undefined) await gate
          return api.history(filter)
        }
        return changed(api, { history })
      },
    })
    const id = await acquire(server, 'work:1')
    const first = await openStream(server.url, '/v1/events')
    let open = (): void => undefined
    gate = new Promise((resolve) => (open = resolve))
    // What the lease was before its first renewal is still being read when the second is committed.
    await change(server, id, 'renew')
    await change(server, id, 'renew')
    await runtime.settle()
    open()
    const { id: after = '' } = await first.next()
    const second = await openStream(server.url, `/v1/events?after=${after}`)
    await runtime.advance(1_000)
    const seen = [await first.next(), await second.next()]
    expect(seen.map(({ data }) => data.lease?.renewals)).toEqual([2, 2])
  })

  it('do not wait for one that reads slowly, which misses nothing either', async () => {
    // By a real clock the slow one would be cut off after ten seconds, which a busy machine may need to write so much.
    const runtime = new FakeRuntime()
    const store = `memory:slow-and-quick-${process.pid}`
    const server = await serving({
      runtime,
      open: (namespace) => openApi(store, { namespace, runtime }),
    })
    const slow = await openStream(server.url, '/v1/events?after=0')
    const quick = await openStream(server.url, '/v1/events?after=0')
    slow.pause()
    const written = 6_000
    for (let from = 0; from < written; from += 500) {
      await acquireTogether(server, 500, { from, metadata: { text: 'x'.repeat(900) } })
      await runtime.advance(100)
    }
    const all = await positions(server)
    expect(all.length).toBe(written)
    const readAll = async (stream: typeof slow): Promise<readonly string[]> => {
      const ids: string[] = []
      while (ids.length < written) ids.push((await stream.next()).id ?? '')
      return ids
    }
    expect(await readAll(quick)).toEqual(all)
    slow.goOn()
    expect(await readAll(slow)).toEqual(all)
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

  it('is no answer to HEAD', async () => {
    const server = await serving()
    const headers = { 'Tenure-Session': 'bob-1' }
    const { status } = await fetch(`${server.url}/v1/wakes`, { method: 'HEAD', headers })
    expect(status).toBe(405)
  })
})
