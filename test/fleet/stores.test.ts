/** The same fleet on every store, through the ordinary lease API. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import {
  openLeaseManager,
  runFleet,
  type Fleet,
  type LeaseManager,
  type OpenManagerOptions,
} from '../../src/fleet.ts'
import { freshDatabase, freshRedis } from '../servers/shared-servers.ts'

const SESSIONS = Array.from({ length: 12 }, (_, index) => `session-${index + 1}`)
const OPTIONS: OpenManagerOptions = {
  layout: 'lease',
  ...{ leaseTtlMs: 3_000, heartbeatTtlMs: 3_000, refreshMs: 500 },
}

const STORES: Readonly<Record<string, () => Promise<string>>> = {
  memory: async () => `memory:fleet-${process.pid}`,
  sqlite: async () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-fleet-'))
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
    return `sqlite:${directory}/fleet.db`
  },
  redis: async () => {
    const place = await freshRedis()
    onTestFinished(async () => place.remove())
    return place.url
  },
  postgres: async () => {
    const place = await freshDatabase()
    onTestFinished(async () => place.remove())
    return place.url
  },
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

it.each(Object.keys(STORES))('a fleet on %s spreads, hands over and stops', async (name) => {
  const url = (await STORES[name]?.()) ?? ''
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
