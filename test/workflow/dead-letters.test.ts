/** Which actions become dead letters, which never do, and how an operator sends them again. */
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { ActionGuard, LocalBus, RedisBus, type Action } from '../../src/workflow/index.ts'
import { freshRedis, type Place } from '../servers/shared-servers.ts'
import { action, OLD } from './mark-stages.ts'
import { WITHIN } from './redis-clients.ts'

const AWAY = new LeaseError('STORE_UNAVAILABLE', 'the store is away')

function epochs(count: number): readonly Action[] {
  return Array.from({ length: count }, (_, epoch) => action(epoch))
}

describe('a bus within a process', () => {
  function newStage() {
    const runtime = new FakeRuntime()
    const bus = new LocalBus({ runtime, deliveriesMax: 3, retryAfterMs: 100 })
    return { runtime, bus }
  }

  it('gives no action up because a store was away, however long, and keeps the order', async () => {
    const { bus, runtime } = newStage()
    const done: number[] = []
    let isAway = true
    await bus.subscribe('compute', {
      onAction: ({ epoch }) => {
        if (isAway) throw AWAY
        done.push(epoch)
      },
    })
    await bus.publish(epochs(3))
    await runtime.advance(60_000)
    expect([done, bus.deadLetters]).toEqual([[], []])
    isAway = false
    await runtime.advance(20_000)
    expect(done).toEqual([0, 1, 2])
  })

  it('asks a store that is away ever more rarely', async () => {
    const { bus, runtime } = newStage()
    let tries = 0
    await bus.subscribe('compute', {
      onAction: () => {
        tries += 1
        throw AWAY
      },
    })
    await bus.publish([action(0)])
    await runtime.advance(600_000)
    expect(tries).toBeLessThan(150)
  })

  it('counts what fails beside what only waits', async () => {
    const { bus, runtime } = newStage()
    const thrown = [AWAY, new Error('one'), AWAY, AWAY, AWAY, new Error('two'), new Error('three')]
    await bus.subscribe('compute', {
      onAction: () => {
        const error = thrown.shift()
        if (error !== undefined) throw error
      },
    })
    await bus.publish([action(0)])
    await runtime.advance(60_000)
    expect(bus.deadLetters.map(({ reason }) => reason)).toEqual(['three'])
  })

  it('sends a dead letter again, which a lenient guard then carries out', async () => {
    const { bus, runtime } = newStage()
    const guard = new ActionGuard()
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    const done: number[] = []
    let isBroken = true
    await guard.subscribe(bus, 'compute', (_, context) => {
      if (context.action.epoch === 1 && isBroken) throw new Error('broken')
      done.push(context.action.epoch)
    })
    await bus.publish(epochs(4))
    await runtime.advance(10_000)
    expect(done).toEqual([0, 2, 3])
    const [letter] = bus.deadLetters
    isBroken = false
    await bus.resend(letter?.id ?? '')
    await runtime.advance(10_000)
    expect(done).toEqual([0, 2, 3, 1])
    expect(bus.deadLetters).toEqual([])
    await expect(bus.resend(letter?.id ?? '')).rejects.toThrow('id must be that of a dead letter')
  })
})

