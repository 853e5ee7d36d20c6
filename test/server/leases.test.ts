/** Leases over HTTP, as a program in another language uses them. */
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { serving, type Answer, type Serving } from './serving.ts'

interface Lease {
  readonly id: string
  readonly resource: string
  readonly holder: string
  readonly state: string
  readonly fence: number
  readonly remainingMs: number
  readonly mode: string
  readonly renewals: number
}
interface LeaseAnswer {
  readonly lease: Lease
  readonly nowMs: number
}
interface ProblemAnswer {
  readonly code: string
  readonly detail: string
  readonly details: Readonly<Record<string, unknown>>
}

async function acquire(server: Serving, body: object): Promise<Lease> {
  const answer = await server.ask<LeaseAnswer>('POST /v1/leases', { body })
  expect(answer.status).toBe(201)
  return answer.body.lease
}

describe('a lease over HTTP', () => {
  it('is acquired, seen, renewed and released', async () => {
    const server = await serving()
    const lease = await acquire(server, { resource: 'work:W-1', holder: 'ann', ttlMs: 30_000 })
    expect(lease).toMatchObject({ resource: 'work:W-1', holder: 'ann', state: 'active' })
    const seen = await server.ask<{ leases: Lease[]; position: string }>(
      'GET /v1/resources?resource=work:W-1',
    )
    expect(seen.body.leases.map(({ id }) => id)).toEqual([lease.id])
    const body = { holder: 'ann' }
    const renewed = await server.ask<LeaseAnswer>(`POST /v1/leases/${lease.id}/renew`, { body })
    expect(renewed.body.lease).toMatchObject({ renewals: 1, fence: lease.fence })
    const released = await server.ask<LeaseAnswer>(`POST /v1/leases/${lease.id}/release`, { body })
    expect(released.body.lease.state).toBe('released')
    const ended = await server.ask<LeaseAnswer>(`GET /v1/leases/${lease.id}`)
    expect(ended.body.lease.state).toBe('released')
  })

  it('is refused while another holds it, with who that is and when to ask again', async () => {
    const server = await serving()
    await acquire(server, { resource: 'work:W-1', holder: 'ann', ttlMs: 30_000, reason: 'import' })
    const refused = await server.ask<ProblemAnswer>('POST /v1/leases', {
      body: { resource: 'work:W-1', holder: 'bob' },
    })
    expect(refused.status).toBe(409)
    expect(refused.body).toMatchObject({ code: 'RESOURCE_HELD' })
    expect(refused.body.details['blockers']).toMatchObject([{ holder: 'ann', reason: 'import' }])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  })

  it('belongs to its holder: another can neither renew nor release it', async () => {
    const server = await serving()
    const { id } = await acquire(server, { resource: 'work:W-1', holder: 'ann' })
    for (const verb of ['renew', 'release', 'downgrade']) {
      const answer = await server.ask<ProblemAnswer>(`POST /v1/leases/${id}/${verb}`, {
        body: { holder: 'eve' },
      })
      expect([verb, answer.status, answer.body.code]).toEqual([verb, 403, 'NOT_HOLDER'])
    }
  })

  it('is given the same answer when its id asks again', async () => {
    const server = await serving()
    const body = { id: randomUUID(), resource: 'work:W-1', holder: 'ann' }
    const first = await acquire(server, body)
    const second = await acquire(server, body)
    expect(second).toMatchObject({ id: body.id, fence: first.fence })
  })

  it('is spent from once for each Idempotency-Key', async () => {
    const server = await serving()
    const { id } = await acquire(server, {
      ...{ resource: 'work:W-1', holder: 'ann', budget: { tokens: 100 } },
    })
    const spend = (key: string): Promise<Answer<{ lease: { budgetLeft: { tokens: number } } }>> =>
      server.ask(`POST /v1/leases/${id}/spend`, {
        body: { holder: 'ann', amounts: { tokens: 10 } },
        headers: { 'Idempotency-Key': key },
      })
    await spend('first')
    expect((await spend('first')).body.lease.budgetLeft).toEqual({ tokens: 90 })
    expect((await spend('second')).body.lease.budgetLeft).toEqual({ tokens: 80 })
  })

  it('is acquired once for each Idempotency-Key, alone and with others', async () => {
    const server = await serving()
    const ask = async (line: string, key: string, body: object): Promise<string> => {
      const answer = await server.ask<{ lease?: Lease; leases?: Lease[] }>(`POST ${line}`, {
        ...{ body, headers: { 'Idempotency-Key': key } },
      })
      expect(answer.status).toBe(201)
      return [answer.body.lease ?? [], answer.body.leases ?? []]
        .flat()
        .map(({ id }) => id)
        .join()
    }
    const shared = { holder: 'ann', mode: 'shared' }
    const one = { ...shared, resource: 'work:A' }
    const first = await ask('/v1/leases', 'first', one)
    expect(await ask('/v1/leases', 'first', one)).toBe(first)
    expect(await ask('/v1/leases', 'second', one)).not.toBe(first)
    const members = [
      { resource: 'work:B', mode: 'shared' },
      { resource: 'work:C', mode: 'shared' },
    ]
    const several = await ask('/v1/leases/all', 'first', { holder: 'ann', members })
    expect(several.split(',')).toHaveLength(2)
    expect(await ask('/v1/leases/all', 'first', { holder: 'ann', members })).toBe(several)
    const part = { by: 'ann', holder: 'sub' }
    const derived = await ask(`/v1/leases/${first}/derive`, 'third', part)
    expect(await ask(`/v1/leases/${first}/derive`, 'third', part)).toBe(derived)
    const { body } = await server.ask<{ leases: Lease[] }>('GET /v1/leases')
    expect(body.leases).toHaveLength(5)
  })

  it('is one of several, all or none', async () => {
    const server = await serving()
    const all = { members: [{ resource: 'work:A' }, { resource: 'work:B' }], holder: 'ann' }
    const granted = await server.ask<{ leases: Lease[] }>('POST /v1/leases/all', { body: all })
    expect(granted.body.leases.map(({ resource }) => resource)).toEqual(['work:A', 'work:B'])
    const other = { members: [{ resource: 'work:C' }, { resource: 'work:B' }], holder: 'bob' }
    const refused = await server.ask('POST /v1/leases/all', { body: other })
    expect(refused.status).toBe(409)
    const list = await server.ask<{ leases: Lease[] }>('GET /v1/leases?holder=bob')
    expect(list.body.leases).toEqual([])
  })
})

