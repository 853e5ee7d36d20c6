/** The server does what it was asked and its answer is lost: the client asks again under the same id, by itself. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FileLeases } from '../../src/files/index.ts'
import { openApi } from '../../src/open.ts'
import { startServer, type TenureServer } from '../../src/server/start-server.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { COMMANDS } from '../faults/lost-commands.ts'
import { Proxy } from '../servers/proxy.ts'

describe('over a server, a command whose answer was lost is heard once', () => {
  let server: TenureServer
  let proxy: Proxy
  let direct: LeaseApi
  let api: LeaseApi

  beforeAll(async () => {
    const store = `memory:lost-answers-${process.pid}`
    const open = (namespace: string) => openApi(store, { namespace })
    server = await startServer({ open, port: 0, role: 'operator' })
    proxy = await Proxy.start(server.url)
    direct = await openApi(store)
    api = await openApi(proxy.through(server.url))
  })

  afterAll(async () => {
    await api.close()
    await proxy.close()
    await server.close()
    await direct.close()
  })

  const repeatable = COMMANDS.filter(({ name }) => name !== 'revokeAll')
  it.each(repeatable.map((one) => [one.name, one] as const))('%s', async (_name, { prepare }) => {
    const command = await prepare(api)
    const { leaseId, type } = command.effect
    const effects = async (): Promise<number> => {
      return (await direct.history({ id: leaseId, types: [type] })).length
    }
    const before = await effects()
    const isDone = async (): Promise<boolean> => (await effects()) > before
    const request = (bytes: Buffer): boolean => bytes.includes(command.mark)
    const lost = proxy.loseReply({ request, isDone })
    expect(await command.send()).toMatchObject(command.answer)
    await lost
    expect(await command.send()).toMatchObject(command.answer)
    expect(await effects()).toBe(before + 1)
  })

  it('and the renewal that an agent asks for counts once', async () => {
    await using files = new FileLeases(api)
    const [agentId, filePath] = ['agent-1', '/repo/renewed-once.ts']
    const acquired = await files.acquireLease({ agentId, filePath, maxRenewals: 1 })
    const leaseId = acquired.success ? acquired.lease.id : ''
    const renewals = async (): Promise<number> => {
      return (await direct.history({ id: leaseId, types: ['lease.renewed'] })).length
    }
    const request = (bytes: Buffer): boolean => bytes.includes('"call":"renew"')
    const lost = proxy.loseReply({ request, isDone: async () => (await renewals()) > 0 })
    expect(await files.renewLease({ agentId, leaseId })).toMatchObject({ success: true })
    await lost
    expect(await renewals()).toBe(1)
  })

  it('and one that has no id is not sent again: whether it happened is unknown', async () => {
    const lost = proxy.loseReply({ request: (bytes) => bytes.includes('"call":"revokeAll"') })
    const sent = api.revokeAll({ holder: 'nobody', by: 'operator' })
    await expect(sent).rejects.toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' })
    await lost
  })
})
