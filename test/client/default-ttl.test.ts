import { onTestFinished, describe, expect, it } from 'vitest'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { openTenure, type Tenure } from '../../src/index.ts'
import { workshop } from '../cli/tenure-process.ts'
import { EVERY_STORE, freshStoreOf } from '../servers/every-store.ts'

async function openOn(kind: (typeof EVERY_STORE)[number]): Promise<Tenure> {
  const tenure = await openTenure(await freshStoreOf(kind), { holder: 'ann' })
  onTestFinished(() => tenure.close())
  return tenure
}

describe.each(EVERY_STORE)('a lease on %s that names no TTL', (kind) => {
  it('lasts 30 s if it renews itself, so that nobody waits an hour for a dead holder', async () => {
    const tenure = await openOn(kind)
    const lease = await tenure.acquire('work:A')
    expect(lease.info.ttlMs).toBe(30_000)
    const attempt = await tenure.tryAcquire('work:B')
    expect(attempt.kind === 'granted' && attempt.lease.info.ttlMs).toBe(30_000)
    const { leases } = await tenure.acquireAll(['work:C', 'work:D'])
    expect(leases.map(({ info }) => info.ttlMs)).toEqual([30_000, 30_000])
  })

  it('lasts as long as its store is configured to if nothing renews it', async () => {
    const tenure = await openOn(kind)
    const lease = await tenure.acquire('work:A', { autoRenew: false })
    expect(lease.info.ttlMs).toBe(3_600_000)
  })

  it('lasts as long as was configured, also for a kind, whether or not it renews itself', async () => {
    const tenure = await openOn(kind)
    await tenure.config.set('default_ttl_seconds', 7)
    await tenure.config.set('default_ttl_seconds', 3600, { for: 'job' })
    expect((await tenure.acquire('work:A')).info.ttlMs).toBe(7_000)
    expect((await tenure.acquire('job:A')).info.ttlMs).toBe(3_600_000)
  })

  it('lasts as long as was configured, also if that is what every store begins with', async () => {
    const tenure = await openOn(kind)
    await tenure.config.set('default_ttl_seconds', 3600)
    expect((await tenure.acquire('work:A')).info.ttlMs).toBe(3_600_000)
    await tenure.config.unset('default_ttl_seconds')
    expect((await tenure.acquire('work:B')).info.ttlMs).toBe(30_000)
  })
})

describe('a command that names no TTL', () => {
  it('runs under a lease of 30 s, and acquires one of an hour', async () => {
    const shop = workshop()
    const acquired: LeaseInfo = await shop.json(['acquire', 'work:A'])
    expect(acquired.ttlMs).toBe(3_600_000)
    expect((await shop.tenure(['run', 'work:B', '--', 'true'])).code).toBe(0)
    const { leases }: { leases: LeaseInfo[] } = await shop.json(['ls', '--all'])
    expect(leases.find(({ resource }) => resource === 'work:B')?.ttlMs).toBe(30_000)
  })
})
