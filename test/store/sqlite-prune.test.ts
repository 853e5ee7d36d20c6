/** Pruning on SQLite, batch by batch. */
import { expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'
import { sqliteSubject } from './sqlite-subject.ts'

it('looks through what living leases have left once nothing that has ended is left to remove', async () => {
  const ticks = new ManualTicks()
  const { store, close } = await sqliteSubject.open(ticks)
  const api = new LeaseService({ store, runtime: systemRuntime })
  const who = { holder: 'ada', session: 'ada', waitMs: 0 }
  const held = { id: systemRuntime.uuid(), resource: parseResource('work:held') }
  await api.acquire({ ...who, ...held, ttlMs: 86_400_000 })
  for (let renewals = 0; renewals < 3; renewals += 1) {
    ticks.pass(1)
    await api.renew({ id: held.id, holder: 'ada' })
  }
  for (const name of ['a', 'b', 'c']) {
    const ended = { id: systemRuntime.uuid(), resource: parseResource(`work:${name}`) }
    await api.acquire({ ...who, ...ended, ttlMs: 1_000 })
    await api.release({ id: ended.id, holder: 'ada' })
  }
  ticks.pass(3_600_000)
  const nowMs = ticks.wallMs()
  const policy = { endedBeforeMs: nowMs - 60_000, nowMs, batch: 2 }
  expect(await store.prune(policy)).toEqual({ leases: 2, events: 4, more: true })
  expect(await store.prune(policy)).toEqual({ leases: 1, events: 4, more: true })
  expect(await store.prune(policy)).toEqual({ leases: 0, events: 0, more: false })
  await api.close()
  await close()
})
