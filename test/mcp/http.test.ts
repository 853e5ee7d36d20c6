/** `/mcp` of a server: rights, waiting, and what renews a lease there. */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { openApi } from '../../src/open.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { serving, type Serving } from '../server/serving.ts'
import { ask, call, httpClient, type McpClient } from './mcp-clients.ts'

const KIND = { line: '2.x', mode: { pin: '2026-07-28' } } as const

/** What was thrown, as the model reads it. */
async function refusal(client: McpClient, name: string, args: object): Promise<string> {
  const { isError, content } = await client.callTool({ name, arguments: args })
  expect(isError).toBe(true)
  return content[0]?.text ?? ''
}

async function renewalsOf({ ask: get }: Serving, holder: string): Promise<readonly number[]> {
  const answer = await get<{ leases: LeaseInfo[] }>(`GET /v1/leases?holder=${holder}`)
  return answer.body.leases.map(({ renewals }) => renewals)
}

it('each call of a holder renews what it has taken here, for ten minutes, and nothing else', async () => {
  const served = await serving()
  const client = await httpClient(KIND, served.url)
  const ann = { holder: 'ann' }
  await served.ask('POST /v1/leases', { body: { resource: 'work:http', holder: 'ann' } })
  const { leases } = await ask(client, 'lease_acquire', { resources: ['work:mcp'], ...ann })
  expect(leases[0]).toMatchObject({ remainingMs: 600_000 })
  await call(client, 'lease_list', { holder: 'ben' })
  expect(await renewalsOf(served, 'ann')).toEqual([0, 0])
  await call(client, 'lease_status', { resources: ['work:other'], ...ann })
  await call(client, 'lease_list', ann)
  expect(await renewalsOf(served, 'ann')).toEqual([0, 2])
})

it('keeps the place of whoever asks again, and gives it up on request', async () => {
  const { url } = await serving()
  const client = await httpClient(KIND, url)
  const asked = { resources: ['work:1'], waitMs: 20 }
  const { leases } = await ask(client, 'lease_acquire', { resources: ['work:1'], holder: 'ann' })
  const ben = await ask(client, 'lease_acquire', { ...asked, holder: 'ben' })
  const cid = await ask(client, 'lease_acquire', { ...asked, holder: 'cid' })
  expect([ben.place, cid.place]).toEqual([1, 2])
  const again = { tickets: ben.tickets, waitMs: 20, holder: 'ben' }
  expect(await ask(client, 'lease_wait', again)).toMatchObject({ place: 1, tickets: ben.tickets })
  await call(client, 'lease_release', { leases: ben.tickets, holder: 'ben' })
  expect(await ask(client, 'lease_wait', again)).toMatchObject({
    granted: false,
    next: expect.stringContaining('The place was lost'),
  })
  const next = ask(client, 'lease_wait', { tickets: cid.tickets, holder: 'cid' })
  await call(client, 'lease_release', { leases: [leases[0]?.id], holder: 'ann', note: 'half done' })
  expect(await next).toMatchObject({ granted: true })
})

it('waits for several together, and takes all of them or none', async () => {
  const { url } = await serving()
  const client = await httpClient(KIND, url)
  const one = await ask(client, 'lease_acquire', { resources: ['work:b'], holder: 'ann' })
  const both = { resources: ['work:a', 'work:b'], waitMs: 20, holder: 'ben' }
  const queued = await ask(client, 'lease_acquire', both)
  expect(queued).toMatchObject({ granted: false, place: 1 })
  expect(queued.tickets).toHaveLength(2)
  await call(client, 'lease_release', { leases: [one.leases[0]?.id], holder: 'ann' })
  const granted = await ask(client, 'lease_wait', { tickets: queued.tickets, holder: 'ben' })
  expect(granted.leases.map(({ id }) => id)).toEqual(queued.tickets)
})

it('goes on waiting for several together, however few of their tickets are named', async () => {
  const { url } = await serving()
  const client = await httpClient(KIND, url)
  const one = await ask(client, 'lease_acquire', { resources: ['work:b'], holder: 'ann' })
  const both = { resources: ['work:a', 'work:b'], waitMs: 20, holder: 'ben' }
  const { tickets } = await ask(client, 'lease_acquire', both)
  await call(client, 'lease_release', { leases: [one.leases[0]?.id], holder: 'ann' })
  const named = { tickets: tickets.slice(1), waitMs: 1_000, holder: 'ben' }
  const granted = await ask(client, 'lease_wait', named)
  expect(granted).toMatchObject({ granted: true })
  expect(granted.leases.map(({ id }) => id).toSorted()).toEqual(tickets.toSorted())
})

