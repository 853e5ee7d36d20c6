/** A fleet through a server: what `tenure fleet` shows, to those who may see it. */
import { expect, it, onTestFinished } from 'vitest'
import type { Overview } from '../../src/fleet/fleet-overview.ts'
import { openLeaseManager } from '../../src/open-fleet.ts'
import { workshop } from '../cli/tenure-process.ts'
import { serving } from './serving.ts'

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
