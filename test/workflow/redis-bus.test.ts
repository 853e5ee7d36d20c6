import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Runtime } from '../../src/runtime/runtime.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { readAction, type Action } from '../../src/workflow/action.ts'
import { ActionGuard, formatAction, RedisBus } from '../../src/workflow/index.ts'
import { startRedis } from '../servers/redis-server.ts'
import { freshRedis, type Place } from '../servers/shared-servers.ts'
import type { TestServer } from '../servers/test-server.ts'
import { CLIENTS, WITHIN, type Connected } from './redis-clients.ts'

const LEASE = { leaseId: randomUUID(), fence: 10 }

function action(epoch: number, change: Partial<Action> = {}): Action {
  return readAction({
    ...{ actionId: randomUUID(), actionType: 'A', target: 'compute', payload: { n: epoch } },
    ...{ workflowId: 'w', ...LEASE, epoch, previousEpoch: null, priority: 5, issuedAtMs: 1 },
    ...change,
  })
}

/** Its own: one of the tests cuts every connection that the server has. */
let server: TestServer
let place: Place
let connected: Connected
let admin: Redis

beforeAll(async () => {
  server = await startRedis()
  return () => server.close()
})

describe.each(Object.keys(CLIENTS))('a bus on Redis, through %s', (name) => {
  beforeEach(async () => {
    place = await freshRedis(server.url)
    admin = new Redis(place.url)
    connected = (await CLIENTS[name]?.(place.url)) as Connected
  })

  afterEach(async () => {
    connected.close()
    admin.disconnect()
    await place.remove()
  })

  it('delivers in order what is for a target or for all, also what was sent before anybody listened', async () => {
    const bus = new RedisBus(connected.client)
    const actions = Array.from({ length: 50 }, (_, epoch) => action(epoch))
    await bus.publish([...actions.slice(0, 20), action(90, { target: 'other' })])
    const got: number[] = []
    const subscription = await bus.subscribe('compute', {
      onAction: ({ epoch }) => got.push(epoch),
    })
    await bus.publish([...actions.slice(20), action(91, { target: '*' })])
    await expect.poll(() => got.at(-1), WITHIN).toBe(91)
    expect(got).toEqual([...actions.map(({ epoch }) => epoch), 91])
    await expect.poll(() => pendingOf('compute'), WITHIN).toBe(0)
    await subscription.close()
  })

  it('reads what an emitter wrote that knows nothing of Tenure', async () => {
    const bus = new RedisBus(connected.client)
    const foreign = { action_id: randomUUID(), action_type: 'A', payload: { n: 1 }, priority: 5 }
    const text = JSON.stringify({ ...foreign, lease_id: LEASE.leaseId, epoch: 0 })
    await admin.xadd('tenure:actions', '*', 'message', text)
    const guard = new ActionGuard({ workflowId: 'w' })
    await guard.setLease('w', LEASE.leaseId, LEASE.fence)
    const got: unknown[] = []
    await guard.subscribe(bus, 'compute', (payload, { action: { workflowId, fence } }) => {
      got.push({ payload, workflowId, fence })
    })
    await expect.poll(() => got, WITHIN).toHaveLength(1)
    expect(got).toEqual([{ payload: { n: 1 }, workflowId: 'w', fence: LEASE.fence }])
    await guard.close()
  })

  it('reads the message of an entry by the name of its field, whatever other fields say', async () => {
    const bus = new RedisBus(connected.client)
    const text = formatAction(action(0))
    const more = ['kind', 'message', 'from', 'resent_to']
    await admin.xadd('tenure:actions', '*', ...more, 'message', text)
    const got: number[] = []
    const subscription = await bus.subscribe('compute', {
      onAction: ({ epoch }) => got.push(epoch),
    })
    await expect.poll(() => got, WITHIN).toEqual([0])
    expect(await bus.deadLetters()).toEqual([])
    await subscription.close()
  })

  it('delivers again what a processor failed at, or died with', async () => {
    const bus = new RedisBus(connected.client, { retryAfterMs: 50 })
    const sent = action(1)
    await bus.publish([sent])
    await admin.xgroup('CREATE', 'tenure:actions', 'compute', '0')
    const died = ['XREADGROUP', 'GROUP', 'compute', 'dead', 'STREAMS', 'tenure:actions', '>']
    await admin.call('XREADGROUP', ...died.slice(1))
    let tries = 0
    const subscription = await bus.subscribe('compute', {
      onAction: () => {
        tries += 1
        if (tries < 3) throw new Error('not yet')
      },
    })
    await expect.poll(() => tries, WITHIN).toBe(3)
    await expect.poll(() => pendingOf('compute'), WITHIN).toBe(0)
    await subscription.close()
  })

  it('makes dead letters of what cannot be read and of what fails too often, and goes on', async () => {
    const bus = new RedisBus(connected.client, { retryAfterMs: 20, deliveriesMax: 2 })
    await admin.xadd('tenure:actions', '*', 'message', '{"action_id":7}')
    await admin.xadd('tenure:actions', '*', 'something', 'else')
    const got: number[] = []
    const subscription = await bus.subscribe('compute', {
      onAction: ({ epoch }) => {
        if (epoch === 1) throw new Error('never')
        got.push(epoch)
      },
    })
    await bus.publish([action(1), action(2)])
    await expect.poll(async () => (await bus.deadLetters()).length, WITHIN).toBe(3)
    expect((await bus.deadLetters()).map(({ target, reason }) => [target, reason])).toEqual([
      ['compute', 'INVALID_INPUT: epoch must be an integer 0..9007199254740991, got undefined'],
      ['compute', 'DECODE_ERROR: message must be JSON, got ""'],
      ['compute', 'never'],
    ])
    // Of the same workflow: it waited behind the one that failed until that was a dead letter.
    await expect.poll(() => got, WITHIN).toEqual([2])
    await subscription.close()
  })

  it('gives each action to one of those who share a target, and revocations to the guard', async () => {
    const bus = new RedisBus(connected.client)
    const got = [0, 0]
    const subscriptions = await Promise.all(
      [0, 1].map((index) => {
        return bus.subscribe('compute', {
          onAction: () => void (got[index] = (got[index] ?? 0) + 1),
        })
      }),
    )
    const guard = new ActionGuard()
    await guard.setLease('w', LEASE.leaseId, LEASE.fence)
    const guarded = await guard.subscribe(bus, 'effect', () => 'done')
    for (let epoch = 0; epoch < 40; epoch += 1) await bus.publish([action(epoch)])
    await expect.poll(() => got.reduce((a, b) => a + b), WITHIN).toBe(40)
    await bus.announce({ workflowId: 'w', ...LEASE, reason: 'stuck', revokedAtMs: 1 })
    await expect
      .poll(() => {
        try {
          return guard.validate(action(99))
        } catch (error) {
          return String(error)
        }
      }, WITHIN)
      .toContain('its lease was revoked')
    await Promise.all([...subscriptions, guarded].map((subscription) => subscription.close()))
  })

  it('keeps the order however many share a target: a lenient guard loses nothing', async () => {
    const bus = new RedisBus(connected.client)
    const guard = new ActionGuard()
    await guard.setLease('w', LEASE.leaseId, LEASE.fence)
    const done: number[] = []
    const subscriptions = await Promise.all(
      [15, 0].map((pauseMs) => {
        return guard.subscribe(bus, 'compute', async (_, context) => {
          await new Promise((resolve) => setTimeout(resolve, pauseMs))
          done.push(context.action.epoch)
        })
      }),
    )
    const epochs = Array.from({ length: 30 }, (_, epoch) => epoch)
    for (const epoch of epochs) await bus.publish([action(epoch)])
    await expect.poll(() => done.at(-1), WITHIN).toBe(29)
    expect(done).toEqual(epochs)
    await Promise.all(subscriptions.map((subscription) => subscription.close()))
  })

  it('goes on where one that died has stopped, before what is new', async () => {
    const bus = new RedisBus(connected.client)
    await bus.publish([0, 1, 2].map((epoch) => action(epoch)))
    await admin.xgroup('CREATE', 'tenure:actions', 'compute', '0')
    const taken = ['GROUP', 'compute', 'dead', 'COUNT', '2', 'STREAMS', 'tenure:actions', '>']
    await admin.call('XREADGROUP', ...taken)
    const done: number[] = []
    const subscription = await bus.subscribe('compute', {
      onAction: ({ epoch }) => void done.push(epoch),
    })
    await expect.poll(() => done, WITHIN).toEqual([0, 1, 2])
    await subscription.close()
  })

  it('lets nothing of a workflow pass an action that failed, and others go on', async () => {
    const bus = new RedisBus(connected.client, { retryAfterMs: 30 })
    const done: string[] = []
    let failures = 0
    const subscription = await bus.subscribe('compute', {
      onAction: ({ workflowId, epoch }) => {
        if (workflowId === 'w' && epoch === 1 && failures++ < 2) throw new Error('not yet')
        done.push(`${workflowId}${epoch}`)
      },
    })
    const other = action(0, { workflowId: 'v' })
    await bus.publish([...[0, 1, 2].map((epoch) => action(epoch)), other])
    await expect.poll(() => done, WITHIN).toEqual(['w0', 'v0', 'w1', 'w2'])
    await expect.poll(() => pendingOf('compute'), WITHIN).toBe(0)
    await subscription.close()
  })

  it('does not go on with what another has handled who had the turn meanwhile', async () => {
    const bus = new RedisBus(connected.client)
    await bus.publish([0, 1, 2, 3].map((epoch) => action(epoch)))
    const done: number[] = []
    let open = (): void => undefined
    const opened = new Promise<void>((resolve) => (open = resolve))
    const subscription = await bus.subscribe('compute', {
      onAction: async ({ epoch }) => {
        done.push(epoch)
        if (epoch === 0) await opened
      },
    })
    await expect.poll(() => done, WITHIN).toEqual([0])
    await admin.del('tenure:actions:turn:compute')
    const entries = await admin.xrange('tenure:actions', '-', '+')
    for (const [id] of entries.slice(1, 3)) await admin.xack('tenure:actions', 'compute', id)
    await expect.poll(() => admin.exists('tenure:actions:turn:compute'), WITHIN).toBe(1)
    open()
    await expect.poll(() => done.at(-1), WITHIN).toBe(3)
    expect(done).toEqual([0, 3])
    await subscription.close()
  })

  it('goes on after its connection was lost, and after the stream was deleted', async () => {
    const bus = new RedisBus(connected.client)
    const done: number[] = []
    const subscription = await bus.subscribe('compute', {
      onAction: ({ epoch }) => void done.push(epoch),
    })
    await bus.publish([action(0)])
    await expect.poll(() => done, WITHIN).toEqual([0])
    // What is not acknowledged when the connection is lost comes again.
    await expect.poll(() => pendingOf('compute'), WITHIN).toBe(0)
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await admin.xadd('tenure:actions', '*', 'message', formatAction(action(1)))
    await expect.poll(() => done, WITHIN).toEqual([0, 1])
    await admin.del('tenure:actions')
    await admin.xadd('tenure:actions', '*', 'message', formatAction(action(2)))
    await expect.poll(() => done, WITHIN).toEqual([0, 1, 2])
    await subscription.close()
  })

  it('leaves nothing behind when it is closed', async () => {
    // Its timers come late, so that it does not give a server up that is only slow.
    const setTimer: Runtime['setTimer'] = (delayMs, callback, options) => {
      return systemRuntime.setTimer(20 * delayMs, callback, options)
    }
    const bus = new RedisBus(connected.client, { runtime: { ...systemRuntime, setTimer } })
    for (let n = 0; n < 3; n += 1) {
      let handled = 0
      const subscription = await bus.subscribe('compute', { onAction: () => (handled += 1) })
      await bus.publish([action(n)])
      await expect.poll(() => handled, WITHIN).toBe(1)
      await subscription.close()
    }
    const consumers = await admin.call('XINFO', 'CONSUMERS', 'tenure:actions', 'compute')
    expect(consumers).toEqual([])
    expect(await admin.keys('*turn*')).toEqual([])
  })

  it('deduplicates by the guard what is delivered twice', async () => {
    const bus = new RedisBus(connected.client)
    const guard = new ActionGuard({ strict: true })
    await guard.setLease('w', LEASE.leaseId, LEASE.fence)
    const done: number[] = []
    const subscription = await guard.subscribe(bus, 'compute', (_, context) => {
      done.push(context.action.epoch)
    })
    const twice = action(0)
    await bus.publish([twice, twice, action(1, { previousEpoch: 0 })])
    await expect.poll(() => done, WITHIN).toEqual([0, 1])
    await subscription.close()
  })
})

