/**
 * One worker of the chaos: several tasks, each of which takes one of a few resources, writes through a guard while it
 * believes that it holds the lease, and lets go, or oversleeps: then nothing renews the lease, and the task writes once more
 * after its end, as a program would that did not look. It logs what it believes and goes on until its standard input ends.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { guard } from '../../src/guard/index.ts'
import type * as library from '../../src/index.ts'
import type { Lease, Tenure } from '../../src/index.ts'
import { Random } from '../../sim/random.ts'
import { HoldLog } from './hold-log.ts'
import { hostClock, monotonicUs } from './host-clock.ts'
import { GUARDED_TABLE, TURNED_AWAY, type WorkerOrder } from './worker-order.ts'

const order = JSON.parse(process.argv[2] ?? '') as WorkerOrder
const { ttlMs, resources } = order
const { isLeaseError, openTenure } = (await import(order.library)) as typeof library
const OVERSLEEPS = 0.42
const LASTS = 0.08

const random = new Random(order.seed)
const nowUs = order.clock === undefined ? monotonicUs : hostClock(order.clock)
const log = new HoldLog(order.log)
let isOver = false
let holds = 0
process.stdin.resume().once('end', () => (isOver = true))

const Driver = await loadSqlite()
const database = new Driver(order.guarded, { timeout: 20_000 })
database.pragma('synchronous = OFF')
const guarded = guard.sqlite(database)
const insert = database.prepare(
  `INSERT INTO ${GUARDED_TABLE} (resource, fence) VALUES (?, ?) RETURNING number`,
)

function nameOf(resource: number): string {
  return resource % 4 === 0 ? `file:/tree/${resource}` : `work:${resource}`
}

async function work(tenure: Tenure): Promise<void> {
  while (!isOver) {
    const resource = random.between(1, resources)
    const oversleeps = random.chance(OVERSLEEPS)
    const options = { ttlMs, waitMs: 4 * ttlMs, autoRenew: !oversleeps }
    const askedUs = nowUs()
    const lease = await unlessRefused(tenure.acquire(nameOf(resource), options))
    if (lease !== null) await hold(lease, { resource, oversleeps, askedUs })
  }
}

/** Null when the call was refused or the store was away, as a program that means to go on takes it. */
async function unlessRefused<Answer>(call: Promise<Answer>): Promise<Answer | null> {
  try {
    return await call
  } catch (error) {
    if (!isLeaseError(error)) throw error
    const { code, retryable } = error
    if (code === 'STORE_SCHEMA') process.exit(TURNED_AWAY)
    if (!retryable && code !== 'LEASE_EXPIRED' && code !== 'LEASE_LOST') throw error
    if (code.startsWith('STORE_')) {
      log.write(['error', nowUs(), code])
      await sleep(20)
    } else log.write(['refused', nowUs(), code])
    return null
  }
}

interface Turn {
  readonly resource: number
  readonly oversleeps: boolean
  readonly askedUs: number
}

async function hold(lease: Lease, { resource, oversleeps, askedUs }: Turn): Promise<void> {
  holds += 1
  const id = holds
  // Nothing renews it and nothing gives it back: it ends by its TTL, as that of a holder that hangs.
  if (oversleeps) lease.abandon()
  // The clock is read before what is left: a process that is stopped in between must not believe for longer than it does.
  const untilUs = nowUs() + lease.remainingMs * 1000
  log.write(['start', nowUs(), id, resource, lease.fence, untilUs, askedUs])
  let hasEnded = false
  const end = (why: 'released' | 'lost'): void => {
    if (!hasEnded) log.write(['end', nowUs(), id, why])
    hasEnded = true
  }
  lease.on('lost', () => end('lost'))
  lease.on('renewed', () => {
    const renewedUntilUs = nowUs() + lease.remainingMs * 1000
    if (!hasEnded) log.write(['renewed', nowUs(), id, renewedUntilUs])
  })
  write(lease, id, resource)
  if (oversleeps) {
    while (lease.state !== 'lost') await sleep(lease.remainingMs + 1)
    end('lost')
    await sleep(random.between(0, ttlMs))
    return write(lease, id, resource)
  }
  await sleep(random.chance(LASTS) ? 2 * ttlMs : random.between(0, 6))
  write(lease, id, resource)
  if (lease.state !== 'lost') end('released')
  const state = await unlessRefused(lease[Symbol.asyncDispose]().then(() => lease.state))
  if (state === 'released') log.write(['released', nowUs(), id])
}

function write(lease: Lease, id: number, resource: number): void {
  try {
    const taken = guarded.write(lease, () => insert.get(resource, lease.fence)) as {
      number: number
    }
    log.write(['write', nowUs(), id, taken.number])
  } catch (error) {
    // The guard is of this build, whatever the library is.
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (code === 'STALE_FENCE') log.write(['write', nowUs(), id, null])
    // The disk of the guarded data failed, too: the write may have happened or not.
    else if (code.startsWith('SQLITE_')) log.write(['error', nowUs(), code])
    else throw error
  }
}

/** `sentinel://HOST:PORT,…/NAME` is a Redis that Sentinels know by that name; their client is handed over, as docs/stores/redis.md says. */
function sentinelClient(store: string): Redis | null {
  const [, places, name] = /^sentinel:\/\/([^/]+)\/(.+)$/.exec(store) ?? []
  if (places === undefined || name === undefined) return null
  const sentinels = places.split(',').map((place) => {
    const { hostname: host, port } = new URL(`tcp://${place}`)
    return { host, port: Number(port) }
  })
  const redis = new Redis({
    ...{ sentinels, name, failoverDetector: true },
    ...{ enableOfflineQueue: false, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false },
  })
  return redis.on('error', () => undefined)
}

async function open(): Promise<Tenure | null> {
  const options = { holder: order.holder, claimWindowMs: order.claimWindowMs }
  const source = redis === null ? order.store : { redis }
  while (!isOver) {
    const tenure = await unlessRefused(openTenure(source, options))
    if (tenure !== null) return tenure
  }
  return null
}

const redis = sentinelClient(order.store)
const tenure = await open()
if (tenure !== null) {
  await Promise.all(Array.from({ length: order.tasks }, () => work(tenure)))
  await unlessRefused(tenure.close())
}
redis?.disconnect()
database.close()
