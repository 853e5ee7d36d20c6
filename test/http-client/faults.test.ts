/** What breaks between a client and its servers, each at the moment where it matters. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Lease } from '../../src/client/contract.ts'
import { openApi } from '../../src/open.ts'
import { onFault } from '../../src/runtime/diagnostics.ts'
import { revokeToken } from '../../src/server/token-file.ts'
import { serving } from '../server/serving.ts'
import { ownMs } from '../servers/own-time.ts'
import { Proxy } from '../servers/proxy.ts'
import { listening, newHttpStage, openAt } from './http-stage.ts'

const WAIT = { waitMs: 60_000 }
const TTL_MS = 2_000

async function lossOf({ signal }: Lease): Promise<void> {
  await new Promise((resolve) => signal.addEventListener('abort', resolve))
}

/** How many wait for the resource, as the store sees it. */
async function queueOf(tenure: Awaited<ReturnType<typeof openAt>>, name: string): Promise<number> {
  return (await tenure.inspect(name)).queue.length
}

describe('a client of one server', () => {
  it('counts a lease from before it first asked, although the first answer was lost', async () => {
    const { open, proxy } = await newHttpStage()
    const ann = await open('ann')
    const heldBackMs = 500
    const lost = proxy.loseReply({ isDone: () => sleep(heldBackMs, true) })
    const lease = await ann.acquire('work:1', { ttlMs: 10_000 })
    await lost
    expect(lease.remainingMs).toBeLessThanOrEqual(10_000 - heldBackMs)
    expect(await ann.list({ holder: 'ann' })).toHaveLength(1)
  })

  it('counts a lease from before it asked, however long question and answer were on their way', async () => {
    const { open, proxy } = await newHttpStage()
    const ann = await open('ann')
    const eachWayMs = 150
    proxy.delay(eachWayMs)
    const lease = await ann.acquire('work:1', { ttlMs: 10_000 })
    expect(lease.remainingMs).toBeLessThanOrEqual(10_000 - 2 * eachWayMs)
    await lease.renew()
    expect(lease.remainingMs).toBeLessThanOrEqual(10_000 - 2 * eachWayMs)
    proxy.clear()
  })

  it('gets the lease whose claim was answered into a broken connection', async () => {
    const { open, proxy } = await newHttpStage()
    const [ann, bob] = [await open('ann'), await open('bob')]
    const held = await ann.acquire('work:1')
    const waiting = bob.acquire('work:1', WAIT)
    await expect.poll(() => queueOf(ann, 'work:1')).toBe(1)
    const lost = proxy.loseReply({
      request: (bytes) => bytes.includes('"call":"claim"'),
      isDone: async () => (await ann.inspect('work:1')).leases[0]?.holder === 'bob',
    })
    await held.release()
    const lease = await waiting
    await lost
    expect(lease).toMatchObject({ state: 'held', holder: 'bob' })
    expect(await ann.list({ resource: 'work:1' })).toHaveLength(1)
  })

  it('is woken although the stream of wake-ups was cut while it waited', async () => {
    const { open, proxy, requests } = await newHttpStage()
    const [ann, bob] = [await open('ann'), await open('bob', { claimWindowMs: 60_000 })]
    const stands = listening(2)
    const held = await ann.acquire('work:1')
    const waiting = bob.acquire('work:1', WAIT)
    await expect.poll(() => queueOf(ann, 'work:1')).toBe(1)
    await stands
    const streams = (): number => requests.filter(({ path }) => path === '/v1/wakes').length
    const before = streams()
    proxy.cut()
    await expect.poll(streams).toBeGreaterThan(before)
    await held.release()
    // Without a stream it would look after a third of its claim window, in 20 s.
    expect(3 * (await ownMs(() => waiting))).toBeLessThan(20_000)
    expect((await waiting).state).toBe('held')
  })

  it('keeps its lease and its place through a restart of the server', async () => {
    const store = `memory:restart-${process.pid}`
    const first = await serving({ store })
    const port = Number(new URL(first.url).port)
    const [ann, bob] = [await openAt(first.url, 'ann'), await openAt(first.url, 'bob')]
    // Somebody keeps the store: what is restarted is the server alone.
    await openAt(store, 'nobody')
    const held = await ann.acquire('work:1', { ttlMs: 30_000 })
    const waiting = bob.acquire('work:1', WAIT)
    await expect.poll(() => queueOf(ann, 'work:1')).toBe(1)
    await first.server.close()
    await expect(ann.inspect('work:1')).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    await serving({ store, port })
    await held.renew()
    expect(held.state).toBe('held')
    await held.release()
    const lease = await waiting
    expect(lease.state).toBe('held')
    await lease.release()
  })

  it('hears that its token was revoked, and stops no later than its own deadline', async () => {
    const { server, url } = await newHttpStage({ withTokens: true })
    const token = server.token({ name: 'ci', role: 'holder', as: ['*'] })
    const ann = await openAt(url, 'ann', { token })
    const lease = await ann.acquire('work:1', { ttlMs: TTL_MS })
    revokeToken(server.tokenFile, 'ci')
    await expect(ann.acquire('work:2')).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    expect(await ownMs(() => lossOf(lease))).toBeLessThan(3 * TTL_MS)
    expect(lease.state).toBe('lost')
    expect(String(lease.signal.reason)).toContain('the token must be a valid one')
  })

  it('loses its lease at its own deadline where the server hangs and no call returns', async () => {
    const { open, proxy } = await newHttpStage()
    const ann = await open('ann')
    const lease = await ann.acquire('work:1', { ttlMs: TTL_MS })
    const heard: string[] = []
    lease.on('uncertain', () => void heard.push('uncertain'))
    proxy.blackHole()
    // No call returns for 5 s.
    expect(await ownMs(() => lossOf(lease))).toBeLessThan(3 * TTL_MS)
    expect([...heard, lease.state]).toEqual(['uncertain', 'lost'])
    proxy.cut()
    proxy.clear()
  })

  it('says what is wrong where no server of Tenure answers', async () => {
    const nobody = await Proxy.start('http://127.0.0.1:1')
    const url = nobody.through('http://127.0.0.1:1')
    await nobody.close()
    const ann = await openAt(url, 'ann')
    const error = await ann.tryAcquire('work:1').catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
    expect(String(error)).toContain('cannot be reached')
  })
})

