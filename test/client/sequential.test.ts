/** A session that does one thing after another shares a thing once, in whatever process it asks. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { openTenure, type Tenure } from '../../src/index.ts'
import { EVERY_STORE, freshStoreOf } from '../servers/every-store.ts'

async function openTwice(kind: (typeof EVERY_STORE)[number]): Promise<readonly [Tenure, Tenure]> {
  const url = await freshStoreOf(kind)
  const open = async (): Promise<Tenure> => {
    const tenure = await openTenure(url, { holder: 'ann', session: 'ann', sequential: true })
    onTestFinished(() => tenure.close())
    return tenure
  }
  return [await open(), await open()]
}

describe.each(EVERY_STORE)('a sequential session on %s', (kind) => {
  it('that asks again for what it shares is refused with its own lease', async () => {
    const [one, two] = await openTwice(kind)
    const lease = await one.acquire('doc:A', { mode: 'shared' })
    const refused = { code: 'RESOURCE_HELD', details: { blockers: [{ leaseId: lease.id }] } }
    const again = { mode: 'shared', waitMs: 60_000 } as const
    await expect(two.acquire('doc:A', again)).rejects.toMatchObject(refused)
    const several = two.acquireAll(['doc:B', { resource: 'doc:A', mode: 'shared' }])
    await expect(several).rejects.toMatchObject(refused)
    expect(await two.isHeld('doc:B')).toBe(false)
    await lease.release()
    expect((await two.acquire('doc:A', again)).state).toBe('held')
  })

  it('may have several places of what is counted', async () => {
    const [one, two] = await openTwice(kind)
    await one.acquire('pool:gpu', { slots: 2 })
    expect((await two.acquire('pool:gpu', { slots: 2 })).state).toBe('held')
  })
})
