/** A server whose store is away says so, and goes on by itself when it is back. */
import { expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { openApi } from '../../src/open.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { CALL_NAMES } from '../../src/service/traced-api.ts'
import { serving } from './serving.ts'

it('a store that cannot be opened gives 503 with Retry-After until it can be', async () => {
  let isAway = true
  const store = `memory:away-${process.pid}`
  const server = await serving({
    open: async (namespace) => {
      if (isAway) throw new LeaseError('STORE_UNAVAILABLE', 'connection refused')
      return openApi(store, { namespace })
    },
  })
  const refused = await server.ask<{ code: string }>('GET /v1/leases')
  expect([refused.status, refused.body.code]).toEqual([503, 'STORE_UNAVAILABLE'])
  expect(refused.headers.get('retry-after')).toBe('1')
  expect((await server.ask('GET /readyz')).status).toBe(503)
  expect((await server.ask('GET /healthz')).status).toBe(200)
  isAway = false
  while ((await server.ask('GET /readyz')).status !== 200);
  expect((await server.ask('GET /v1/leases')).status).toBe(200)
})

it('a store that goes away later is told as well, and nothing is lost', async () => {
  let isAway = false
  const store = `memory:leaving-${process.pid}`
  const server = await serving({
    open: async (namespace) => {
      const api = await openApi(store, { namespace })
      const calls = CALL_NAMES.filter(
        (name) => name !== 'watch' && name !== 'standBy' && name !== 'close',
      )
      const failing = calls.map((name) => {
        const call = (api[name] as (...args: unknown[]) => Promise<unknown>).bind(api)
        const attempt = async (...args: unknown[]): Promise<unknown> => {
          if (isAway) throw new LeaseError('STORE_UNAVAILABLE', 'connection reset')
          return call(...args)
        }
        return [name, attempt]
      })
      return { ...api, ...Object.fromEntries(failing) } as LeaseApi
    },
  })
  const body = { resource: 'work:1', holder: 'ann' }
  const made = await server.ask<{ lease: { id: string } }>('POST /v1/leases', { body })
  isAway = true
  const place = `POST /v1/leases/${made.body.lease.id}/renew`
  const refused = await server.ask<{ retryable: boolean; effect: string }>(place, {
    body: { holder: 'ann' },
  })
  expect(refused).toMatchObject({ status: 503, body: { retryable: true, effect: 'none' } })
  expect((await server.ask('GET /readyz')).status).toBe(503)
  isAway = false
  expect((await server.ask(place, { body: { holder: 'ann' } })).status).toBe(200)
})
