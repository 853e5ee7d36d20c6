/** What waits behind what failed: that nothing of it is lost, and how much of it there may be. */
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { LocalBus, RedisBus, type Bus, type Listener } from '../../src/workflow/index.ts'
import { RetryQueues } from '../../src/workflow/retry-queues.ts'
import { freshRedis } from '../servers/shared-servers.ts'
import { action, OLD } from './mark-stages.ts'
import { WITHIN } from './redis-clients.ts'

const REVOCATION = { workflowId: 'w', ...OLD, reason: null, revokedAtMs: 1 }

/** Fails at the first action and at the revocation for as long as it is told to. */
function newListener() {
  const done: (number | string)[] = []
  const trouble = { isBroken: true, failures: 0 }
  const fail = (): void => {
    if (!trouble.isBroken) return
    trouble.failures += 1
    throw new Error('not yet')
  }
  const listener: Listener = {
    onAction: ({ epoch }) => {
      if (epoch === 0) fail()
      done.push(epoch)
    },
    onRevoked: () => {
      fail()
      done.push('revoked')
    },
  }
  return { listener, done, trouble }
}

async function publishAround(bus: Bus): Promise<void> {
  await bus.publish([action(0), action(1)])
  await bus.announce(REVOCATION)
  await bus.publish([action(2)])
}

describe('a revocation that fails while an action of its workflow is queues back', () => {
  it('loses nothing on a bus within a process', async () => {
    const runtime = new FakeRuntime()
    const bus = new LocalBus({ runtime, retryAfterMs: 100, deliveriesMax: 100 })
    const { listener, done, trouble } = newListener()
    await bus.subscribe('compute', listener)
    await publishAround(bus)
    await runtime.advance(1_000)
    trouble.isBroken = false
    await runtime.advance(1_000)
    expect(done.filter((one) => one !== 'revoked')).toEqual([0, 1, 2])
    expect(done).toContain('revoked')
  })

  it('loses nothing on Redis, and lets no action pass another', async () => {
    await using place = await freshRedis()
    const client = new Redis(place.url)
    const bus = new RedisBus(client, { retryAfterMs: 20, deliveriesMax: 1_000 })
    const { listener, done, trouble } = newListener()
    const subscription = await bus.subscribe('compute', listener)
    await publishAround(bus)
    await expect.poll(() => trouble.failures, WITHIN).toBeGreaterThan(3)
    trouble.isBroken = false
    await expect.poll(() => done.length, WITHIN).toBe(4)
    expect(done.filter((one) => one !== 'revoked')).toEqual([0, 1, 2])
    await subscription.close()
    client.disconnect()
  })
})

describe('what is queues back', () => {
  const FAILURE = { error: new Error('no'), atMs: 0 }

  it('is bounded by its size as well as by its number', () => {
    const queues = new RetryQueues<{ readonly text: string }>({ deliveriesMax: 5, retryAfterMs: 1 })
    const large = { text: 'x'.repeat(1_048_576) }
    queues.add('w', large, FAILURE)
    for (let n = 1; n < 64; n += 1) {
      expect(queues.isFull).toBe(false)
      queues.enqueueBehind('w', large)
    }
    expect(queues.isFull).toBe(true)
    queues.shift('w')
    expect(queues.isFull).toBe(false)
    queues.clear()
    expect([queues.length, queues.size]).toEqual([0, 0])
  })

  it('is bounded on a bus within a process, whose publisher is told', async () => {
    const bus = new LocalBus({ runtime: new FakeRuntime() })
    const text = 'x'.repeat(8 * 1_048_576)
    for (let n = 0; n < 32; n += 1) bus.send('compute', text)
    expect(() => bus.send('compute', text)).toThrow(
      'at most 268435456 characters of actions may wait for compute',
    )
  })
})
