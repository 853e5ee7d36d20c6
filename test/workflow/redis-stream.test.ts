/** What the stream of a Redis bus keeps: all that some target has not read, and not much more than it should. */
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { formatAction, RedisBus, type Action } from '../../src/workflow/index.ts'
import { freshRedis, type Place } from '../servers/shared-servers.ts'
import { action, OLD } from './mark-stages.ts'
import { WITHIN } from './redis-clients.ts'

/** So many more may be in the stream than it should keep. */
const SLACK = 1_000
const STREAM = 'tenure:actions'
let place: Place
let client: Redis

beforeEach(async () => {
  place = await freshRedis()
  client = new Redis(place.url)
})

afterEach(async () => {
  client.disconnect()
  await place.remove()
})

function epochs(from: number, count: number): readonly Action[] {
  return Array.from({ length: count }, (_, n) => action(from + n))
}

describe('a stream that is full', () => {
  it('drops nothing that a target has not read, and refuses what is new until it has', async () => {
    const bus = new RedisBus(client, { lengthMax: 100 })
    await client.xgroup('CREATE', STREAM, 'stalled', '0', 'MKSTREAM')
    await client.xgroup('CREATE', STREAM, 'compute', '0')
    await bus.publish(epochs(0, 100 + SLACK))
    const refused = bus.publish([action(9_999)])
    await expect(refused).rejects.toMatchObject({
      code: 'LIMIT_EXCEEDED',
      details: { limit: 100, target: 'compute' },
    })
    await bus.forgetTarget('compute')
    await expect(bus.publish([action(9_999)])).rejects.toThrow(
      'the stream tenure:actions keeps 100 messages and is full: target stalled has not read the oldest',
    )
    const done: number[] = []
    const subscription = await bus.subscribe('stalled', {
      onAction: ({ epoch }) => void done.push(epoch),
    })
    await client.xadd(STREAM, '*', 'message', formatAction(action(5_000, { target: 'stalled' })))
    await expect.poll(() => done, WITHIN).toEqual([5_000])
    await expect
      .poll(() => client.xpending(STREAM, 'stalled'), WITHIN)
      .toEqual([0, null, null, null])
    await bus.publish([action(9_999, { target: 'stalled' })])
    await expect.poll(() => done, WITHIN).toEqual([5_000, 9_999])
    await subscription.close()
  })

  it('refuses what is new also for a target whose name is a number', async () => {
    const bus = new RedisBus(client, { lengthMax: 100 })
    await client.xgroup('CREATE', STREAM, '1', '0', 'MKSTREAM')
    await bus.publish(epochs(0, 100 + SLACK))
    await expect(bus.publish([action(9_999)])).rejects.toMatchObject({
      code: 'LIMIT_EXCEEDED',
      details: { limit: 100, target: '1' },
    })
  })

  it('keeps what a processor has begun with and not ended, however much was read behind it', async () => {
    const bus = new RedisBus(client, { lengthMax: 100 })
    await client.xgroup('CREATE', STREAM, 'compute', '0', 'MKSTREAM')
    await bus.publish(epochs(0, 50))
    const read = ['GROUP', 'compute', 'dead', 'COUNT', '50', 'STREAMS', STREAM, '>']
    await client.call('XREADGROUP', ...read)
    const ids = (await client.xrange(STREAM, '-', '+')).map(([id]) => id)
    await client.xack(STREAM, 'compute', ...ids.slice(1))
    for (let n = 0; n < 3; n += 1) {
      await bus.publish(epochs(100 + 300 * n, 300))
      await client.call('XREADGROUP', ...read.slice(0, 4), '300', 'NOACK', ...read.slice(5))
    }
    expect(await client.xrange(STREAM, ids[0] ?? '', ids[0] ?? '')).toHaveLength(1)
  })

  it('stays about as long as it should when all is read', async () => {
    const bus = new RedisBus(client, { lengthMax: 100 })
    let read = 0
    const subscription = await bus.subscribe('compute', { onAction: () => (read += 1) })
    for (let n = 0; n < 10; n += 1) {
      await bus.publish(epochs(400 * n, 400))
      await expect.poll(() => read, WITHIN).toBe(400 * (n + 1))
      const acknowledged = async (): Promise<unknown> => {
        return (await client.xpending(STREAM, 'compute'))[0]
      }
      await expect.poll(acknowledged, WITHIN).toBe(0)
    }
    expect(await client.xlen(STREAM)).toBeLessThan(100 + SLACK)
    await subscription.close()
  })

  it('refuses new messages when no target has read any', async () => {
    const bus = new RedisBus(client, { lengthMax: 10 })
    await bus.publish(epochs(0, 10 + SLACK))
    await expect(bus.publish([action(0)])).rejects.toThrow('no target has read the oldest')
    expect(await client.xlen(STREAM)).toBe(10 + SLACK)
    // A revocation must not wait for a target that does not read.
    await bus.announce({ workflowId: 'w', ...OLD, reason: null, revokedAtMs: 1 })
    expect(await client.xlen(STREAM)).toBe(11 + SLACK)
  })
})