describe('what a holder may do with a lease over HTTP', () => {
  it('transfers it, and the receiver adopts it', async () => {
    const server = await serving()
    const { id } = await acquire(server, { resource: 'work:W-1', holder: 'ann' })
    const given = await server.ask<LeaseAnswer>(`POST /v1/leases/${id}/transfer`, {
      body: { holder: 'ann', to: 'bob' },
    })
    const adopted = await server.ask<LeaseAnswer>(`POST /v1/leases/${given.body.lease.id}/adopt`, {
      body: { holder: 'bob' },
    })
    expect(adopted.body.lease).toMatchObject({ holder: 'bob', state: 'active' })
  })

  it('is told of the lease that it gave, also when it asks again under the same Idempotency-Key', async () => {
    const server = await serving()
    const { id } = await acquire(server, { resource: 'work:W-1', holder: 'ann' })
    const give = (): Promise<Answer<LeaseAnswer>> =>
      server.ask<LeaseAnswer>(`POST /v1/leases/${id}/transfer`, {
        body: { holder: 'ann', to: 'bob' },
        headers: { 'Idempotency-Key': 'give' },
      })
    const given = await give()
    expect((await give()).body.lease).toMatchObject({ id: given.body.lease.id, holder: 'bob' })
  })

  it('upgrades and downgrades it', async () => {
    const server = await serving()
    const { id } = await acquire(server, { resource: 'work:W-1', holder: 'ann', mode: 'shared' })
    const body = { holder: 'ann' }
    const up = await server.ask<LeaseAnswer>(`POST /v1/leases/${id}/upgrade`, { body })
    expect(up.body.lease.mode).toBe('exclusive')
    const down = await server.ask<LeaseAnswer>(`POST /v1/leases/${id}/downgrade`, { body })
    expect(down.body.lease.mode).toBe('shared')
  })

  it('derives less from it', async () => {
    const server = await serving()
    const { id } = await acquire(server, { resource: 'work:W-1', holder: 'ann' })
    const derived = await server.ask<{ lease: { parentId: string } }>(
      `POST /v1/leases/${id}/derive`,
      { body: { by: 'ann', holder: 'bob', scope: { tools: ['edit'] } } },
    )
    expect([derived.status, derived.body.lease.parentId]).toEqual([201, id])
  })

  it('advances the epoch of a workflow', async () => {
    const server = await serving()
    const { id } = await acquire(server, { resource: 'workflow:w', holder: 'ann' })
    const body = { holder: 'ann', from: 0, count: 3 }
    const advanced = await server.ask<{ from: number; to: number }>(
      `POST /v1/leases/${id}/advance`,
      { body },
    )
    expect(advanced.body).toMatchObject({ from: 0, to: 3 })
  })
})