it('finds the deadlock of two that wait for what the other has', async () => {
  const { url } = await serving()
  const client = await httpClient(KIND, url)
  for (const name of ['ann', 'ben']) {
    await ask(client, 'lease_acquire', { resources: [`work:${name}`], holder: name })
  }
  const waits = [
    ask(client, 'lease_acquire', { resources: ['work:ben'], waitMs: 5_000, holder: 'ann' }),
    ask(client, 'lease_acquire', { resources: ['work:ann'], waitMs: 5_000, holder: 'ben' }),
  ]
  expect(await Promise.race(waits)).toMatchObject({
    granted: false,
    next: expect.stringContaining('Others wait for what you hold'),
  })
  for (const name of ['ann', 'ben']) await call(client, 'lease_release', { holder: name })
  await Promise.all(waits)
})

it('refuses what is wrong in one line of ours', async () => {
  const { url } = await serving()
  const client = await httpClient(KIND, url)
  const lines: readonly (readonly [string, object, RegExp])[] = [
    ['lease_acquire', { resources: ['work:1'] }, /^holder must be given/],
    ['lease_acquire', { resources: [], holder: 'a' }, /resources must be 1\.\.64, got 0$/],
    [
      'lease_acquire',
      { resources: ['a.ts'], holder: 'a' },
      /^resource must be .* an absolute path/,
    ],
    [
      'lease_acquire',
      { resources: ['work:1'], waitMs: 45_001, holder: 'a' },
      /waitMs must be an integer 0\.\.45000, got 45001$/,
    ],
    [
      'lease_acquire',
      { resources: ['work:1'], hodler: 'a' },
      /arguments must be among .*, got "hodler"$/,
    ],
    ['lease_acquire', { resources: ['work:1', 'work:1'], holder: 'a' }, /overlap/],
    [
      'lease_wait',
      { tickets: ['01a1ec23-8293-7000-8034-fa3bf86631bf'], holder: 'a' },
      /^tickets must be those of a request that waits/,
    ],
    ['lease_list', { after: '%', holder: 'a' }, /^after must be what another list gave as next/],
  ]
  for (const [name, args, line] of lines) {
    const text = await refusal(client, name, args)
    expect(text).toMatch(line)
    expect(text).not.toContain('\n')
  }
})

it('lets a token do what it may, as whom it may', async () => {
  const served = await serving({ withTokens: true })
  const { url, token } = served
  await expect(httpClient(KIND, url)).rejects.toThrow(/401|token/i)
  const ann = await httpClient(KIND, url, token({ name: 'ann', role: 'holder', as: ['ann'] }))
  const ben = await httpClient(
    KIND,
    url,
    token({ name: 'ben', role: 'holder', as: ['ben-*'], resources: ['work:'], maxTtlMs: 60_000 }),
  )
  const eve = await httpClient(KIND, url, token({ name: 'eve', role: 'reader' }))
  // A token of one name needs no holder.
  const taken = await ask(ann, 'lease_acquire', { resources: ['secret:1', 'work:1'], reason: 'x' })
  expect(taken.granted).toBe(true)
  expect(await refusal(ann, 'lease_acquire', { resources: ['work:2'], holder: 'ben-1' })).toMatch(
    /ann must not act as "ben-1" \(UNAUTHORIZED\)/,
  )
  expect(await refusal(ben, 'lease_status', { resources: ['secret:1'] })).toMatch(/UNAUTHORIZED/)
  expect(await call(ben, 'lease_list', {})).toMatchObject({ leases: [{ resource: 'work:1' }] })
  expect(await ask(ben, 'lease_acquire', { resources: ['work:3'], holder: 'ben-1' })).toMatchObject(
    {
      leases: [{ remainingMs: 60_000 }],
    },
  )
  expect(
    await refusal(ben, 'lease_release', { leases: [taken.leases[1]?.id], holder: 'ann' }),
  ).toMatch(/ben must not act as "ann"/)
  expect(await refusal(eve, 'lease_acquire', { resources: ['work:9'], holder: 'eve' })).toMatch(
    /eve must have the role holder/,
  )
  expect(await call(eve, 'lease_status', { resources: ['work:1'] })).toMatchObject({
    resources: [{ free: false, leases: [{ holder: 'ann' }] }],
  })
})

it('writes the name of the token into what it takes', async () => {
  const served = await serving({ withTokens: true })
  const token = served.token({ name: 'ci', role: 'holder', as: ['ann'] })
  const client = await httpClient(KIND, served.url, token)
  await ask(client, 'lease_acquire', { resources: ['work:1'] })
  await ask(client, 'lease_acquire', { resources: ['work:2', 'work:3'] })
  const { body } = await served.ask<{ leases: LeaseInfo[] }>('GET /v1/leases', { token })
  expect(body.leases.map(({ tokenName }) => tokenName)).toEqual(['ci', 'ci', 'ci'])
})

/** No second passes, so that a token has as many requests as its limit says and no more. */
const STILL = { ...systemRuntime, monotonicMs: () => 0 }

