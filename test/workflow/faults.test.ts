/** What fails in the background of a workflow is reported, with its source; what is tried again and again, once a minute. */
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { onFault, type Fault } from '../../src/runtime/diagnostics.ts'
import type { Runtime } from '../../src/runtime/runtime.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import {
  ActionGuard,
  claimWorkflow,
  LocalBus,
  PostgresMarks,
  RedisBus,
  RedisMarks,
  relayRevocations,
  SqliteMarks,
  type Bus,
} from '../../src/workflow/index.ts'
import { failWith, newClient, newWorld } from '../client/harness.ts'
import { startRedis } from '../servers/redis-server.ts'
import { action, codeOf, OLD } from './mark-stages.ts'
import { WITHIN } from './redis-clients.ts'

const TURN = 'tenure:actions:turn:compute'
const TO = { target: 'compute' } as const
let faults: Fault[]
let stop: () => void

beforeEach(() => {
  faults = []
  stop = onFault((fault) => faults.push(fault))
})

afterEach(() => stop())

function of(source: string): readonly Fault[] {
  return faults.filter((fault) => fault.source === source)
}

/** Short pauses, noted as long as they were meant to be, and a clock that a test can move on. */
function hastyRuntime() {
  const pauses: number[] = []
  const clock = { aheadMs: 0 }
  const runtime: Runtime = {
    ...systemRuntime,
    monotonicMs: () => systemRuntime.monotonicMs() + clock.aheadMs,
    setTimer: (delayMs, callback, options) => {
      pauses.push(delayMs)
      return systemRuntime.setTimer(Math.min(delayMs, 20), callback, options)
    },
  }
  return { runtime, pauses, clock }
}

describe('a consumer on Redis', () => {
  it.each([
    ['WRONGTYPE', ['SET', 'tenure:actions', 'x']],
    ['NOPERM', ['ACL', 'SETUSER', 'default', '-xreadgroup']],
  ])(
    'that is answered %s reports it, backs off, and reports it once a minute',
    async (code, trouble) => {
      await using server = await startRedis()
      const client = new Redis(server.url)
      client.on('error', () => undefined)
      const { runtime, pauses, clock } = hastyRuntime()
      const bus = new RedisBus(client, { runtime })
      const subscription = await bus.subscribe('compute', { onAction: () => undefined })
      const [command = '', ...words] = trouble
      await client.call(command, ...words)
      const reports = (): readonly Fault[] => of('workflow/redis-consumer')
      await expect.poll(() => pauses, WITHIN).toContain(5_000)
      expect(reports()).toHaveLength(1)
      expect(String(reports()[0]?.error)).toContain(code)
      clock.aheadMs = 61_000
      await expect.poll(() => reports().length, WITHIN).toBe(2)
      expect(reports()[1]?.count).toBeGreaterThan(3)
      await subscription.close()
      client.disconnect()
    },
  )

  it('reports that it cannot keep its turn, that its connection is lost, and that it cannot say goodbye', async () => {
    await using server = await startRedis()
    const client = new Redis(server.url)
    client.on('error', () => undefined)
    const bus = new RedisBus(client, { retryAfterMs: 20 })
    let end = (): void => undefined
    const ended = new Promise<void>((resolve) => (end = resolve))
    let began = false
    const subscription = await bus.subscribe('compute', {
      onAction: () => {
        began = true
        return ended
      },
    })
    await bus.publish([action(0)])
    await expect.poll(() => began, WITHIN).toBe(true)
    await client.multi().del(TURN).lpush(TURN, 'x').exec()
    await expect.poll(() => of('workflow/redis-turn').length, WITHIN).toBe(1)
    await server.kill()
    await expect.poll(() => of('workflow/redis-connection').length, WITHIN).toBe(1)
    end()
    await subscription.close()
    expect(of('workflow/redis-close')).toHaveLength(1)
    client.disconnect()
  })
})

describe('a bus', () => {
  it('reports what a listener throws, and each dead letter', async () => {
    const runtime = new FakeRuntime()
    const bus = new LocalBus({ runtime, deliveriesMax: 2 })
    const error = new Error('broken')
    await bus.subscribe('compute', {
      onAction: () => {
        throw error
      },
    })
    await bus.publish([action(0)])
    await runtime.advance(1_000)
    expect(of('workflow/delivery').map((fault) => fault.error)).toEqual([error])
    expect(String(of('workflow/dead-letter')[0]?.error)).toContain(
      'to compute is a dead letter: broken',
    )
  })
})

