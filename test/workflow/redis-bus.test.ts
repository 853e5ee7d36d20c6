import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createAction, type Action } from '../../src/workflow/action.ts'
import { ActionGuard, RedisBus, type RedisBusClient } from '../../src/workflow/index.ts'
import { freshRedis, type Place } from '../servers/shared-servers.ts'

interface Connected {
  readonly client: RedisBusClient
  close(): void
}

const CLIENTS: Readonly<Record<string, (url: string) => Promise<Connected>>> = {
  ioredis: async (url) => {
    const client = new Redis(url)
    return { client, close: () => client.disconnect() }
  },
  'node-redis': async (url) => {
    const client = createClient({ url })
    await client.connect()
    return { client, close: () => client.destroy() }
  },
}

const LEASE = { leaseId: randomUUID(), fence: 10 }

function action(epoch: number, change: Partial<Action> = {}): Action {
  return createAction({
    ...{ actionId: randomUUID(), actionType: 'A', target: 'compute', payload: { n: epoch } },
    ...{ workflowId: 'w', ...LEASE, epoch, previousEpoch: null, priority: 5, issuedAtMs: 1 },
    ...change,
  })
}

/** How long a busy machine may take. */
const WITHIN = { timeout: 15_000 }

let place: Place
let connected: Connected
let admin: Redis

describe.each(Object.keys(CLIENTS))('a bus on Redis, through %s', (name) => {
  beforeEach(async () => {
    place = await freshRedis()
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
    await subscription.close()
    expect(await pendingOf('compute')).toBe(0)
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
    expect(got).toEqual([2])
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
    guard.setLease('w', LEASE.leaseId, LEASE.fence)
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

  it('deduplicates by the guard what is delivered twice', async () => {
    const bus = new RedisBus(connected.client)
    const guard = new ActionGuard({ strict: true })
    guard.setLease('w', LEASE.leaseId, LEASE.fence)
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
  it.each([
    [{ stream: '' }, 'stream must be text, got ""'],
    [{ deliveriesMax: 0 }, 'deliveriesMax must be an integer 1..1000, got 0'],
    [{ streem: 'x' }, 'options must be among'],
  ])('refuses %o', (options, message) => {
    const client = { call: async () => null, duplicate: () => client }
    expect(() => new RedisBus(client, options as object)).toThrow(message)
  })
})

async function pendingOf(group: string): Promise<number> {
  const [count] = (await admin.xpending('tenure:actions', group)) as [number]
  return count
}
