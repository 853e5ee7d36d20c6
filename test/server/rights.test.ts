/** Who may what: every route with every credential, every cell of the table. */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openApiDocument } from '../../src/server/openapi.ts'
import { revokeToken } from '../../src/server/token-file.ts'
import { serving, startServing, type Asked, type Serving } from './serving.ts'
import { openStream } from './stream-reader.ts'

const CREDENTIALS = [
  ...['none', 'wrong', 'revoked', 'reader', 'holder of another name', 'of another namespace'],
  ...['of another resource', 'of another segment', 'holder', 'operator'],
] as const
type Credential = (typeof CREDENTIALS)[number]

interface Lease {
  readonly id: string
  readonly resource: string
}
type Body = (lease: Lease) => object

interface Row {
  /** `{id}` is that of a lease of ann's. */
  readonly line: string
  readonly body?: Body
  readonly headers?: Readonly<Record<string, string>>
  /** In the order of CREDENTIALS. */
  readonly statuses: readonly number[]
}

/** What everybody sees, what a holder does, what an operator does, what everybody may ask. */
const SEE = [401, 401, 401, 200, 200, 403, 200, 200, 200, 200]
const SEE_ONE = [401, 401, 401, 200, 200, 403, 403, 403, 200, 200]
const ACT = (done: number): readonly number[] => [
  401,
  401,
  401,
  403,
  403,
  403,
  403,
  403,
  done,
  done,
]
const OPERATE = [401, 401, 401, 403, 403, 403, 403, 403, 403, 200]
const ASK = (answer: number): readonly number[] => [
  401,
  401,
  401,
  answer,
  answer,
  answer,
  answer,
  answer,
  answer,
  answer,
]
const OPEN = [200, 200, 200, 200, 200, 200, 200, 200, 200, 200]

const own: Body = () => ({ holder: 'ann' })

const ROWS: readonly Row[] = [
  {
    line: 'POST /v1/leases',
    body: () => ({ holder: 'ann', resource: `work:a/${randomUUID()}` }),
    statuses: ACT(201),
  },
  {
    line: 'POST /v1/leases/all',
    body: () => ({ holder: 'ann', members: [{ resource: `work:a/${randomUUID()}` }] }),
    statuses: ACT(201),
  },
  { line: 'GET /v1/leases', statuses: SEE },
  { line: 'GET /v1/leases/{id}', statuses: SEE_ONE },
  { line: 'POST /v1/leases/{id}/withdraw', body: own, statuses: ACT(200) },
  { line: 'POST /v1/leases/{id}/renew', body: own, statuses: ACT(200) },
  { line: 'POST /v1/leases/{id}/release', body: own, statuses: ACT(200) },
  {
    line: 'POST /v1/leases/{id}/transfer',
    body: () => ({ holder: 'ann', to: 'ann-2' }),
    statuses: ACT(200),
  },
  { line: 'POST /v1/leases/{id}/adopt', body: own, statuses: ACT(200) },
  { line: 'POST /v1/leases/{id}/upgrade', body: own, statuses: ACT(200) },
  { line: 'POST /v1/leases/{id}/downgrade', body: own, statuses: ACT(200) },
  {
    line: 'POST /v1/leases/{id}/derive',
    body: () => ({ by: 'ann', holder: 'ann-2', budget: { tokens: 1 } }),
    statuses: ACT(201),
  },
  {
    line: 'POST /v1/leases/{id}/spend',
    body: () => ({ holder: 'ann', amounts: { tokens: 1 } }),
    statuses: ACT(200),
  },
  {
    line: 'POST /v1/leases/{id}/advance',
    body: () => ({ holder: 'ann', from: 0 }),
    statuses: ACT(400),
  },
  { line: 'POST /v1/leases/{id}/revoke', body: () => ({}), statuses: OPERATE },
  { line: 'POST /v1/holders/nobody/release-all', body: () => ({}), statuses: OPERATE },
  { line: 'GET /v1/resources?resource={resource}', statuses: SEE_ONE },
  { line: 'GET /v1/events', statuses: SEE },
  { line: 'GET /v1/fleets/*', statuses: SEE },
  { line: 'GET /v1/config', statuses: SEE },
  { line: 'GET /v1/caller', statuses: ASK(200) },
  { line: 'GET /v1/ledger', statuses: ASK(404) },
  {
    line: 'PATCH /v1/config',
    body: () => ({ key: 'max_renewals', value: '-1' }),
    statuses: OPERATE,
  },
  {
    line: 'POST /v1/grants/authorize',
    body: () => ({ grant: 'none', act: {} }),
    statuses: [401, 401, 401, 400, 400, 403, 400, 400, 400, 400],
  },
  {
    line: 'POST /v1/batch',
    body: () => ({ calls: [{ call: 'settingRows', request: {} }] }),
    statuses: SEE,
  },
  {
    // A session that cannot be read: who may ask hears that, and nobody is left listening.
    line: 'GET /v1/wakes',
    headers: { 'Tenure-Session': '%' },
    statuses: [401, 401, 401, 403, 400, 403, 400, 400, 400, 400],
  },
  { line: 'GET /metrics', statuses: ASK(200) },
  { line: 'GET /healthz', statuses: OPEN },
  { line: 'GET /readyz', statuses: OPEN },
  { line: 'GET /openapi.json', statuses: OPEN },
]