describe('a guard', () => {
  it('refuses by its own reason when its log fails, and reports that', async () => {
    const failure = new Error('the log is full')
    const guard = new ActionGuard({
      log: () => {
        throw failure
      },
    })
    expect(await codeOf(guard.process(action(0), () => 'never'))).toBe('LEASE_VIOLATION')
    expect(of('workflow/log').map((fault) => fault.error)).toEqual([failure])
  })

  it('refuses nothing for good because the store that it asks was closed', async () => {
    const runtime = new FakeRuntime()
    const bus = new LocalBus({ runtime, deliveriesMax: 3 })
    let isClosed = true
    const guard = new ActionGuard({
      lookUp: () => {
        if (isClosed) throw new LeaseError('CLOSED', 'the client was closed')
        return OLD
      },
    })
    const done: number[] = []
    await guard.subscribe(bus, 'compute', (_, context) => done.push(context.action.epoch))
    await bus.publish([action(0)])
    await runtime.advance(50)
    isClosed = false
    await runtime.advance(1_000)
    expect(done).toEqual([0])
  })

  it('says that its marks are away, of whatever kind, and begins nothing', async () => {
    const away = new Redis({ port: 1, retryStrategy: () => null, maxRetriesPerRequest: 0 })
    away.on('error', () => undefined)
    const pool = new pg.Pool({ connectionString: 'postgres://127.0.0.1:1/none' })
    const guards = [
      new ActionGuard({ marks: new RedisMarks(away, 'compute') }),
      new ActionGuard({ marks: new PostgresMarks(pool, 'compute') }),
    ]
    for (const guard of guards) {
      let began = false
      expect(await codeOf(guard.process(action(0), () => (began = true)))).toBe('STORE_UNAVAILABLE')
      const told = guard.setLease('w', OLD.leaseId, OLD.fence)
      expect(await codeOf(told)).toBe('STORE_UNAVAILABLE')
      expect(began).toBe(false)
    }
    await pool.end()
  })

  it('reports a rollback that fails, and throws what came before it', async () => {
    const Driver = await loadSqlite()
    const database = new Driver(':memory:')
    const marks = new SqliteMarks(
      {
        get inTransaction() {
          return database.inTransaction
        },
        prepare: (sql) => database.prepare(sql),
        exec: (sql) => {
          if (sql === 'ROLLBACK') throw new Error('the disk is gone')
          return database.exec(sql)
        },
      },
      'compute',
    )
    marks.init()
    const guard = new ActionGuard({ marks })
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    const failing = guard.process(action(0), () => Promise.reject(new Error('no')))
    await expect(failing).rejects.toThrow('no')
    expect(of('workflow/sqlite-rollback').map(({ error }) => String(error))).toEqual([
      'Error: the disk is gone',
    ])
    database.close()
  })
})

describe('an orchestrator', () => {
  const bus: Bus = {
    publish: async () => undefined,
    announce: async () => undefined,
    subscribe: () => Promise.reject(new Error('nobody listens')),
  }

  it('reports that it cannot renew', async () => {
    const world = newWorld()
    const { runtime } = world
    const client = newClient(world, 'one')
    const one = await claimWorkflow(client.tenure, 'w', { bus, runtime, ttlMs: 10_000 })
    client.faults.when('renew', failWith('STORE_UNAVAILABLE'))
    await runtime.advance(9_000)
    expect(of('workflow/renewal')).toHaveLength(1)
    client.faults.heal('renew')
    await one[Symbol.asyncDispose]()
  })

  it('reports that it could not give back what it could not use', async () => {
    const world = newWorld()
    const { runtime } = world
    const client = newClient(world, 'one')
    const before = await claimWorkflow(client.tenure, 'w', { bus, runtime })
    await before.advance('a')
    await before.complete()
    client.faults.when('history', failWith('STORE_UNAVAILABLE'))
    client.faults.when('release', failWith('STORE_UNAVAILABLE'))
    const claim = codeOf(claimWorkflow(client.tenure, 'w', { bus, runtime, ttlMs: 1_000 }))
    await runtime.advance(60_000)
    expect(await claim).toBe('STORE_UNAVAILABLE')
    expect(of('workflow/give-back')).toHaveLength(1)
  })

  it('reports a bus that fails after the lease was lost', async () => {
    const world = newWorld()
    const { runtime } = world
    let late: { reject(error: unknown): void } | null = null
    const publish = (): Promise<void> => {
      return new Promise((_, reject) => (late = { reject }))
    }
    const slow: Bus = { ...bus, publish }
    const { tenure } = newClient(world, 'one')
    const options = { bus: slow, runtime, ttlMs: 1_000, renewBelowMs: 0 }
    const one = await claimWorkflow(tenure, 'w', options)
    const emitted = codeOf(one.emit('A', {}, TO))
    await runtime.advance(1_001)
    expect(await emitted).toBe('STORE_OUTCOME_UNKNOWN')
    ;(late as { reject(error: unknown): void } | null)?.reject(new Error('too late'))
    await runtime.advance(1)
    expect(of('workflow/publish').map(({ error }) => String(error))).toEqual(['Error: too late'])
  })
})

describe('the relay of revocations', () => {
  it('reports a bus that fails while the relay is being ended', async () => {
    const world = newWorld()
    const { runtime } = world
    const { tenure } = newClient(world, 'operator')
    const ending = new AbortController()
    const failing: Bus = {
      publish: async () => undefined,
      announce: async () => {
        ending.abort()
        throw new LeaseError('STORE_UNAVAILABLE', 'the bus is away')
      },
      subscribe: () => Promise.reject(new Error('nobody listens')),
    }
    const relay = relayRevocations(tenure, failing, { signal: ending.signal })
    const one = await claimWorkflow(tenure, 'w', { bus: failing, runtime })
    await tenure.revoke(one.leaseId, { reason: 'stuck' })
    await runtime.advance(10_000)
    await relay
    expect(of('workflow/relay')).toHaveLength(1)
  })
})
