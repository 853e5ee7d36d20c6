/** Waiting over HTTP is as good as waiting in a process, also when the connection breaks at the worst moment. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openApi } from '../../src/open.ts'
import type { AccessEntry } from '../../src/server/application.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { FakeRuntime } from '../../src/testing/index.ts'
import { serving, type Answer, type Serving } from './serving.ts'

interface Lease {
  readonly id: string
  readonly holder: string
  readonly state: string
  readonly waitedMs?: number
}
interface LeaseAnswer {
  readonly lease: Lease
}
interface Inspected {
  readonly leases: readonly Lease[]
  readonly queue: readonly Lease[]
}

const RESOURCE = 'work:W-1'
const CLAIM_WINDOW_MS = 5_000

let stores = 0

/** A server on a clock that the test moves, on a store that the test can look at and get in the way of. */
async function onFakeTime(
  between: (call: 'acquire' | 'claim', answer: unknown) => Promise<void> = async () => undefined,
): Promise<{
  readonly server: Serving
  readonly runtime: FakeRuntime
  ended(): Promise<AccessEntry>
}> {
  const runtime = new FakeRuntime()
  const url = `memory:waits-${process.pid}-${(stores += 1)}`
  const listeners = new Set<(entry: AccessEntry) => void>()
  const server = await serving({
    runtime,
    open: async (namespace) => {
      const api = await openApi(url, { namespace, runtime })
      const held = (call: 'acquire' | 'claim') => async (request: never) => {
        const answer = await (api[call] as (request: never) => Promise<unknown>)(request)
        await between(call, answer)
        return answer
      }
      return { ...api, acquire: held('acquire'), claim: held('claim') } as LeaseApi
    },
    onRequest: (entry) => {
      for (const listener of [...listeners]) listener(entry)
    },
  })
  // A request whose caller has gone.
  const ended = (): Promise<AccessEntry> =>
    new Promise((resolve) => {
      const listener = (entry: AccessEntry): void => {
        if (entry.status !== 499) return
        listeners.delete(listener)
        resolve(entry)
      }
      listeners.add(listener)
    })
  return { server, runtime, ended }
}

/** A request whose connection the test can break. */
function send(
  url: string,
  body: object,
  path = '/v1/leases',
): { readonly request: http.ClientRequest; break(): void } {
  const request = http.request(`${url}${path}`, {
    method: 'POST',
    agent: false,
    headers: { 'Content-Type': 'application/json' },
  })
  request.on('error', () => undefined)
  request.end(JSON.stringify(body))
  onTestFinished(() => void request.destroy())
  return { request, break: () => void request.destroy() }
}

async function inspect(server: Serving): Promise<Inspected> {
  const { body } = await server.ask<Inspected>(`GET /v1/resources?resource=${RESOURCE}`)
  return body
}

async function untilQueued(server: Serving, holders: readonly string[]): Promise<void> {
  for (;;) {
    const { queue } = await inspect(server)
    if (queue.map(({ holder }) => holder).join() === holders.join()) return
  }
}

async function acquire(server: Serving, body: object): Promise<Answer<LeaseAnswer>> {
  return server.ask<LeaseAnswer>('POST /v1/leases', { body: { resource: RESOURCE, ...body } })
}

async function release(server: Serving, { id, holder }: Lease): Promise<void> {
  const { status } = await server.ask(`POST /v1/leases/${id}/release`, { body: { holder } })
  expect(status).toBe(200)
}

describe('a request that waits on the server', () => {
  it('is granted when the holder releases, and says how long it waited', async () => {
    const { server, runtime } = await onFakeTime()
    const ann = await acquire(server, { holder: 'ann', ttlMs: 60_000 })
    const bob = acquire(server, { holder: 'bob', ttlMs: 30_000, waitMs: 60_000 })
    await untilQueued(server, ['bob'])
    await runtime.advance(40_000)
    await release(server, ann.body.lease)
    const { lease } = (await bob).body
    expect(lease).toMatchObject({ holder: 'bob', state: 'active', waitedMs: 40_000 })
  })

  it('is refused with 408 when its time is over, and leaves no ticket', async () => {
    const { server, runtime } = await onFakeTime()
    await acquire(server, { holder: 'ann' })
    const bob = acquire(server, { holder: 'bob', waitMs: 20_000 })
    await untilQueued(server, ['bob'])
    await runtime.advance(20_000)
    expect(await bob).toMatchObject({ status: 408, body: { code: 'WAIT_TIMEOUT' } })
    await untilQueued(server, [])
  })

  it('is ended by its withdrawal', async () => {
    const { server } = await onFakeTime()
    await acquire(server, { holder: 'ann' })
    const id = randomUUID()
    const bob = acquire(server, { id, holder: 'bob', waitMs: 60_000 })
    await untilQueued(server, ['bob'])
    const withdrawn = await server.ask(`POST /v1/leases/${id}/withdraw`, {
      body: { holder: 'bob' },
    })
    expect(withdrawn.body).toEqual({ released: false })
    expect(await bob).toMatchObject({ status: 410, body: { code: 'LEASE_TERMINAL' } })
    await untilQueued(server, [])
  })

  it('waits for several at once', async () => {
    const { server } = await onFakeTime()
    const ann = await acquire(server, { holder: 'ann' })
    const body = {
      ...{ members: [{ resource: RESOURCE }, { resource: 'work:W-2' }] },
      ...{ holder: 'bob', waitMs: 60_000 },
    }
    const bob = server.ask<{ leases: Lease[] }>('POST /v1/leases/all', { body })
    await untilQueued(server, ['bob'])
    await release(server, ann.body.lease)
    expect((await bob).body.leases).toHaveLength(2)
  })
})

