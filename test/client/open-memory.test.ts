import { afterEach, describe, expect, it, vi } from 'vitest'
import { openTenure } from '../../src/open.ts'

vi.mock('../../src/store/sqlite/sqlite-store.ts', () => {
  throw new Error('the SQLite store was loaded')
})

const DAY_MS = 86_400_000

afterEach(() => {
  vi.useRealTimers()
})

describe('a program that keeps its leases in memory', () => {
  it('never loads the SQLite store, let alone its driver', async () => {
    const tenure = await openTenure('memory:', { holder: 'alice' })
    await (await tenure.acquire('work:W-1')).release()
    await tenure.close()
    await expect(openTenure('sqlite:any.db', { holder: 'alice' })).rejects.toThrow()
  })

  it('keeps what has ended for a day, in which requests may be repeated, and no longer', async () => {
    const tenure = await openTenure('memory:', { holder: 'alice' })
    const lease = await tenure.acquire('work:W-1')
    await lease.release()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + DAY_MS / 2 })
    expect(await tenure.cleanup()).toMatchObject({ prunedLeases: 0 })
    vi.setSystemTime(Date.now() + DAY_MS)
    expect(await tenure.cleanup()).toMatchObject({ prunedLeases: 1 })
    expect(await tenure.get(lease.id)).toBeNull()
    await tenure.close()
  })
})
