/** The server does what it was asked and its answer is lost: the client asks again under the same id, by itself. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
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

interface Answered {
  readonly url: string
  readonly asked: () => number
}

/** A server that loses its first answer, and refuses what it is asked after that. */
async function refusingLater(): Promise<Answered> {
  let asked = 0
  const server = http.createServer((request, response) => {
    asked += 1
    const isFirst = asked === 1
    request.resume().once('end', () => {
      if (isFirst) return void request.socket.destroy()
      const detail = 'the token must be a valid one'
      const problem = { code: 'UNAUTHORIZED', detail, effect: 'none', retryable: false }
      response.writeHead(401, { 'Content-Type': 'application/problem+json' })
      response.end(JSON.stringify({ ...problem, details: {} }))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, asked: () => asked }
}

describe('where what is sent again is refused', () => {
  const id = '00000000-0000-4000-8000-000000000001'

  it('a change may have been made all the same', async () => {
    const { url, asked } = await refusingLater()
    const api = await openApi(url)
    onTestFinished(() => api.close())
    await expect(api.renew({ id, holder: 'ann' })).rejects.toMatchObject({
      code: 'STORE_OUTCOME_UNKNOWN',
      effect: 'unknown',
      message: expect.stringContaining('the token must be a valid one'),
    })
    expect(asked()).toBe(2)
  })

  it('a question is refused, and nothing more', async () => {
    const { url } = await refusingLater()
    const api = await openApi(url)
    onTestFinished(() => api.close())
    const refusal = { code: 'UNAUTHORIZED', effect: 'none' }
    await expect(api.get({ id })).rejects.toMatchObject(refusal)
  })
})