describe('a bus on Redis', () => {
  let place: Place
  let client: Redis
  const opened: Redis[] = []

  /** As another process would be connected. */
  function connect(): Redis {
    const connection = new Redis(place.url)
    connection.on('error', () => undefined)
    opened.push(connection)
    return connection
  }

  beforeEach(async () => {
    place = await freshRedis()
    client = connect()
  })

  afterEach(async () => {
    for (const connection of opened.splice(0)) connection.disconnect()
    await place.remove()
  })

  it('makes no dead letters of actions that only waited while their processors were replaced in order', async () => {
    const bus = new RedisBus(client, { deliveriesMax: 2, retryAfterMs: 20 })
    await bus.publish(epochs(60))
    const done: number[] = []
    for (let n = 0; n < 8; n += 1) {
      const before = done.length
      const subscription = await bus.subscribe('compute', {
        onAction: ({ epoch }) => void done.push(epoch),
      })
      await expect.poll(() => done.length, { ...WITHIN, interval: 1 }).toBeGreaterThan(before)
      await subscription.close()
    }
    const last = await bus.subscribe('compute', {
      onAction: ({ epoch }) => void done.push(epoch),
    })
    await expect.poll(() => done.at(-1), WITHIN).toBe(59)
    expect(done).toEqual(epochs(60).map(({ epoch }) => epoch))
    expect(await bus.deadLetters()).toEqual([])
    await last.close()
  })

  it('nor of actions whose processors were replaced while a store was away', async () => {
    const bus = new RedisBus(client, { deliveriesMax: 2, retryAfterMs: 20 })
    await bus.publish(epochs(3))
    for (let n = 0; n < 6; n += 1) {
      let tries = 0
      const subscription = await bus.subscribe('compute', {
        onAction: () => {
          tries += 1
          throw AWAY
        },
      })
      await expect.poll(() => tries, WITHIN).toBeGreaterThanOrEqual(n === 0 ? 4 : 1)
      await subscription.close()
    }
    const done: number[] = []
    const last = await bus.subscribe('compute', {
      onAction: ({ epoch }) => void done.push(epoch),
    })
    await expect.poll(() => done, WITHIN).toEqual([0, 1, 2])
    expect(await bus.deadLetters()).toEqual([])
    await last.close()
  })

  it('makes a dead letter, unread, of what brings its processors down again and again, and of nothing behind it', async () => {
    const bus = new RedisBus(client, { deliveriesMax: 2 })
    await bus.publish(epochs(2))
    let end = (): void => undefined
    const never = new Promise<void>((resolve) => (end = resolve))
    const hung = []
    for (let n = 0; n < 3; n += 1) {
      // Cut off in the middle of an effect that does not end: as good as dead.
      const own = connect()
      const connection = own.duplicate()
      opened.push(connection)
      own.duplicate = () => connection
      let began = false
      const dying = new RedisBus(own, { deliveriesMax: 2 })
      hung.push(
        await dying.subscribe('compute', {
          onAction: () => {
            began = true
            return never
          },
        }),
      )
      await expect.poll(() => began, WITHIN).toBe(true)
      connection.disconnect()
      await client.del('tenure:actions:turn:compute')
    }
    const done: number[] = []
    const subscription = await bus.subscribe('compute', {
      onAction: ({ epoch }) => void done.push(epoch),
    })
    await expect.poll(() => done, WITHIN).toEqual([1])
    const letters = await bus.deadLetters()
    expect(letters.map(({ reason }) => reason)).toEqual([
      'was delivered 3 times and never answered',
    ])
    await subscription.close()
    end()
    await Promise.all(hung.map((one) => one.close()))
  })

  it('sends again what cannot be read to the target alone that it is a dead letter of', async () => {
    const bus = new RedisBus(client)
    const done: string[] = []
    const targets = ['compute', 'effect']
    const subscriptions = await Promise.all(
      targets.map((target) => bus.subscribe(target, { onAction: () => void done.push(target) })),
    )
    await client.xadd('tenure:actions', '*', 'message', 'not an action')
    await expect.poll(async () => (await bus.deadLetters()).length, WITHIN).toBe(2)
    const [letter] = await bus.deadLetters()
    await bus.resend(letter?.id ?? '')
    await bus.publish([action(0, { target: '*' })])
    await expect.poll(() => done.length, WITHIN).toBe(2)
    const letters = await bus.deadLetters()
    expect(letters.map(({ target }) => target).toSorted()).toEqual(targets)
    await Promise.all(subscriptions.map((one) => one.close()))
  })

  it('sends a dead letter again, to the target that it failed at alone', async () => {
    const bus = new RedisBus(client, { deliveriesMax: 2, retryAfterMs: 20 })
    const guard = new ActionGuard()
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    const done: number[] = []
    const elsewhere: number[] = []
    let isBroken = true
    const subscriptions = [
      await guard.subscribe(bus, 'compute', (_, context) => {
        if (context.action.epoch === 1 && isBroken) throw new Error('broken')
        done.push(context.action.epoch)
      }),
      await bus.subscribe('effect', { onAction: ({ epoch }) => void elsewhere.push(epoch) }),
    ]
    await bus.publish(epochs(3).map((one) => ({ ...one, target: '*' })))
    await expect.poll(() => done, WITHIN).toEqual([0, 2])
    const [letter] = await bus.deadLetters()
    isBroken = false
    await bus.resend(letter?.id ?? '')
    await expect.poll(() => done, WITHIN).toEqual([0, 2, 1])
    await bus.publish([action(3, { target: '*' })])
    await expect.poll(() => elsewhere.at(-1), WITHIN).toBe(3)
    expect(elsewhere).toEqual([0, 1, 2, 3])
    expect(await bus.deadLetters()).toEqual([])
    await expect(bus.resend('1-1')).rejects.toThrow('id must be that of a dead letter, got "1-1"')
    await expect(bus.resend('x')).rejects.toThrow('id must be that of a dead letter, got "x"')
    await Promise.all(subscriptions.map((one) => one.close()))
  })
})
