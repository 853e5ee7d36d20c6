/** The same fleet on every store, through the ordinary lease API. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import {
  openLeaseManager,
  runFleet,
  type Fleet,
  type LeaseManager,
  type OpenManagerOptions,
} from '../../src/fleet.ts'
import { freshDatabase, freshRedis } from '../servers/shared-servers.ts'

const SESSIONS = Array.from({ length: 12 }, (_, index) => `session-${index + 1}`)
const UUIDS = SESSIONS.map(
  (_, index) => `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`,
)
const OPTIONS: OpenManagerOptions = {
  layout: 'lease',
  ...{ leaseTtlMs: 6_000, heartbeatTtlMs: 6_000, refreshMs: 500, callMs: 3_000 },
}

/** Nobody renews, and nobody looks who is there, unless something is announced. */
const NEVER_LOOKS = {
  ...{ leaseTtlMs: 3_600_000, heartbeatTtlMs: 3_600_000, refreshMs: 1_000_000 },
} satisfies OpenManagerOptions

interface Place {
  readonly url: string
  remove(): Promise<void>
}

const STORES: Readonly<Record<string, () => Promise<Place>>> = {
  memory: async () => ({ url: `memory:fleet-${process.pid}`, remove: async () => undefined }),
  sqlite: async () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-fleet-'))
    const remove = async (): Promise<void> => fs.rmSync(directory, { recursive: true, force: true })
    return { url: `sqlite:${directory}/fleet.db`, remove }
  },
  redis: freshRedis,
  postgres: freshDatabase,
}

interface Member {
  readonly manager: LeaseManager
  readonly fleet: Fleet
}

async function join(url: string, polls: Map<string, number>): Promise<Member> {
  const manager = await openLeaseManager(url, OPTIONS)
  const poll = (sessionId: string): void => {
    polls.set(sessionId, (polls.get(sessionId) ?? 0) + 1)
  }
  return { manager, fleet: await runFleet(manager, SESSIONS, { poll, intervalMs: 50 }) }
}

/** The test's own timeout ends the wait. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(10)
}

describe.each(Object.entries(STORES))('a fleet on %s', (name, open) => {
  let place: Place

  beforeAll(async () => {
    place = await open()
  })

  afterAll(async () => place.remove())

  it('spreads, hands over and stops', async () => {
    const { url } = place
    const polls = new Map<string, number>()
    const a = await join(url, polls)
    expect(a.manager.ownedSessions().length).toBe(12)
    const b = await join(url, polls)
    const counts = (): readonly number[] => [a, b].map(({ fleet }) => fleet.polling.length)
    await until(
      () => counts().every((count) => count >= 4) && counts()[0] === 12 - (counts()[1] ?? 0),
    )
    const fences = b.manager.ownedSessions().map((id) => b.manager.leaseInfo(id).fence ?? 0)
    expect(fences.every((fence) => fence > 0)).toBe(true)
    await a.fleet.stop()
    await until(() => b.fleet.polling.length === 12)
    polls.clear()
    await until(() => polls.size === 12)
    await b.fleet.stop()
  })

  // On Redis in both layouts.
  const LAYOUTS = name === 'redis' ? (['lease', 'poll'] as const) : (['lease'] as const)

  it.each(LAYOUTS)('hears of joins, leaves and who is ready, in the layout %s', async (layout) => {
    const options = layout === 'lease' ? { namespace: 'announced' } : {}
    const start = async (): Promise<LeaseManager> => {
      const manager = await openLeaseManager(place.url, { ...NEVER_LOOKS, layout, ...options })
      await manager.start()
      onTestFinished(async () => manager.stop())
      return manager
    }
    const a = await start()
    const b = await start()
    const preferred = async (): Promise<ReadonlySet<string>> => {
      return new Set(await Promise.all(UUIDS.map(async (id) => a.preferredOwner(id))))
    }
    const preferring = async (count: number): Promise<void> => {
      while ((await preferred()).size !== count) await sleep(5)
    }
    await preferring(2)
    expect(await preferred()).toEqual(new Set([a.instanceId, b.instanceId]))
    await b.setReady(false)
    await preferring(1)
    await b.setReady(true)
    await preferring(2)
    await b.stop()
    await preferring(1)
    expect(await preferred()).toEqual(new Set([a.instanceId]))
  })
})
