import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Proxy } from './proxy.ts'
import { type Place, freshRedis } from './shared-servers.ts'

let place: Place
let proxy: Proxy
let direct: Redis
let client: Redis

beforeEach(async () => {
  place = await freshRedis()
  proxy = await Proxy.start(place.url)
  direct = new Redis(place.url)
  client = connect()
  await client.ping()
})

afterEach(async () => {
  client.disconnect()
  direct.disconnect()
  await proxy.close()
  await place.remove()
})

/** A client that neither repeats a command nor waits for better times. */
function connect(): Redis {
  const redis = new Redis(proxy.through(place.url), {
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
  })
  redis.on('error', () => {})
  return redis
}

async function isPending(promise: Promise<unknown>, forMs: number): Promise<boolean> {
  const late = Symbol('late')
  return (await Promise.race([promise, sleep(forMs, late)])) === late
}

it('carries both ways, whole and in order', async () => {
  const text = 'é'.repeat(1_000_000)
  await client.set('text', text)
  expect(await client.get('text')).toBe(text)
  expect(await direct.get('text')).toBe(text)
})

it('counts a round trip per question, and one for questions asked together', async () => {
  proxy.resetCounts()
  await client.ping()
  await client.ping()
  expect(proxy.roundTrips).toBe(2)
  await client.pipeline().ping().ping().ping().exec()
  expect(proxy.roundTrips).toBe(3)
  expect(proxy.connections).toBe(0)
})

it('cuts connections, and takes new ones unless it refuses', async () => {
  proxy.cut()
  await expect(client.ping()).rejects.toThrow()
  client = connect()
  expect(await client.ping()).toBe('PONG')
  proxy.refuse()
  await expect(client.ping()).rejects.toThrow()
  client = connect()
  await expect(client.ping()).rejects.toThrow()
  proxy.clear()
  client = connect()
  expect(await client.ping()).toBe('PONG')
})

it('as a black hole lets nothing through, on connections old and new', async () => {
  proxy.blackHole()
  const asked = client.set('thing', '1').catch(() => 'failed')
  const other = connect()
  const askedNew = other.set('thing', '2').catch(() => 'failed')
  expect(await isPending(asked, 100)).toBe(true)
  expect(await isPending(askedNew, 0)).toBe(true)
  other.disconnect()
  expect(await direct.get('thing')).toBeNull()
})

it('delays what passes, each way', async () => {
  proxy.delay(60)
  const begin = performance.now()
  await client.ping()
  expect(performance.now() - begin).toBeGreaterThanOrEqual(119)
  proxy.clear()
  expect(await client.ping()).toBe('PONG')
})

it('loses the reply to the request that is meant, after the server has done it', async () => {
  const lost = proxy.loseReply({ request: (bytes) => bytes.includes('incr') })
  expect(await client.ping()).toBe('PONG')
  await expect(client.incr('count')).rejects.toThrow()
  await lost
  expect(await direct.get('count')).toBe('1')
  client = connect()
  expect(await client.incr('count')).toBe(2)
})

it('lets replies through until what is meant is done', async () => {
  const isDone = async (): Promise<boolean> => (await direct.get('count')) === '2'
  const lost = proxy.loseReply({ request: (bytes) => bytes.includes('incr'), isDone })
  expect(await client.incr('count')).toBe(1)
  await expect(client.incr('count')).rejects.toThrow()
  await lost
})

it('can leave the client without any sign of the loss', async () => {
  const lost = proxy.loseReply({ then: 'silence' })
  const asked = client.incr('count').catch(() => 'failed')
  await lost
  expect(await isPending(asked, 100)).toBe(true)
  expect(await direct.get('count')).toBe('1')
})

it('cuts a connection in the middle of a reply', async () => {
  const raw = net.connect(proxy.port, '127.0.0.1')
  let heard = ''
  raw.on('data', (bytes: Buffer) => (heard += bytes.toString()))
  raw.on('error', () => undefined)
  const closed = new Promise((resolve) => raw.once('close', resolve))
  const halved = proxy.halveReply()
  raw.write('PING\r\n')
  await Promise.all([halved, closed])
  expect(heard).toBe('+PO')
  client = connect()
  expect(await client.ping()).toBe('PONG')
})

it('holds a call that its client takes for lost, and delivers it late', async () => {
  const held = proxy.holdCall((bytes) => bytes.includes('incr'))
  expect(await client.ping()).toBe('PONG')
  await expect(client.incr('count')).rejects.toThrow()
  const deliver = await held
  client = connect()
  expect(await client.incr('count')).toBe(1)
  await deliver()
  expect(await direct.get('count')).toBe('2')
})

it('forgets a held call with the server that it was for', async () => {
  const held = proxy.holdCall()
  await expect(client.incr('count')).rejects.toThrow()
  const deliver = await held
  proxy.cut()
  await deliver()
  expect(await direct.get('count')).toBeNull()
})
