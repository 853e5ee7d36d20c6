/** Signed grants over HTTP: asked about, and presented instead of a token. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { generateSigningKey } from '../../src/delegation/index.ts'
import { openTenure } from '../../src/index.ts'
import {
  EMPTY_KEY_RING,
  rotateKeys,
  withFirstKey,
  type KeyRing,
} from '../../src/registrar/key-ring.ts'
import { serving, type Answer, type Serving } from './serving.ts'

interface Stage {
  readonly server: Serving
  readonly id: string
  readonly grant: string
  /** Of the same registrar, for another server, and for any. */
  readonly foreign: readonly string[]
  retire(): void
}

let stores = 0

async function stage(): Promise<Stage> {
  const store = `memory:grants-${process.pid}-${(stores += 1)}`
  const key = generateSigningKey()
  let ring: KeyRing = withFirstKey(EMPTY_KEY_RING, key, 0)
  const server = await serving({ store, withTokens: true, keys: () => ring, name: 'ours' })
  const tenure = await openTenure(store, { holder: 'boss', signingKey: key })
  onTestFinished(() => tenure.close())
  const root = await tenure.acquire('work:W-1', { budget: { tokens: 100 }, ttlMs: 600_000 })
  const derive = async (audience?: string) => {
    const scope = { tools: ['edit'] }
    const more = audience === undefined ? {} : { audience }
    return root.derive({ holder: 'sub', scope, budget: { tokens: 10 }, ...more })
  }
  const [own, others, anybodys] = [await derive('ours'), await derive('theirs'), await derive()]
  return {
    ...{
      server,
      id: own.id,
      grant: own.grant,
      foreign: [others.grant, anybodys.grant, root.grant],
    },
    retire: () => {
      ring = rotateKeys(ring, { next: generateSigningKey(), nowMs: Date.now(), overlapMs: 0 })
    },
  }
}

function spend({ server, id }: Stage, token: string, more: object = {}): Promise<Answer> {
  return server.ask(`POST /v1/leases/${id}/spend`, {
    token,
    body: { holder: 'sub', amounts: { tokens: 3 }, ...more },
    headers: { 'Idempotency-Key': 'first' },
  })
}

describe('a grant as a credential', () => {
  it('may spend and release its lease, once for each key', async () => {
    const scene = await stage()
    const { server, id, grant } = scene
    await spend(scene, grant)
    const again = await spend(scene, grant)
    expect(again).toMatchObject({ status: 200, body: { lease: { budgetLeft: { tokens: 7 } } } })
    const asked = { token: grant, body: { holder: 'sub' }, headers: { 'Idempotency-Key': 'end' } }
    const released = await server.ask(`POST /v1/leases/${id}/release`, asked)
    expect(released).toMatchObject({ status: 200, body: { lease: { state: 'released' } } })
  })

  it('needs an Idempotency-Key', async () => {
    const { server, id, grant } = await stage()
    const body = { holder: 'sub', amounts: { tokens: 1 } }
    const answer = await server.ask(`POST /v1/leases/${id}/spend`, { token: grant, body })
    expect(answer).toMatchObject({ status: 400, body: { details: { field: 'Idempotency-Key' } } })
  })

  it('may nothing else', async () => {
    const scene = await stage()
    const { server, id, grant: token } = scene
    const headers = { 'Idempotency-Key': 'k' }
    const body = { holder: 'sub' }
    for (const line of [
      ...[
        'GET /v1/leases',
        'GET /v1/events',
        'GET /metrics',
        `GET /v1/leases/${id}`,
        'GET /v1/wakes',
      ],
      ...['GET /v1/config', 'GET /v1/resources?resource=work:W-1'],
    ]) {
      expect([line, (await server.ask(line, { token, headers })).status]).toEqual([line, 403])
    }
    for (const verb of ['renew', 'withdraw', 'downgrade']) {
      const answer = await server.ask(`POST /v1/leases/${id}/${verb}`, { token, headers, body })
      expect([verb, answer.status]).toEqual([verb, 403])
    }
    expect((await spend(scene, token, { holder: 'boss' })).status).toBe(403)
    const calls = [{ call: 'settingRows', request: {} }]
    const batch = await server.ask('POST /v1/batch', { token, headers, body: { calls } })
    expect(batch.status).toBe(403)
  })

  it('is refused where it is for another server, for anybody, changed, or of a retired key', async () => {
    const scene = await stage()
    const { grant, foreign } = scene
    for (const token of [...foreign, `${grant.slice(0, -4)}AAAA`, 'tenure-grant.1.x']) {
      expect((await spend(scene, token)).status).toBe(401)
    }
    scene.retire()
    expect((await spend(scene, grant)).status).toBe(401)
  })
})

it('a server says whether a grant allows an act', async () => {
  const { server, grant, id } = await stage()
  const token = server.token({ name: 'asker', role: 'reader' })
  const ask = (act: object) =>
    server.ask('POST /v1/grants/authorize', { token, body: { grant, act, audience: 'ours' } })
  expect(await ask({ tool: 'edit' })).toMatchObject({
    status: 200,
    body: { allowed: true, leaseId: id, holder: 'sub' },
  })
  expect(await ask({ tool: 'delete' })).toMatchObject({
    status: 403,
    body: { code: 'SCOPE_VIOLATION' },
  })
})
