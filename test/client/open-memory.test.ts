import { describe, expect, it, vi } from 'vitest'
import { openTenure } from '../../src/open.ts'

vi.mock('../../src/store/sqlite/sqlite-store.ts', () => {
  throw new Error('the SQLite store was loaded')
})

describe('a program that keeps its leases in memory', () => {
  it('never loads the SQLite store, let alone its driver', async () => {
    const tenure = await openTenure('memory:', { holder: 'alice' })
    await (await tenure.acquire('work:W-1')).release()
    await tenure.close()
    await expect(openTenure('sqlite:any.db', { holder: 'alice' })).rejects.toThrow()
  })
})