interface Stage {
  readonly server: Serving
  readonly tokens: Readonly<Record<Credential, string | null>>
}

function stageOn(server: Serving): Stage {
  const holder = (name: string, more: object = {}): string => {
    return server.token({ name, role: 'holder', as: ['ann*'], ...more })
  }
  const revoked = holder('revoked')
  const tokens = {
    none: null,
    wrong: 'tenure_wrong',
    revoked,
    reader: server.token({ name: 'reader', role: 'reader' }),
    'holder of another name': holder('other-name', { as: ['bob', 'an', '*-ann'] }),
    'of another namespace': holder('other-namespace', { namespace: 'other' }),
    'of another resource': holder('other-resource', { resources: ['file:/', 'job:'] }),
    'of another segment': holder('other-segment', { resources: ['work:a/', 'work:b'] }),
    holder: holder('holder', { resources: ['work:'] }),
    operator: server.token({ name: 'operator', role: 'operator' }),
  }
  revokeToken(server.tokenFile, 'revoked')
  return { server, tokens }
}

async function lease({ server, tokens }: Stage): Promise<Lease> {
  const resource = `work:b_backup/${randomUUID()}`
  const body = { resource, holder: 'ann', mode: 'shared', budget: { tokens: 10 } }
  const asked = { token: tokens.operator, body }
  const answer = await server.ask<{ lease: Lease }>('POST /v1/leases', asked)
  return answer.body.lease
}

/** One server for all rows: each asks for leases of its own. */
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-rights-'))
let scene: Stage

beforeAll(async () => {
  scene = stageOn(await startServing({ withTokens: true }, directory))
})

afterAll(async () => {
  await scene.server.server.close()
  fs.rmSync(directory, { recursive: true, force: true })
})

describe.each(ROWS)('$line', ({ line, body, headers = {}, statuses }) => {
  it('is answered as the credential allows', async () => {
    const got: [Credential, number][] = []
    for (const credential of CREDENTIALS) {
      const own = await lease(scene)
      const place = line.replace('{id}', own.id).replace('{resource}', own.resource)
      const isForeign = credential === 'of another namespace'
      const asked: Asked = {
        token: scene.tokens[credential],
        headers: { ...headers, ...(isForeign ? { 'Tenure-Namespace': 'default' } : {}) },
        ...(body === undefined ? {} : { body: body(own) }),
      }
      got.push([credential, (await scene.server.ask(place, asked)).status])
    }
    const expected = CREDENTIALS.map((credential, index) => {
      // Those of another segment may ask for what is new below work:a/.
      const isWithin = credential === 'of another segment' && /leases(\/all)?$/.test(line)
      return [credential, isWithin && line.startsWith('POST') ? 201 : statuses[index]]
    })
    expect(got).toEqual(expected)
  })
})

