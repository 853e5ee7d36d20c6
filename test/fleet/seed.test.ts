/** What the reader of the polling fleet's design writes first, with what `tenure/fleet` exports and nothing else. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  assignOwners,
  openLeaseManager,
  preferredOwner,
  runFleet,
  type LeaseManager,
  type PollContext,
} from '../../src/fleet.ts'
import { guard } from '../../src/guard/index.ts'
import { freshRedis } from '../servers/shared-servers.ts'

const SESSIONS = Array.from(
  { length: 9 },
  (_, index) => `00000000-0000-4000-8000-00000000000${index + 1}`,
)

async function redisUrl(): Promise<string> {
  const place = await freshRedis()
  onTestFinished(async () => place.remove())
  return place.url
}

const memoryUrl = async (): Promise<string> => `memory:seed-b-${process.pid}`

async function started(url: string): Promise<LeaseManager> {
  const manager = await openLeaseManager(url)
  await manager.start()
  onTestFinished(async () => manager.stop())
  return manager
}

/** The test's own timeout ends the wait. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(5)
}

describe('RendezvousHasher', () => {
  it('can be called without a manager, and agrees with every manager', async () => {
    const url = await memoryUrl()
    const a = await started(url)
    const b = await started(url)
    const liveNodes = await b.getLiveNodes()
    expect(liveNodes).toEqual([a.instanceId, b.instanceId].toSorted())
    for (const sessionId of SESSIONS) {
      const owner = preferredOwner(sessionId, liveNodes)
      expect(owner).toBe(await b.preferredOwner(sessionId))
      expect(preferredOwner(sessionId, liveNodes.toReversed())).toBe(owner)
    }
  })

  it('takes weights, and assigns all sessions within the bound on load', () => {
    const liveNodes = ['a', 'b', { instanceId: 'c', weight: 1 }]
    const owners = [...assignOwners(SESSIONS, liveNodes).values()]
    expect(owners).toHaveLength(9)
    for (const node of ['a', 'b', 'c']) {
      expect(owners.filter((owner) => owner === node).length).toBeLessThanOrEqual(4)
    }
    expect(preferredOwner('s', [])).toBeNull()
    expect(assignOwners(['s'], []).size).toBe(0)
  })

  it('says what is wrong with what it is given', () => {
    expect(() => preferredOwner('', ['a'])).toThrow('sessionId must be 1..1024 bytes, got ""')
    expect(() => preferredOwner('s', [''])).toThrow('instanceId must be 1..1024 bytes, got ""')
    expect(() => preferredOwner('s', [{ instanceId: 'a', weight: 0 }])).toThrow('weight must be')
    expect(() => preferredOwner('s', 'a' as unknown as string[])).toThrow(
      'liveNodes must be an array, got "a"',
    )
  })
})

describe('LeaseManager', () => {
  it('answers IsOwned and OwnedSessions at any time; before Start and after Stop nothing is owned', async () => {
    const [sessionId = ''] = SESSIONS
    const manager = await openLeaseManager('memory:')
    const owned = (): unknown => [
      ...[manager.isOwned(sessionId), manager.ownedSessions()],
      ...[manager.state(sessionId), manager.leaseOf(sessionId)?.resource ?? null],
    ]
    expect(owned()).toEqual([false, [], 'unknown', null])
    await manager.start()
    expect(await manager.tryAcquire(sessionId)).toBe(true)
    expect(owned()).toEqual([true, [sessionId], 'owned', `session:${sessionId}`])
    const stopping = manager.stop()
    expect(owned()).toEqual([false, [], 'unknown', null])
    await stopping
    expect(owned()).toEqual([false, [], 'unknown', null])
  })

  it('ends a loop that polls while IsOwned, at shutdown, without an error', async () => {
    const [sessionId = ''] = SESSIONS
    const manager = await started('memory:')
    await manager.tryAcquire(sessionId)
    let polls = 0
    const loop = (async () => {
      while (manager.isOwned(sessionId)) {
        polls += 1
        await sleep(1)
      }
    })()
    await until(() => polls > 2)
    await manager.stop()
    await expect(loop).resolves.toBeUndefined()
  })

  it('may be stopped before it was started, and started afterwards', async () => {
    const manager = await openLeaseManager('memory:')
    await manager.stop()
    await manager.start()
    await manager.stop()
  })
})

describe('a poller', () => {
  it.each([
    ['lease', memoryUrl],
    ['poll', redisUrl],
  ] as const)('has a lease that a guard takes, in the layout %s', async (layout, urlOf) => {
    const manager = await openLeaseManager(await urlOf(), { layout })
    const [sessionId = ''] = SESSIONS
    const marks = guard.memory()
    const polled = await new Promise<PollContext>((resolve, reject) => {
      const poll = async (id: string, lease: PollContext): Promise<void> => {
        marks.write(lease, () => undefined, { resource: `session:${id}` })
        resolve(lease)
      }
      runFleet(manager, [sessionId], { poll }).then((fleet) => {
        fleet.on('poll_failed', ({ error }) => reject(error as Error))
        onTestFinished(async () => fleet.stop())
      }, reject)
    })
    expect(polled).toMatchObject({ resource: `session:${sessionId}`, mode: 'exclusive' })
    // The same lease without a runner, as after TryAcquire.
    const { signal: _signal, ...lease } = polled
    expect(manager.leaseOf(sessionId)).toEqual(lease)
    const later = { ...lease, id: SESSIONS[8] ?? '', fence: lease.fence + 1 }
    marks.write(later, () => undefined)
    expect(() => marks.write(lease, () => undefined)).toThrow(
      expect.objectContaining({ code: 'STALE_FENCE' }),
    )
  })
})