it('refuses no release and no renewal for the requests of its token', async () => {
  const served = await serving({ withTokens: true, runtime: STILL })
  const token = served.token({ name: 'ci', role: 'holder', as: ['ann'], maxRequests: 20 })
  const client = await httpClient(KIND, served.url, token)
  const { leases } = await ask(client, 'lease_acquire', { resources: ['work:1'] })
  for (let status = 200; status !== 429;) {
    status = (await served.ask('GET /v1/leases', { token })).status
  }
  await expect(call(client, 'lease_list', {})).rejects.toThrow(/at most 20 requests per second/)
  const renewed = await call(client, 'lease_renew', {})
  expect(renewed).toMatchObject({ renewed: [{ id: leases[0]?.id }], refused: [] })
  const released = await call(client, 'lease_release', {})
  expect(released).toEqual({ released: [leases[0]?.id], refused: [] })
})

it('counts each message of several that are sent together', async () => {
  const served = await serving({ withTokens: true, runtime: STILL })
  const token = served.token({ name: 'ci', role: 'reader', maxRequests: 5 })
  const headers = {
    Accept: 'application/json, text/event-stream',
    Authorization: `Bearer ${token}`,
  }
  const several = (count: number): object[] => {
    return Array.from({ length: count }, (_none, id) => ({
      ...{ jsonrpc: '2.0', id, method: 'tools/list' },
    }))
  }
  expect(await fetchStatus(served.url, { body: several(3), headers })).toBe(200)
  expect(await fetchStatus(served.url, { body: several(3), headers })).toBe(429)
})

it('answers what it was asked before the server stopped', async () => {
  const store = `memory:mcp-stops-${process.pid}`
  const stopping: Promise<void>[] = []
  const open = async (namespace: string): Promise<LeaseApi> => {
    const real = await openApi(store, { namespace })
    const acquire: LeaseApi['acquire'] = async (request) => {
      const answer = await real.acquire(request)
      stopping.push(server.close())
      await turn()
      return answer
    }
    return new Proxy(real, {
      get: (target, name: keyof LeaseApi) => {
        const member = name === 'acquire' ? acquire : target[name]
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }
  const { url, server } = await serving({ open })
  const client = await httpClient(KIND, url)
  const { leases } = await ask(client, 'lease_acquire', { resources: ['work:1'], holder: 'ann' })
  expect(leases).toMatchObject([{ resource: 'work:1', state: 'active' }])
  await Promise.all(stopping)
})

it('a wait ends where the server stops, in words for the model', async () => {
  const { url, server, ask: get } = await serving()
  const client = await httpClient(KIND, url)
  await ask(client, 'lease_acquire', { resources: ['work:1'], holder: 'ann' })
  const waiting = refusal(client, 'lease_acquire', {
    ...{ resources: ['work:1'], waitMs: 40_000, holder: 'ben' },
  })
  const queued = async (): Promise<number> => {
    const { body } = await get<{ leases: LeaseInfo[] }>('GET /v1/leases?state=pending')
    return body.leases.length
  }
  await expect.poll(queued).toBe(1)
  await server.close()
  expect(await waiting).toContain('the server is stopping')
})

it('gives back what it has derived where the requests of its token do not reach for all', async () => {
  const served = await serving({ withTokens: true, runtime: STILL })
  const root = served.token({ name: 'all', role: 'operator' })
  const rights = { role: 'holder', as: ['ann', 'sub'], maxRequests: 12 } as const
  const token = served.token({ name: 'ci', ...rights })
  const client = await httpClient(KIND, served.url, token)
  const resources = Array.from({ length: 12 }, (_none, index) => `work:${index}`)
  await ask(client, 'lease_acquire', { resources, holder: 'ann' })
  const asked = { resources, holder: 'sub', parent: 'ann' }
  await expect(call(client, 'lease_acquire', asked)).rejects.toThrow(/12 requests per second/)
  const derived = await served.ask('GET /v1/events?types=lease.issued&holder=sub', { token: root })
  const live = await served.ask('GET /v1/leases?holder=sub', { token: root })
  expect(derived.body).not.toMatchObject({ events: [] })
  expect(live.body).toMatchObject({ leases: [] })
})

it('takes no request of a page of another origin, of another host, or by another method', async () => {
  const { url, ask: send } = await serving()
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  const headers = { Accept: 'application/json, text/event-stream' }
  const foreign = { body, headers: { ...headers, Origin: 'https://evil.example' } }
  expect(await fetchStatus(url, foreign)).toBe(403)
  expect(await fetchStatus(url, { body, headers })).toBe(200)
  expect((await send('GET /mcp')).status).toBe(405)
})

async function fetchStatus(
  url: string,
  { body, headers }: { readonly body: object; readonly headers: Readonly<Record<string, string>> },
): Promise<number> {
  const response = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  await response.text()
  return response.status
}