it('the table has every route that the document describes', () => {
  const { paths } = openApiDocument() as { paths: Record<string, Record<string, unknown>> }
  const described = Object.entries(paths).flatMap(([path, methods]) => {
    return Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`)
  })
  const tested = ROWS.map(({ line }) => {
    const [method, place = ''] = line.split(' ')
    const path = place.split('?')[0]?.replace('nobody', '{holder}').replace('*', '{prefix}')
    return `${method} ${path?.endsWith('/derive') ? path.replace('{id}', '{parent}') : path}`
  })
  expect(tested.toSorted()).toEqual(described.toSorted())
})

describe('a holder', () => {
  it('cannot give to or derive for whom it may not act as', async () => {
    const { id } = await lease(scene)
    const token = scene.tokens.holder
    const transfer = { token, body: { holder: 'ann', to: 'bob' } }
    expect((await scene.server.ask(`POST /v1/leases/${id}/transfer`, transfer)).status).toBe(403)
    const derive = { token, body: { by: 'ann', holder: 'bob' } }
    expect((await scene.server.ask(`POST /v1/leases/${id}/derive`, derive)).status).toBe(403)
  })

  it('cannot reach in a batch what it may not alone', async () => {
    const { id, resource } = await lease(scene)
    const calls = [
      { call: 'release', request: { id, holder: 'ann' } },
      { call: 'get', request: { id } },
      { call: 'inspect', request: { resource } },
      { call: 'cleanup', request: {} },
      { call: 'list', request: {} },
      { call: 'history', request: {} },
    ]
    const token = scene.tokens['of another resource']
    const { body } = await scene.server.ask<{
      answers: { answer?: unknown; error?: { code: string } }[]
    }>('POST /v1/batch', { token, body: { calls } })
    expect(body.answers.map(({ answer, error }) => error?.code ?? JSON.stringify(answer))).toEqual([
      ...['UNAUTHORIZED', 'UNAUTHORIZED', 'UNAUTHORIZED', 'UNAUTHORIZED'],
      ...['{"leases":[],"more":false}', '[]'],
    ])
  })

  it('sees of a blocker outside of its resources who it is, and nothing else', async () => {
    const server = await serving({ withTokens: true })
    const root = server.token({ name: 'boss', role: 'operator' })
    const token = server.token({ name: 'ci', role: 'holder', resources: ['file:/repo/src'] })
    const secret = {
      resource: 'file:/repo',
      extent: 'subtree',
      holder: 'eve',
      reason: 'secret plan',
    }
    await server.ask('POST /v1/leases', { token: root, body: secret })
    const body = { resource: 'file:/repo/src/app.ts', holder: 'ci' }
    const refused = await server.ask<{ detail: string; details: { blockers: unknown[] } }>(
      'POST /v1/leases',
      { token, body },
    )
    expect(refused.status).toBe(409)
    expect(refused.body.details.blockers).toEqual([{ holder: 'eve' }])
    const place = 'GET /v1/resources?resource=file:/repo/src/app.ts'
    const seen = await server.ask<{ leases: unknown[]; blockers: unknown[] }>(place, { token })
    expect(seen.body).toMatchObject({ leases: [], blockers: [{ holder: 'eve' }] })
    expect(JSON.stringify([refused.body, seen.body])).not.toMatch(/secret|"file:\/repo"/)
  })

  it('is told of a deadlock in the events without what it may not see', async () => {
    const server = await serving({ withTokens: true })
    const root = server.token({ name: 'boss', role: 'operator' })
    const token = server.token({ name: 'ci', role: 'reader', resources: ['work:'] })
    const acquire = async (body: object): Promise<{ lease: { id: string }; code?: string }> => {
      const asked = { token: root, body }
      return (await server.ask<{ lease: { id: string } }>('POST /v1/leases', asked)).body
    }
    const ann = { holder: 'ann', resource: 'work:1' }
    const eve = { holder: 'eve', resource: 'secret:plan' }
    const held = [(await acquire(ann)).lease.id, (await acquire(eve)).lease.id]
    const first = acquire({ ...ann, resource: eve.resource, under: [held[0]], waitMs: 60_000 })
    const place = `GET /v1/resources?resource=${eve.resource}`
    for (let queue: unknown[] = []; queue.length === 0;) {
      queue = (await server.ask<{ queue: unknown[] }>(place, { token: root })).body.queue
    }
    const second = { ...eve, resource: ann.resource, under: [held[1]], waitMs: 60_000 }
    expect(await acquire(second)).toMatchObject({ code: 'DEADLOCK' })
    const page = await server.ask('GET /v1/events', { token })
    const stream = await openStream(server.url, '/v1/events?after=0&types=lease.failed', { token })
    const { event, lease } = (await stream.next()).data
    expect(event).toMatchObject({ resource: 'work:1', reason: 'deadlock', failure: 'deadlock' })
    expect(JSON.stringify(page.body)).toContain('deadlock')
    expect(JSON.stringify([page.body, event, lease])).not.toContain('secret')
    await server.ask(`POST /v1/leases/${held[1]}/revoke`, { token: root, body: {} })
    await first
  })

  it('is told of no configuration of resources that it may not see', async () => {
    const server = await serving({ withTokens: true })
    const root = server.token({ name: 'boss', role: 'operator' })
    const token = server.token({ name: 'ci', role: 'reader', resources: ['work:'] })
    for (const resourceId of ['secret:plan', 'work:1']) {
      const body = { key: 'max_renewals', value: '3', scope: 'resource', resourceId }
      expect((await server.ask('PATCH /v1/config', { token: root, body })).status).toBe(200)
    }
    type Row = { readonly resourceId: string | null }
    const alone = await server.ask<{ overrides: Row[] }>('GET /v1/config', { token })
    const calls = [{ call: 'settingRows', request: {} }]
    const batch = await server.ask<{ answers: [{ answer: Row[] }] }>('POST /v1/batch', {
      ...{ token, body: { calls } },
    })
    for (const rows of [alone.body.overrides, batch.body.answers[0].answer]) {
      const named = rows.flatMap(({ resourceId }) => resourceId ?? [])
      expect(named).toEqual(['work:1'])
    }
  })
})
