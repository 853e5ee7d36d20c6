/** How a subscription ends: not before what it began, and without waiting for itself. */
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { LocalBus, RedisBus, type Bus, type Subscription } from '../../src/workflow/index.ts'
import { freshRedis } from '../servers/shared-servers.ts'
import { action } from './mark-stages.ts'
import { WITHIN } from './redis-clients.ts'

interface Stage extends AsyncDisposable {
  readonly bus: Bus
}

const BUSES: Readonly<Record<string, () => Promise<Stage>>> = {
  'within a process': async () => {
    return { bus: new LocalBus(), [Symbol.asyncDispose]: async () => undefined }
  },
  'on Redis': async () => {
    const place = await freshRedis()
    const client = new Redis(place.url)
    return {
      bus: new RedisBus(client),
      [Symbol.asyncDispose]: async () => {
        client.disconnect()
        await place.remove()
      },
    }
  },
}

describe.each(Object.entries(BUSES))('a bus %s', (_, open) => {
  it('can be closed by its listener, after which it delivers nothing', async () => {
    await using stage = await open()
    const { bus } = stage
    const done: string[] = []
    const own: { subscription?: Subscription } = {}
    own.subscription = await bus.subscribe('compute', {
      onAction: async ({ epoch }) => {
        await Promise.resolve()
        await own.subscription?.close()
        done.push(`closed in ${epoch}`)
      },
    })
    await bus.publish([action(0), action(1)])
    await expect.poll(() => done, WITHIN).toEqual(['closed in 0'])
    await own.subscription.close()
    // What it did not begin with is there for the next.
    const next = await bus.subscribe('compute', {
      onAction: ({ epoch }) => void done.push(`next has ${epoch}`),
    })
    await expect.poll(() => done, WITHIN).toEqual(['closed in 0', 'next has 1'])
    await next.close()
  })

  it('waits for a listener that is under way, also when another has closed it already from inside', async () => {
    await using stage = await open()
    const { bus } = stage
    let end = (): void => undefined
    const ended = new Promise<void>((resolve) => (end = resolve))
    const own: { subscription?: Subscription } = {}
    let isInside = false
    own.subscription = await bus.subscribe('compute', {
      onAction: async () => {
        await own.subscription?.close()
        isInside = true
        await ended
      },
    })
    await bus.publish([action(0)])
    await expect.poll(() => isInside, WITHIN).toBe(true)
    let isClosed = false
    const closed = own.subscription.close().then(() => (isClosed = true))
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect(isClosed).toBe(false)
    end()
    await closed
  })
})

describe('a processor on Redis that is closed in the middle of an effect', () => {
  it('keeps its turn until the effect has ended: nobody else begins with the same action', async () => {
    await using place = await freshRedis()
    const client = new Redis(place.url)
    // A turn lasts a second.
    const bus = new RedisBus(client, { retryAfterMs: 20 })
    const running: string[] = []
    let end = (): void => undefined
    const ended = new Promise<void>((resolve) => (end = resolve))
    const first = await bus.subscribe('compute', {
      onAction: async () => {
        running.push('first begins')
        await ended
        running.push('first ends')
      },
    })
    await bus.publish([action(0)])
    await expect.poll(() => running, WITHIN).toEqual(['first begins'])
    const closed = first.close()
    const second = await bus.subscribe('compute', {
      onAction: ({ epoch }) => void running.push(`second has ${epoch}`),
    })
    await bus.publish([action(1)])
    // A turn that is still kept is cut to its second again.
    await client.pexpire('tenure:actions:turn:compute', 60_000)
    await expect.poll(() => client.pttl('tenure:actions:turn:compute'), WITHIN).toBeLessThan(1_001)
    expect(running).toEqual(['first begins'])
    end()
    await closed
    await expect.poll(() => running.at(-1), WITHIN).toBe('second has 1')
    expect(running).toEqual(['first begins', 'first ends', 'second has 1'])
    await second.close()
    client.disconnect()
  })
})