describe('a client of two servers', () => {
  it('goes on with the other one, and keeps its lease, its place and its watch', async () => {
    const store = `memory:two-${process.pid}`
    const [one, other] = [await serving({ store }), await serving({ store })]
    const proxy = await Proxy.start(one.url)
    const url = `http://127.0.0.1:${proxy.port},${new URL(other.url).host}`
    const [ann, bob] = [await openAt(url, 'ann'), await openAt(url, 'bob')]
    const held = await ann.acquire('work:1')
    const waiting = bob.acquire('work:1', WAIT)
    await expect.poll(() => queueOf(ann, 'work:1')).toBe(1)
    const seen: string[] = []
    const stop = new AbortController()
    const watching = (async () => {
      for await (const { event } of bob.watch({ signal: stop.signal })) seen.push(event.type)
    })()
    await proxy.close()
    await held.renew()
    await held.release()
    expect((await waiting).state).toBe('held')
    await expect.poll(() => seen.at(-1)).toBe('lease.issued')
    stop.abort()
    await watching
  })

  it('goes on with the other one where the first hangs', async () => {
    const store = `memory:hung-${process.pid}`
    const [one, other] = [await serving({ store }), await serving({ store })]
    await using proxy = await Proxy.start(one.url)
    const url = `http://127.0.0.1:${proxy.port},${new URL(other.url).host}?callMs=1000`
    const ann = await openAt(url, 'ann')
    const lease = await ann.acquire('work:1', { ttlMs: 6_000 })
    proxy.blackHole()
    await lease.renew()
    expect(lease.state).toBe('held')
    await lease.release()
  })
})

it('a stream of wake-ups that cannot be opened is a fault that is told', async () => {
  const { server, url, proxy } = await newHttpStage({ withTokens: true })
  const token = server.token({ name: 'ci', role: 'holder', as: ['*'] })
  const ann = await openAt(url, 'ann', { token })
  const sources: string[] = []
  const stop = onFault(({ source }) => void sources.push(source))
  await ann.acquire('work:1', { ttlMs: 60_000 })
  await expect.poll(async () => proxy.connections).toBeGreaterThan(1)
  revokeToken(server.tokenFile, 'ci')
  await expect.poll(() => sources).toContain('http-client/wake-ups')
  stop()
})

it('a change whose answer a proxy has lost may have happened, whatever the proxy says instead', async () => {
  const server = await serving({ role: 'operator' })
  const proxy = http.createServer((request, response) => {
    const { method, headers, url = '' } = request
    const passed = http.request(`${server.url}${url}`, { method, headers }, (answer) => {
      answer.resume()
      answer.once('end', () => response.writeHead(503).end('upstream connect error'))
    })
    request.pipe(passed)
  })
  await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void proxy.close())
  const api = await openApi(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`)
  onTestFinished(() => api.close())
  await server.ask('POST /v1/leases', { body: { resource: 'work:1', holder: 'ann' } })
  const sent = api.revokeAll({ holder: 'ann', by: 'operator' })
  await expect(sent).rejects.toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' })
  expect((await server.ask('GET /v1/leases')).body).toMatchObject({ leases: [] })
})

it('a path that begins with two slashes sends nobody else the token', async () => {
  const asked: string[] = []
  const hostOf = async (name: string): Promise<string> => {
    const server = http.createServer(({ url = '' }, response) => {
      asked.push(`${name}${url}`)
      response.writeHead(404).end()
    })
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    return `127.0.0.1:${(server.address() as AddressInfo).port}`
  }
  const [named, other] = [await hostOf('named'), await hostOf('other')]
  const api = await openApi(`http://${named}//${other}`, { token: 'secret' })
  onTestFinished(() => api.close())
  await expect(api.settingRows()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  expect(asked).toEqual([`named//${other}/v1/batch`])
})
