/** What Prometheus reads of a server. */
import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import type { LeaseEvent } from '../../src/core/event.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { LeaseError } from '../../src/core/errors.ts'
import { openApi } from '../../src/open.ts'
import { report } from '../../src/runtime/diagnostics.ts'
import { LiveIndex } from '../../src/server/live-index.ts'
import { ServerMetrics } from '../../src/server/metrics.ts'
import type { ServedStore } from '../../src/server/served-store.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { serving, type Serving } from './serving.ts'

async function samples(
  server: Serving,
  token: string | null = null,
): Promise<ReadonlyMap<string, number>> {
  const { body } = await server.ask<string>('GET /metrics', { token })
  const lines = body.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => {
      const space = line.lastIndexOf(' ')
      return [line.slice(0, space), Number(line.slice(space + 1))]
    }),
  )
}

/** The ledger may be a moment behind the answer. */
async function until(
  server: Serving,
  name: string,
  value: number,
): Promise<ReadonlyMap<string, number>> {
  for (;;) {
    const read = await samples(server)
    if ((read.get(name) ?? 0) === value) return read
  }
}

async function acquire(server: Serving, resource: string, more: object = {}): Promise<string> {
  const body = { resource, holder: 'ann', ...more }
  const answer = await server.ask<{ lease: { id: string } }>('POST /v1/leases', { body })
  return answer.body.lease?.id ?? ''
}

it('grants, renewals, ends, refusals and what is live are counted', async () => {
  const server = await serving()
  const id = await acquire(server, 'work:1')
  await acquire(server, 'work:1')
  await acquire(server, 'file:/a')
  await server.ask(`POST /v1/leases/${id}/renew`, { body: { holder: 'ann' } })
  const busy = await until(server, 'tenure_live_leases{kind="work"}', 1)
  expect(busy.get('tenure_live_leases{kind="file"}')).toBe(1)
  expect(busy.get('tenure_grants_total')).toBe(2)
  expect(busy.get('tenure_renewals_total')).toBe(1)
  expect(busy.get('tenure_refusals_total{code="RESOURCE_HELD"}')).toBe(1)
  expect(busy.get('tenure_wait_seconds_count')).toBe(2)
  await server.ask(`POST /v1/leases/${id}/release`, { body: { holder: 'ann' } })
  const name = 'tenure_ends_total{kind="work",how="released"}'
  const after = await until(server, name, 1)
  expect(after.has('tenure_live_leases{kind="work"}')).toBe(false)
  expect(after.get('tenure_hold_seconds_count')).toBe(1)
  expect(after.get('tenure_time_left_at_renewal_ratio_count')).toBe(1)
})

it('who is not known, and who has too many streams, is refused and counted', async () => {
  const server = await serving({ withTokens: true, streamsPerToken: 0 })
  const token = server.token({ name: 'prometheus', role: 'reader' })
  const headers = { Accept: 'text/event-stream' }
  const wrong = { token: 'tenure_wrong' }
  expect((await server.ask('GET /v1/leases', wrong)).status).toBe(401)
  expect((await server.ask('GET /v1/events', { ...wrong, headers })).status).toBe(401)
  expect((await server.ask('POST /mcp', { ...wrong, body: {} })).status).toBe(401)
  expect((await server.ask('GET /v1/events', { token, headers })).status).toBe(429)
  const told = await samples(server, token)
  expect(told.get('tenure_refusals_total{code="UNAUTHORIZED"}')).toBe(3)
  expect(told.get('tenure_refusals_total{code="LIMIT_EXCEEDED"}')).toBe(1)
})

it('those who wait are counted, and what was there before the server was', async () => {
  const store = `memory:metrics-${process.pid}`
  const first = await serving({ store })
  await acquire(first, 'work:1')
  const request = { resource: 'work:1', holder: 'bob', session: 'bob', waitMs: 60_000 }
  const calls = [
    { call: 'acquire', request: { id: randomUUID(), ...request, claimWindowMs: 60_000 } },
  ]
  await first.ask('POST /v1/batch', { body: { calls } })
  const second = await serving({ store })
  await second.ask('GET /v1/leases')
  const read = await until(second, 'tenure_waiting{kind="work"}', 1)
  expect(read.get('tenure_live_leases{kind="work"}')).toBe(1)
  expect(read.get('tenure_grants_total')).toBe(0)
})

it('what was there before is counted, although the store was away when it was first asked', async () => {
  const store = `memory:metrics-away-${process.pid}`
  await acquire(await serving({ store }), 'work:1')
  let isAway = true
  const server = await serving({
    open: async (namespace) => {
      const api = await openApi(store, { namespace })
      const list: LeaseApi['list'] = async (filter) => {
        if (isAway) throw new LeaseError('STORE_UNAVAILABLE', 'away')
        return api.list(filter)
      }
      return { ...api, list }
    },
  })
  expect((await server.ask('GET /v1/leases')).status).toBe(503)
  isAway = false
  expect((await server.ask('GET /v1/leases')).status).toBe(200)
  await until(server, 'tenure_live_leases{kind="work"}', 1)
})

it('labels are bounded: the fifty-first kind is other, and no id, holder or resource is shown', async () => {
  const server = await serving()
  const calls = Array.from({ length: 60 }, (_, index) => {
    const request = { resource: `kind-${index}:secret-name`, holder: 'secret-holder', waitMs: 0 }
    return { call: 'acquire', request: { id: randomUUID(), session: 's', ...request } }
  })
  await server.ask('POST /v1/batch', { body: { calls } })
  const read = await until(server, 'tenure_live_leases{kind="other"}', 10)
  const text = [...read.keys()].join('\n')
  expect(text.match(/tenure_live_leases\{/g)).toHaveLength(51)
  expect(text).not.toMatch(/secret/)
})

it('faults, requests, calls of the store and Node itself are measured', async () => {
  const server = await serving()
  await acquire(server, 'work:1')
  report('test/fault', new Error('no'))
  const read = await samples(server)
  expect(read.get('tenure_faults_total{source="test/fault"}')).toBe(1)
  expect(read.get('tenure_http_request_seconds_count{route="/v1/leases",status="201"}')).toBe(1)
  expect(read.get('tenure_store_seconds_count{call="acquire"}')).toBe(1)
  expect(read.has('nodejs_eventloop_lag_seconds')).toBe(true)
})

it('leases whose end nobody tells make room for later ones', async () => {
  const metrics = new ServerMetrics()
  const observers: ((event: LeaseEvent) => void)[] = []
  const feed = { onEvent: (observer: (event: LeaseEvent) => void) => observers.push(observer) }
  const store = { live: new LiveIndex(), feed, loaded: async () => undefined }
  metrics.follow(store as unknown as ServedStore)
  const times = { createdAtMs: 0, grantedAtMs: 0, expiresAtMs: 1_000, ttlMs: 1_000 }
  const count = 250_001
  for (let id = 0; id < count; id += 1) {
    metrics.granted({ ...times, id: String(id) } as unknown as LeaseInfo)
  }
  for (const leaseId of ['0', '1', String(count - 1)]) {
    const event = { type: 'lease.released', leaseId, resource: 'work:1', atMs: 500 }
    for (const observer of observers) observer(event as unknown as LeaseEvent)
  }
  const text = await metrics.text()
  expect(text).toContain(`tenure_grants_total ${count}\n`)
  expect(text).toContain('tenure_ends_total{kind="work",how="released"} 2\n')
})