describe('a bus on Redis', () => {
  it('does not keep dead letters without end', async () => {
    const own = await freshRedis()
    const client = new Redis(own.url)
    const bus = new RedisBus(client, { lengthMax: 100 })
    const subscription = await bus.subscribe('compute', { onAction: () => undefined })
    for (let n = 0; n < 10; n += 1) {
      await Promise.all(
        Array.from({ length: 60 }, () => client.xadd('tenure:actions', '*', 'message', '?')),
      )
      await expect.poll(() => unread(client), WITHIN).toBe(0)
    }
    expect(await client.xlen('tenure:actions:dead')).toBeLessThan(400)
    await expect(bus.deadLetters(0)).rejects.toThrow('limit must be an integer 1..10000, got 0')
    await subscription.close()
    client.disconnect()
    await own.remove()
  })

  it('is closed within a second or so when the server does not answer', async () => {
    await using server = await startRedis()
    const client = new Redis(server.url)
    client.on('error', () => undefined)
    const bus = new RedisBus(client)
    const subscription = await bus.subscribe('compute', { onAction: () => undefined })
    await server.kill()
    await subscription.close()
    client.disconnect()
  })

  it.each([
    [{ stream: '' }, 'stream must be text, got ""'],
    [{ deliveriesMax: 0 }, 'deliveriesMax must be an integer 1..1000, got 0'],
    [{ streem: 'x' }, 'options must be among'],
  ])('refuses %o', (options, message) => {
    const client = { call: async () => null, duplicate: () => client }
    expect(() => new RedisBus(client, options as object)).toThrow(message)
  })
})

/** What the group has not read yet, or not acknowledged. */
async function unread(client: Redis): Promise<number> {
  const [fields = []] = (await client.call('XINFO', 'GROUPS', 'tenure:actions')) as unknown[][]
  const at = (name: string): number => Number(fields[fields.indexOf(name) + 1])
  return at('pending') + at('lag')
}

async function pendingOf(group: string): Promise<number> {
  const [count] = (await admin.xpending('tenure:actions', group)) as [number]
  return count
}
