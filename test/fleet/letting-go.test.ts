/** Whoever lets a session go, and however: its poll has ended before anybody else can begin one. */
import { describe, expect, it } from 'vitest'
import { runFleet } from '../../src/fleet/fleet-runner.ts'
import { hang } from '../client/harness.ts'
import { fleetWorld, REFRESH_MS, TTL_MS } from './harness.ts'
import { counts, INTERVAL_MS, POLL_TIMEOUT_MS, run, stop } from './running.ts'

const ABORTED_MS = 10

/** Polls that go on until they are told to stop, and a while longer. */
function slowPolls(world: ReturnType<typeof fleetWorld>): {
  readonly under: Set<string>
  readonly fences: number[]
  readonly poll: (
    sessionId: string,
    context: { fence: number; signal: AbortSignal },
  ) => Promise<void>
} {
  const under = new Set<string>()
  const fences: number[] = []
  return {
    ...{ under, fences },
    poll: (sessionId, { fence, signal }) =>
      new Promise((resolve) => {
        under.add(sessionId)
        fences.push(fence)
        const end = (): void => {
          under.delete(sessionId)
          resolve()
        }
        const onAbort = (): void => {
          world.runtime.setTimer(ABORTED_MS, end, { keepAlive: true })
        }
        signal.addEventListener('abort', onAbort)
      }),
  }
}

describe('a manager with a fleet', () => {
  it('stops the fleet in order when it is stopped itself', async () => {
    const world = fleetWorld()
    const { poll, under } = slowPolls(world)
    const a = await run(world, ['s'], { poll })
    const underThen: number[] = []
    a.manager.on('released', () => underThen.push(under.size))
    expect([...under]).toEqual(['s'])
    const stopped = a.manager.stop()
    await world.runtime.advance(10 * ABORTED_MS)
    await stopped
    expect([...under]).toEqual([])
    expect(underThen).toEqual([0])
    expect(counts(a)).toEqual([0])
    await a.fleet.stop()
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('releases a session when its poll has ended, and polls with the fence of the next grant', async () => {
    const world = fleetWorld()
    const { poll, under, fences } = slowPolls(world)
    const a = await run(world, ['s'], { poll })
    const released = a.manager.release('s')
    await world.runtime.settle()
    expect(a.manager.isOwned('s')).toBe(true)
    await world.runtime.advance(10 * ABORTED_MS)
    await released
    expect([...under]).toEqual([])
    await world.runtime.advance(2 * REFRESH_MS)
    expect(fences.length).toBe(2)
    expect(fences[1]).toBe(a.manager.leaseInfo('s').fence)
    expect(fences[1]).toBeGreaterThan(fences[0] ?? Infinity)
    await stop(world, a)
  })

  it('polls with the fence of the next grant where the one before was over and nobody had looked', async () => {
    const world = fleetWorld()
    const fences: number[] = []
    const a = await run(world, ['s'], { poll: (_, { fence }) => void fences.push(fence) })
    world.runtime.stall(TTL_MS)
    expect(await a.manager.tryAcquire('s')).toBe(true)
    await world.runtime.advance(2 * INTERVAL_MS)
    expect(fences[0]).toBeLessThan(fences[1] ?? 0)
    expect(fences.at(-1)).toBe(a.manager.leaseInfo('s').fence)
    await stop(world, a)
  })

  it.each([1, 2])(
    'releases a session when its poll has ended, although poll %i asks for that as it begins',
    async (asking) => {
      const world = fleetWorld()
      const { manager } = world.instance()
      const fences: number[] = []
      let under = 0
      const underThen: number[] = []
      manager.on('released', () => underThen.push(under))
      const fleet = await runFleet(manager, ['s'], {
        intervalMs: INTERVAL_MS,
        poll: async (sessionId, { fence }) => {
          fences.push(fence)
          if (fences.length !== asking) return
          under += 1
          void manager.release(sessionId)
          await new Promise<void>((resolve) => {
            world.runtime.setTimer(ABORTED_MS, resolve, { keepAlive: true })
          })
          under -= 1
        },
      })
      await world.runtime.advance(2 * INTERVAL_MS)
      expect(underThen).toEqual([0])
      await world.runtime.advance(2 * REFRESH_MS)
      expect(fences.at(-1)).toBe(manager.leaseInfo('s').fence)
      await fleet.stop()
    },
  )

  it('hands a session over when its poll has ended', async () => {
    const world = fleetWorld()
    const { poll, under } = slowPolls(world)
    const a = await run(world, ['s'], { poll })
    const b = world.instance()
    await b.manager.start()
    await a.manager.getLiveNodes()
    const underThen: number[] = []
    b.manager.on('acquired', () => underThen.push(under.size))
    const given = a.manager.handOver('s', b.manager.instanceId)
    await world.runtime.advance(10 * ABORTED_MS)
    expect(await given).toBe(true)
    await world.runtime.advance(1)
    expect(b.manager.isOwned('s')).toBe(true)
    expect(underThen).toEqual([0])
    await b.manager.stop()
    await stop(world, a)
  })

  it('cannot be had once it was stopped', async () => {
    const world = fleetWorld()
    const { manager } = world.instance()
    await manager.start()
    await manager.stop()
    const running = runFleet(manager, ['s'], { poll: () => undefined })
    await expect(running).rejects.toMatchObject({ code: 'CLOSED' })
  })

  it('has one at a time', async () => {
    const world = fleetWorld()
    const a = await run(world, ['s'])
    const again = runFleet(a.manager, ['s'], { poll: () => undefined })
    await expect(again).rejects.toThrow(/runFleet must be called once for a manager/)
    expect(counts(a)).toEqual([1])
    await stop(world, a)
  })
})

describe('stopping', () => {
  it('frees what nobody takes all at once, however much it is', async () => {
    const world = fleetWorld()
    const many = Array.from({ length: 2_000 }, (_, index) => `s-${index}`)
    const a = await run(world, many)
    const stopped = a.fleet.stop()
    await world.runtime.advance(20)
    await stopped
    expect(a.events.filter(([name]) => name === 'released').length).toBe(2_000)
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('breaks a start off, and whoever waits for that hears of it', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    faults.when('list', hang)
    const started = manager.start().then(
      () => 'started',
      (error: unknown) => (error as { readonly code: string }).code,
    )
    await world.runtime.settle()
    const stopped = manager.stop()
    await world.runtime.advance(TTL_MS)
    await stopped
    expect(await started).toBe('CLOSED')
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('breaks off a fleet that is about to run', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    faults.when('list', hang)
    const running = runFleet(manager, ['s'], { poll: () => undefined }).then(
      () => 'running',
      (error: unknown) => (error as { readonly code: string }).code,
    )
    await world.runtime.settle()
    const stopped = manager.stop()
    await world.runtime.advance(TTL_MS)
    await stopped
    expect(await running).toBe('CLOSED')
    expect(world.runtime.pendingTimers).toBe(0)
  })
})

describe('a poll that overran', () => {
  it('is followed by others where there is nobody to hand its session to', async () => {
    const world = fleetWorld()
    let slow = true
    const poll = async (_: string, { signal }: { signal: AbortSignal }): Promise<void> => {
      if (!slow) return
      slow = false
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    }
    const a = await run(world, ['s'], { poll })
    await world.runtime.advance(POLL_TIMEOUT_MS)
    expect(a.failures).toEqual([`the poll did not return within ${POLL_TIMEOUT_MS} ms (1)`])
    a.polls.length = 0
    await world.runtime.advance(10 * INTERVAL_MS)
    expect(a.polls.length).toBeGreaterThanOrEqual(9)
    await stop(world, a)
  })
})
