/** A session is out of everybody's reach while it is let go. When that has ended, somebody looks at it again at once. */
import { describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { failWith } from '../client/harness.ts'
import { fleetWorld, REFRESH_MS, TTL_MS } from './harness.ts'
import { INTERVAL_MS, run, stop, stopOne } from './running.ts'

/** Everything here is over long before anybody looks at the fleet by itself. */
const SOON_MS = REFRESH_MS / 4
const POLL_END_MS = 20

/** A list that the test changes. */
function changing(first: readonly string[]): {
  readonly source: AsyncGenerator<readonly string[]>
  set(list: readonly string[]): void
} {
  const waiting: (readonly string[])[] = [first]
  let wake: () => void = () => undefined
  async function* source(): AsyncGenerator<readonly string[]> {
    for (;;) {
      const next = waiting.shift()
      if (next !== undefined) yield next
      else await new Promise<void>((resolve) => (wake = resolve))
    }
  }
  return {
    source: source(),
    set: (list) => {
      waiting.push(list)
      wake()
    },
  }
}

describe('a session', () => {
  it('that is removed and added again while its poll ends is polled on at once', async () => {
    const world = fleetWorld()
    const list = changing(['s', 't'])
    const poll = async (sessionId: string, { signal }: { signal: AbortSignal }): Promise<void> => {
      if (sessionId !== 's') return
      await new Promise<void>((resolve) => {
        const end = (): void => {
          world.runtime.setTimer(POLL_END_MS, resolve, { keepAlive: true })
        }
        signal.addEventListener('abort', end)
      })
    }
    const a = await run(world, list.source, { poll })
    await world.runtime.advance(INTERVAL_MS)
    list.set(['t'])
    await world.runtime.advance(POLL_END_MS / 2)
    list.set(['s', 't'])
    await world.runtime.advance(POLL_END_MS / 4)
    a.polls.length = 0
    await world.runtime.advance(SOON_MS)
    expect(a.manager.isOwned('s')).toBe(true)
    expect(a.polls.filter((id) => id === 's').length).toBe(1)
    await stop(world, a)
  })

  it('whose transfer is refused is polled on here, and offered again later', async () => {
    const world = fleetWorld()
    const a = await run(world, ['s'], { weight: 0.01 })
    await world.runtime.advance(INTERVAL_MS)
    a.faults.when('transfer', failWith('STORE_UNAVAILABLE'))
    const b = await run(world, ['s'], { weight: 100 })
    while (a.faults.count('transfer') === 0) await world.runtime.advance(10)
    a.polls.length = 0
    await world.runtime.advance(SOON_MS)
    expect(a.manager.isOwned('s')).toBe(true)
    expect(a.polls.length).toBeGreaterThan(0)
    // It is not offered again and again meanwhile: each time its poll would be broken off.
    expect(a.faults.count('transfer')).toBe(1)
    a.faults.heal('transfer')
    await world.runtime.advance(2 * REFRESH_MS)
    expect(b.manager.isOwned('s')).toBe(true)
    await stop(world, a, b)
  })

  it('whose transfer is refused while its instance is drained is offered again, but not without a pause', async () => {
    const world = fleetWorld()
    const a = await run(world, ['s'], { weight: 100 })
    const b = await run(world, ['s'], { weight: 0.01 })
    await world.runtime.advance(REFRESH_MS)
    a.faults.when('transfer', failWith('STORE_UNAVAILABLE'))
    await world.service.acquire({
      ...{
        id: world.runtime.uuid(),
        resource: parseResource(`drain:${a.manager.instanceId}`),
      },
      ...{ holder: a.manager.instanceId, session: 'fleet:drains', ttlMs: 60_000, waitMs: 0 },
    })
    await world.runtime.advance(10 * REFRESH_MS)
    expect(a.manager.isOwned('s')).toBe(true)
    expect(a.faults.count('transfer')).toBeGreaterThan(3)
    expect(a.faults.count('transfer')).toBeLessThan(20)
    a.faults.heal('transfer')
    await world.runtime.advance(2 * REFRESH_MS)
    expect(b.manager.isOwned('s')).toBe(true)
    await stop(world, a, b)
  })

  it('that nobody could be asked for after its transfer was refused is asked for again', async () => {
    const world = fleetWorld()
    const a = await run(world, ['s'], { weight: 0.01 })
    await world.runtime.advance(INTERVAL_MS)
    for (const method of ['transfer', 'acquire'] as const) {
      a.faults.when(method, failWith('STORE_UNAVAILABLE'))
    }
    const b = await run(world, ['s'], { weight: 100 })
    while (a.faults.count('transfer') === 0) await world.runtime.advance(10)
    await world.runtime.advance(SOON_MS + REFRESH_MS)
    expect(a.manager.isOwned('s')).toBe(false)
    a.faults.heal('acquire')
    await world.runtime.advance(REFRESH_MS)
    expect(a.manager.isOwned('s')).toBe(true)
    a.faults.heal('transfer')
    await stop(world, a, b)
  })

  it('that is its instance’s again after its transfer was refused is granted once, and polled under that grant', async () => {
    const world = fleetWorld()
    const fences: number[] = []
    const a = await run(world, ['s'], {
      weight: 0.01,
      poll: (_, { fence }) => void fences.push(fence),
    })
    await world.runtime.advance(INTERVAL_MS)
    for (const method of ['transfer', 'acquire'] as const) {
      a.faults.when(method, failWith('STORE_UNAVAILABLE'))
    }
    const b = await run(world, ['s'], { weight: 100 })
    while (a.faults.count('transfer') === 0) await world.runtime.advance(10)
    await stopOne(world, b)
    await world.runtime.advance(TTL_MS)
    a.events.length = 0
    a.faults.heal('acquire')
    await world.runtime.advance(2 * REFRESH_MS)
    expect(a.events.filter(([name]) => name === 'acquired').length).toBe(1)
    expect(fences.at(-1)).toBe(a.manager.leaseInfo('s').fence)
    await stop(world, a)
  })
})

describe('a poll', () => {
  it('gets a signal of its own: what the last one listened to is not told of the next', async () => {
    const world = fleetWorld()
    const signals: AbortSignal[] = []
    const a = await run(world, ['s'], { poll: (_, { signal }) => void signals.push(signal) })
    await world.runtime.advance(3 * INTERVAL_MS)
    expect(new Set(signals).size).toBe(signals.length)
    expect(signals.length).toBeGreaterThan(2)
    await stop(world, a)
    // They had all returned, and there was nothing left to stop.
    expect(signals.some(({ aborted }) => aborted)).toBe(false)
  })

  it('that is under way is told to stop by its own signal', async () => {
    const world = fleetWorld()
    const signals: AbortSignal[] = []
    const poll = async (_: string, { signal }: { signal: AbortSignal }): Promise<void> => {
      signals.push(signal)
      if (signals.length < 3) return
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    }
    const a = await run(world, ['s'], { poll })
    await world.runtime.advance(5 * INTERVAL_MS)
    await stop(world, a)
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false, true])
  })
})