describe('a request for several that waits on the server', () => {
  const members = (): object[] => [
    { id: randomUUID(), resource: RESOURCE },
    { id: randomUUID(), resource: 'work:W-2' },
  ]

  it('goes on under the ids of its members, when its connection broke', async () => {
    const { server, ended } = await onFakeTime()
    const ann = await acquire(server, { holder: 'ann' })
    const wanted = { members: members(), holder: 'bob', waitMs: 60_000 }
    const first = send(server.url, wanted, '/v1/leases/all')
    await untilQueued(server, ['bob'])
    const gone = ended()
    first.break()
    await gone
    const again = server.ask<{ leases: Lease[] }>('POST /v1/leases/all', { body: wanted })
    await release(server, ann.body.lease)
    expect((await again).body.leases).toMatchObject(wanted.members)
  })

  it.each([undefined, RESOURCE])(
    'is ended by the withdrawal of one of its members, of the resource %s',
    async (resource) => {
      const { server } = await onFakeTime()
      await acquire(server, { holder: 'ann' })
      const [first, second] = members() as { id: string }[]
      const bob = server.ask('POST /v1/leases/all', {
        body: { members: [second, first], holder: 'bob', waitMs: 60_000 },
      })
      await untilQueued(server, ['bob'])
      const withdrawn = await server.ask(`POST /v1/leases/${first?.id}/withdraw`, {
        body: { holder: 'bob', ...(resource === undefined ? {} : { resource }) },
      })
      expect(withdrawn).toMatchObject({ status: 200, body: { released: false } })
      expect(await bob).toMatchObject({ status: 410, body: { code: 'LEASE_TERMINAL' } })
      await untilQueued(server, [])
    },
  )
})

describe('a connection that breaks while its request waits', () => {
  it('loses its place only after a claim window: the same id keeps it', async () => {
    const { server, ended } = await onFakeTime()
    const ann = await acquire(server, { holder: 'ann' })
    const wanted = { id: randomUUID(), resource: RESOURCE, holder: 'bob', waitMs: 60_000 }
    const first = send(server.url, wanted)
    await untilQueued(server, ['bob'])
    const carol = acquire(server, { holder: 'carol', waitMs: 60_000 })
    await untilQueued(server, ['bob', 'carol'])
    const gone = ended()
    first.break()
    expect(await gone).toMatchObject({ status: 499 })
    const again = acquire(server, wanted)
    await release(server, ann.body.lease)
    const { lease } = (await again).body
    expect(lease).toMatchObject({ id: wanted.id, holder: 'bob', state: 'active' })
    await release(server, lease)
    expect((await carol).body.lease.holder).toBe('carol')
  })

  it('ends its keep-alives: after a claim window the next is served', async () => {
    const { server, runtime, ended } = await onFakeTime()
    const ann = await acquire(server, { holder: 'ann' })
    const bob = send(server.url, { resource: RESOURCE, holder: 'bob', waitMs: 60_000 })
    await untilQueued(server, ['bob'])
    const carol = acquire(server, { holder: 'carol', waitMs: 60_000 })
    await untilQueued(server, ['bob', 'carol'])
    const gone = ended()
    bob.break()
    await gone
    await runtime.advance(CLAIM_WINDOW_MS + 1)
    await untilQueued(server, ['carol'])
    await release(server, ann.body.lease)
    expect((await carol).body.lease.holder).toBe('carol')
  })
})

