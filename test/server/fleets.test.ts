/** A fleet through a server: what `tenure fleet` shows, to those who may see it. */
import { expect, it, onTestFinished } from 'vitest'
import type { Overview } from '../../src/fleet/fleet-overview.ts'
import { openLeaseManager } from '../../src/open-fleet.ts'
import { workshop } from '../cli/tenure-process.ts'
import { freshRedis } from '../servers/shared-servers.ts'
import { serve } from '../dashboard/browsing.ts'
import { ask, serving } from './serving.ts'

const INSTANCE = 'api-1736598400000000000-a1b2c3d4'
const SESSIONS = ['mail-1', 'mail-2', 'sms-1']

it('shows the instances, the sessions and their owners, as the command does', async () => {
  const server = await serving({ withTokens: true })
  const token = server.token({ name: 'fleet', role: 'holder', as: ['*'] })
  const manager = await openLeaseManager(server.url, { token, instanceId: INSTANCE })
  await manager.start()
  onTestFinished(() => manager.stop())
  for (const session of SESSIONS) expect(await manager.tryAcquire(session)).toBe(true)
  const ask = async (prefix: string, as = token): Promise<Overview> => {
    return (await server.ask<Overview>(`GET /v1/fleets/${prefix}`, { token: as })).body
  }
  const all = await ask('*')
  expect(all.sessions.map(({ sessionId, ownerId }) => [sessionId, ownerId])).toEqual(
    SESSIONS.map((session) => [session, INSTANCE]),
  )
  expect(all.nodes).toMatchObject([{ instanceId: INSTANCE, state: 'ready', sessions: 3 }])
  const env = { TENURE_STORE: server.url, TENURE_TOKEN: token }
  const { stdout } = await workshop().tenure(['fleet', 'nodes', '--json'], { env })
  expect(JSON.parse(stdout)).toEqual({ nodes: all.nodes })
  const mail = await ask('mail-')
  expect(mail.sessions.map(({ sessionId }) => sessionId)).toEqual(['mail-1', 'mail-2'])
  expect(mail.nodes).toMatchObject([{ instanceId: INSTANCE, sessions: 2 }])
  const elsewhere = server.token({ name: 'elsewhere', role: 'reader', resources: ['work:'] })
  expect(await ask('*', elsewhere)).toEqual({ nodes: [], sessions: [] })
})

it('shows a fleet on keys of polling services where the store is Redis, and only there', async () => {
  const elsewhere = await serving()
  expect((await elsewhere.ask('GET /v1/fleets/poll?layout=poll')).status).toBe(404)
  const redis = await freshRedis()
  onTestFinished(() => redis.remove())
  const manager = await openLeaseManager(redis.url, { instanceId: INSTANCE, prefix: 'mail' })
  await manager.start()
  onTestFinished(() => manager.stop())
  const ids = [1, 2, 3].map((digit) => `${digit}1111111-2222-4333-8444-555555555555`)
  for (const id of ids) expect(await manager.tryAcquire(id)).toBe(true)
  const shop = workshop()
  const env = { TENURE_STORE: redis.url }
  const { url } = await serve(shop, ['--store', redis.url])
  const { body } = await ask<Overview>(url, 'GET /v1/fleets/mail?layout=poll')
  expect(body.nodes).toMatchObject([{ instanceId: INSTANCE, state: 'ready', sessions: 3 }])
  const { stdout } = await shop.tenure(['fleet', 'ls', '--prefix', 'mail', '--json'], { env })
  const shown = JSON.parse(stdout) as Pick<Overview, 'sessions'>
  const owners = ({ sessions }: Pick<Overview, 'sessions'>): readonly string[] =>
    sessions.map(({ sessionId, ownerId }) => `${sessionId} ${ownerId}`)
  expect(owners(body)).toEqual(ids.map((id) => `${id} ${INSTANCE}`))
  expect(owners(body)).toEqual(owners(shown))
  expect((await ask<Overview>(url, 'GET /v1/fleets/other?layout=poll')).body.nodes).toEqual([])
})
