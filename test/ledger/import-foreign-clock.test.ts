/** Whoever held a lease when its ledger was exported may still count on it, on whatever store the ledger is imported. */
import { expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import type { AcquireAnswer } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { restoreLedger } from '../../src/service/restore-ledger.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime, ManualTicks } from '../../src/testing/fake-runtime.ts'
import { Family, id, ROOT_TTL_MS } from '../delegation/family.ts'
import { openOnTicksOf, STORES_ON_TICKS } from '../delegation/stores-on-ticks.ts'

/** Boss has a directory, lead a part of it, and both are at work. */
async function exportedFamily(): Promise<Family> {
  const ticks = new ManualTicks()
  ticks.enterDomain('elsewhere/boot-1/0')
  const family = new Family(() => new MemoryStore({ ticks }))
  const root = await family.root('file:/repo', 'subtree')
  await family.derive(root, { resource: 'file:/repo/src/a.ts', holder: 'lead' })
  return family
}

it.each(STORES_ON_TICKS)('nobody is given on %s what another clock has given', async (kind) => {
  const family = await exportedFamily()
  const history = await family.store.history({ limit: 100 })
  const events = history.map(({ event }) => event)
  const { store, clock } = await openOnTicksOf(kind)
  await restoreLedger(store, events, { resume: false })
  const api = new LeaseService({ store, runtime: new FakeRuntime() })
  let asked = 0
  const ask = (name: string): Promise<AcquireAnswer> => {
    asked += 1
    const who = { id: id(asked), holder: 'eve', session: 'eve', ttlMs: 1_000, waitMs: 0 }
    return api.acquire({ ...who, resource: parseResource(name) })
  }
  const early = await ask('file:/repo')
  expect(early).toMatchObject({ kind: 'held', blockers: [{ kind: 'lock_delay', holder: 'boss' }] })
  const ends = (await store.history({ limit: 100, types: ['lease.expired'] })).map(({ event }) => {
    return event.holder
  })
  expect(ends.toSorted()).toEqual(['boss', 'lead'])
  clock.pass(ROOT_TTL_MS - 1)
  expect((await ask('file:/repo/src/a.ts')).kind).toBe('held')
  clock.pass(2)
  expect((await ask('file:/repo/src/a.ts')).kind).toBe('granted')
})