describe('a grant whose answer could not be written', () => {
  async function brokenAtGrant(): Promise<
    Awaited<ReturnType<typeof onFakeTime>> & { readonly id: string }
  > {
    const id = randomUUID()
    let breaking: (() => Promise<unknown>) | null = null
    const stage = await onFakeTime(async () => {
      await breaking?.()
      breaking = null
    })
    const gone = stage.ended()
    breaking = async () => {
      sent.break()
      await gone
    }
    const sent = send(stage.server.url, { id, resource: RESOURCE, holder: 'bob', ttlMs: 60_000 })
    await gone
    await stage.runtime.settle()
    expect(await inspect(stage.server)).toMatchObject({ leases: [{ id, state: 'active' }] })
    return { ...stage, id }
  }

  it('is released one claim window later', async () => {
    const { server, runtime } = await brokenAtGrant()
    await runtime.advance(CLAIM_WINDOW_MS - 1)
    expect((await inspect(server)).leases).toHaveLength(1)
    await runtime.advance(1)
    expect((await inspect(server)).leases).toEqual([])
  })

  it('stays with whoever asks for it again under its id', async () => {
    const { server, runtime, id } = await brokenAtGrant()
    await runtime.advance(CLAIM_WINDOW_MS - 1)
    const again = await acquire(server, { id, holder: 'bob' })
    expect(again.body.lease).toMatchObject({ id, state: 'active' })
    await runtime.advance(2 * CLAIM_WINDOW_MS)
    expect((await inspect(server)).leases).toMatchObject([{ id }])
  })

  it('stays where it was renewed meanwhile, because somebody knows of it', async () => {
    const { server, runtime, id } = await brokenAtGrant()
    await server.ask(`POST /v1/leases/${id}/renew`, { body: { holder: 'bob' } })
    await runtime.advance(2 * CLAIM_WINDOW_MS)
    expect((await inspect(server)).leases).toMatchObject([{ id, state: 'active' }])
  })
})

describe('a server that stops', () => {
  it('ends waits with 503 and Retry-After, and leaves tickets and leases as they are', async () => {
    const store = `memory:stop-${process.pid}`
    const one = await serving({ store })
    const other = await serving({ store })
    const ann = await acquire(one, { holder: 'ann' })
    const wanted = { id: randomUUID(), holder: 'bob', waitMs: 60_000, claimWindowMs: 60_000 }
    const bob = acquire(one, wanted)
    await untilQueued(other, ['bob'])
    await one.server.close()
    const refused = await bob
    expect(refused).toMatchObject({ status: 503, body: { code: 'STORE_UNAVAILABLE' } })
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await inspect(other)).toMatchObject({
      leases: [{ holder: 'ann' }],
      queue: [{ holder: 'bob' }],
    })
    const again = acquire(other, wanted)
    await release(other, ann.body.lease)
    expect((await again).body.lease).toMatchObject({ id: wanted.id, state: 'active' })
  })

  it('answers what was granted while it stopped', async () => {
    let stop: () => void = () => undefined
    const stopped = new Promise<void>((resolve) => (stop = resolve))
    const store = `memory:stopping-${process.pid}`
    const server = await serving({
      store,
      open: async (namespace) => {
        const api = await openApi(store, { namespace })
        const acquireSlowly: LeaseApi['acquire'] = async (request) => {
          const answer = await api.acquire(request)
          stop()
          await new Promise((resolve) => setImmediate(resolve))
          return answer
        }
        return { ...api, acquire: acquireSlowly }
      },
    })
    const ann = acquire(server, { holder: 'ann', waitMs: 60_000 })
    await stopped
    const closed = server.server.close()
    expect(await ann).toMatchObject({ status: 201, body: { lease: { holder: 'ann' } } })
    await closed
  })

  it('does not wait for a store that is still being opened, nor do those who wait elsewhere', async () => {
    const runtime = new FakeRuntime()
    const store = `memory:opening-${process.pid}`
    let open: () => void = () => undefined
    let close: () => void = () => undefined
    const closedLate = new Promise<void>((resolve) => (close = resolve))
    const server = await serving({
      runtime,
      open: async (namespace) => {
        const api = await openApi(store, { namespace, runtime })
        if (namespace !== 'slow') return api
        await new Promise<void>((resolve) => (open = resolve))
        return { ...api, close: async () => close() }
      },
    })
    await acquire(server, { holder: 'ann' })
    const headers = { 'Tenure-Namespace': 'slow' }
    const cut = expect(server.ask('GET /v1/leases', { headers })).rejects.toThrow('fetch failed')
    const bob = acquire(server, { holder: 'bob', waitMs: 60_000 })
    await untilQueued(server, ['bob'])
    const closed = server.server.close()
    expect(await bob).toMatchObject({ status: 503, body: { code: 'STORE_UNAVAILABLE' } })
    await runtime.advance(10_000)
    await closed
    await cut
    open()
    await closedLate
  })

  it('is done in ten seconds, although its store does not close', async () => {
    const runtime = new FakeRuntime()
    const store = `memory:closing-${process.pid}`
    let close: () => void = () => undefined
    const closing = new Promise<void>((resolve) => (close = resolve))
    const { server, ask } = await serving({
      runtime,
      open: async (namespace) => {
        const api = await openApi(store, { namespace, runtime })
        return {
          ...api,
          close: () => {
            close()
            return new Promise<void>(() => undefined)
          },
        }
      },
    })
    await ask('GET /v1/leases')
    const closed = server.close()
    await closing
    await runtime.advance(10_000)
    await closed
  })

  it('takes no request any more', async () => {
    const { server, url } = await serving()
    await server.close()
    const request = http.get(`${url}/healthz`)
    const [error] = (await once(request, 'error')) as [Error & { code: string }]
    expect(error.code).toBe('ECONNREFUSED')
  })
})