describe('what an operator may do', () => {
  it('revokes a lease, and all of a holder', async () => {
    const server = await serving({ role: 'operator' })
    const { id } = await acquire(server, { resource: 'work:W-1', holder: 'ann' })
    await acquire(server, { resource: 'work:W-2', holder: 'ann' })
    const revoked = await server.ask(`POST /v1/leases/${id}/revoke`, { body: { reason: 'stuck' } })
    expect(revoked.status).toBe(200)
    const all = await server.ask<{ revoked: number }>('POST /v1/holders/ann/release-all')
    expect(all.body.revoked).toBe(1)
    const renewal = await server.ask<ProblemAnswer>(`POST /v1/leases/${id}/renew`, {
      body: { holder: 'ann' },
    })
    expect(renewal.body).toMatchObject({
      code: 'LEASE_TERMINAL',
      details: { revokedBy: 'local', revokedFor: 'stuck' },
    })
  })

  it('reads and changes the configuration', async () => {
    const server = await serving({ role: 'operator' })
    const body = { key: 'default_ttl_seconds', value: '60' }
    await server.ask('PATCH /v1/config', { body })
    const config = await server.ask<{ settings: { default_ttl_seconds: number } }>('GET /v1/config')
    expect(config.body.settings.default_ttl_seconds).toBe(60)
  })
})

describe('lists over HTTP', () => {
  it('go on where a page ended', async () => {
    const server = await serving()
    for (const name of ['a', 'b', 'c']) {
      await acquire(server, { resource: `work:${name}`, holder: 'ann' })
    }
    const seen: string[] = []
    for (let after = ''; ;) {
      const place = `GET /v1/leases?limit=2${after === '' ? '' : `&after=${encodeURIComponent(after)}`}`
      const { body } = await server.ask<{ leases: Lease[]; next?: string }>(place)
      seen.push(...body.leases.map(({ resource }) => resource))
      if (body.next === undefined) break
      after = body.next
    }
    expect(seen).toEqual(['work:a', 'work:b', 'work:c'])
  })

  it('tell the ledger by pages', async () => {
    const server = await serving()
    const { id } = await acquire(server, { resource: 'work:a', holder: 'ann' })
    await server.ask(`POST /v1/leases/${id}/release`, { body: { holder: 'ann' } })
    interface Page {
      readonly events: { readonly event: { readonly type: string } }[]
      readonly next: string
    }
    const first = await server.ask<Page>('GET /v1/events?limit=1')
    const second = await server.ask<Page>(`GET /v1/events?after=${first.body.next}`)
    const types = [...first.body.events, ...second.body.events].map(({ event }) => event.type)
    expect(types).toEqual(['lease.issued', 'lease.released'])
  })
})

describe('a batch', () => {
  it('answers each call by itself, in order', async () => {
    const server = await serving()
    const { id } = await acquire(server, { resource: 'work:a', holder: 'ann' })
    const calls = [
      { call: 'renew', request: { id, holder: 'ann' } },
      { call: 'renew', request: { id, holder: 'eve' } },
      { call: 'renew', request: { id: 'none', holder: 'ann' } },
      { call: 'revoke', request: { id, by: 'ann' } },
      { call: 'get', request: { id } },
    ]
    const { body } = await server.ask<{
      answers: { answer?: { kind?: string; id?: string }; error?: { code: string } }[]
    }>('POST /v1/batch', { body: { calls } })
    expect(
      body.answers.map(({ answer, error }) => answer?.kind ?? answer?.id ?? error?.code),
    ).toEqual(['renewed', 'not_holder', 'INVALID_INPUT', 'UNAUTHORIZED', id])
  })

  it('is described with the calls that it takes, and refused for others', async () => {
    const server = await serving()
    const { body } = await server.ask('GET /openapi.json')
    const [names] = /"call":\{"type":"string","enum":\[[^\]]+\]/.exec(JSON.stringify(body)) ?? []
    for (const [call, request] of [
      ['fleet', { prefix: '*' }],
      ['authorize', { grant: 'none', act: {} }],
      ['watch', {}],
    ] as const) {
      const calls = [{ call, request }]
      const answer = await server.ask<ProblemAnswer>('POST /v1/batch', { body: { calls } })
      expect(answer.status).toBe(400)
      expect(answer.body.detail).toMatch(/^call must be among get, list/)
      expect(names).not.toContain(`"${call}"`)
    }
  })
})
