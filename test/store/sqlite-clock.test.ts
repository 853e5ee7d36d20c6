import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { AcquireAnswer } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'

const RESOURCE = parseResource('work:W-1')
let directory: string
let services: LeaseService[]

async function open(ticks: ManualTicks): Promise<LeaseService> {
  const store = await SqliteStore.open({ path: path.join(directory, 'leases.db'), ticks })
  const service = new LeaseService({ store, runtime: systemRuntime })
  services.push(service)
  return service
}

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-clock-'))
  services = []
})

afterEach(async () => {
  await Promise.all(services.map((service) => service.close()))
  fs.rmSync(directory, { recursive: true, force: true })
})

function acquire(service: LeaseService, holder: string): Promise<AcquireAnswer> {
  const leaseId = systemRuntime.uuid()
  const request = {
    id: leaseId,
    resource: RESOURCE,
    holder,
    session: holder,
    ttlMs: 60_000,
    waitMs: 0,
  }
  return service.acquire(request)
}

describe('a clock that a process met without writing anything', () => {
  it('is never mistaken for the one that another process wrote down', async () => {
    const here = await open(new ManualTicks('host-b/boot-b/0'))
    const there = await open(new ManualTicks('host-c/boot-c/0'))
    const nothing = {
      id: systemRuntime.uuid(),
      resource: RESOURCE,
      holder: 'here',
      session: 'here',
    }
    expect((await here.claim(nothing)).kind).toBe('dropped')
    expect((await acquire(there, 'there')).kind).toBe('granted')
    const answer = await acquire(here, 'here')
    expect(answer).toMatchObject({ kind: 'held', blockers: [{ kind: 'lock_delay' }] })
  })
})

describe('where the platform cannot tell one boot from the next', () => {
  it('those who have the store open together share a clock, even before anything was written', async () => {
    const first = await open(new ManualTicks(null))
    const second = await open(new ManualTicks(null))
    expect((await acquire(first, 'first')).kind).toBe('granted')
    const answer = await acquire(second, 'second')
    expect(answer).toMatchObject({ kind: 'held', blockers: [{ kind: 'lease' }] })
  })

  it('a clock that went back is another one, and nobody gets a lease of the old one before its TTL', async () => {
    const ticks = new ManualTicks(null)
    ticks.pass(10_000)
    const before = await open(ticks)
    expect((await acquire(before, 'before')).kind).toBe('granted')
    await before.close()
    const answer = await acquire(await open(new ManualTicks(null)), 'after')
    expect(answer).toMatchObject({ kind: 'held', blockers: [{ kind: 'lock_delay' }] })
  })
})

it('two containers of one boot share its clock although each calls its host by another name', async () => {
  const one = await open(new ManualTicks('host-one/boot-1/0'))
  const two = await open(new ManualTicks('host-two/boot-1/0'))
  expect((await acquire(one, 'one')).kind).toBe('granted')
  expect((await two.inspect({ resource: RESOURCE })).leases).toHaveLength(1)
  expect((await acquire(two, 'two')).kind).toBe('held')
  expect((await one.inspect({ resource: RESOURCE })).leases).toHaveLength(1)
})
