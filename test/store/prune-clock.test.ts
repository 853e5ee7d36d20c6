/** A wall clock that is wrong for the moment of a sweep takes nothing out of the history, nor out of the memory of requests. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'

const DAY_MS = 86_400_000
const SWEEP_MS = 300_000
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-prune-clock-'))
const services: LeaseApi[] = []
let files = 0

afterEach(async () => {
  await Promise.all(services.splice(0).map((service) => service.close()))
})

afterAll(() => fs.rmSync(directory, { recursive: true, force: true }))

const STORES = {
  memory: async (ticks: ManualTicks) => new MemoryStore({ ticks }),
  sqlite: async (ticks: ManualTicks) => {
    files += 1
    return SqliteStore.open({ path: path.join(directory, `${files}.db`), ticks })
  },
} as const

describe.each(['memory', 'sqlite'] as const)('%s', (kind) => {
  async function opened(ticks: ManualTicks): Promise<LeaseApi> {
    const store = await STORES[kind](ticks)
    const service = new LeaseService({ store, runtime: systemRuntime })
    services.push(service)
    return service
  }

  const request = {
    id: systemRuntime.uuid(),
    resource: parseResource('work:W-1'),
    holder: 'ada',
    session: 'ada',
    waitMs: 0,
  }

  async function used(api: LeaseApi): Promise<void> {
    expect((await api.acquire(request)).kind).toBe('granted')
    await api.release({ id: request.id, holder: 'ada', requestId: systemRuntime.uuid() })
  }

  it.each([
    ['every lease and its history', 'true'],
    ['the ids of requests where no history is kept', 'false'],
  ])('keeps %s when a sweep meets the wall clock 400 days ahead', async (_, keepHistory) => {
    const ticks = new ManualTicks()
    const api = await opened(ticks)
    await api.configure({
      key: 'keep_history',
      value: keepHistory,
      scope: 'global',
      resourceId: null,
    })
    await used(api)
    ticks.pass(SWEEP_MS)
    await api.cleanup()
    const before = await api.history({})
    ticks.stepWall(400 * DAY_MS)
    for (let batch = 0; batch < 3; batch += 1) {
      expect(await api.cleanup()).toMatchObject({ prunedLeases: 0, prunedEvents: 0 })
    }
    ticks.stepWall(-400 * DAY_MS)
    ticks.pass(SWEEP_MS)
    await api.cleanup()
    expect(await api.history({})).toEqual(before)
    expect((await api.acquire(request)).kind).toBe('terminal')
  })

  it('forgets the id of a renewal with its event', async () => {
    const ticks = new ManualTicks()
    const api = await opened(ticks)
    const { id, holder } = request
    await api.acquire({ ...request, ttlMs: 30 * DAY_MS })
    const requestId = systemRuntime.uuid()
    ticks.pass(1)
    await api.renew({ id, holder, requestId })
    for (let day = 0; day < 45; day += 1) {
      if (day % 20 === 19) await api.renew({ id, holder })
      ticks.pass(DAY_MS)
      await api.cleanup()
    }
    const types = (await api.history({ id })).map(({ event }) => event.type)
    expect(types).toEqual(['lease.issued', 'lease.renewed', 'lease.renewed'])
    const again = await api.renew({ id, holder, requestId })
    expect(again).toMatchObject({ kind: 'renewed', lease: { renewals: 4 } })
  })

  it('goes on pruning in time afterwards', async () => {
    const ticks = new ManualTicks()
    const api = await opened(ticks)
    await used(api)
    ticks.stepWall(400 * DAY_MS)
    await api.cleanup()
    ticks.stepWall(-400 * DAY_MS)
    for (let day = 0; day < 30; day += 1) {
      ticks.pass(DAY_MS)
      expect(await api.cleanup()).toMatchObject({ prunedLeases: 0 })
    }
    ticks.pass(1)
    expect(await api.cleanup()).toMatchObject({ prunedLeases: 1, prunedEvents: 2 })
  })
})
