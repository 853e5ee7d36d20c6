/** What a holder says of its lease: while it holds it, for those who wait, and at its end, for the next. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { isLeaseError, openTenure, type Tenure } from '../../src/index.ts'
import { EVERY_STORE, freshStoreOf } from '../servers/every-store.ts'

async function pair(kind: (typeof EVERY_STORE)[number]): Promise<readonly [Tenure, Tenure]> {
  const url = await freshStoreOf(kind)
  const [ann, bob] = [
    await openTenure(url, { holder: 'ann' }),
    await openTenure(url, { holder: 'bob' }),
  ]
  onTestFinished(async () => void (await Promise.all([ann.close(), bob.close()])))
  return [ann, bob]
}

describe.each(EVERY_STORE)('on %s', (kind) => {
  it('whoever is blocked sees what the holder said last, and the history keeps each word', async () => {
    const [ann, bob] = await pair(kind)
    const lease = await ann.acquire('job:import', { reason: 'importing', metadata: { of: 10 } })
    await Promise.all([1, 2, 3].map((done) => lease.update({ metadata: { done, of: 10 } })))
    expect(lease.info).toMatchObject({ reason: 'importing', metadata: { done: 3, of: 10 } })
    await lease.update({ reason: 'nearly' })
    await lease.renew()
    const attempt = await bob.tryAcquire('job:import')
    if (attempt.kind !== 'held') throw new Error('it is held')
    expect(attempt.blockers).toMatchObject([{ reason: 'nearly', metadata: { done: 3, of: 10 } }])
    const said = await bob.history({ resource: 'job:import', types: ['lease.updated'] })
    const words = said.map(({ event }) => event.type === 'lease.updated' && event.metadata)
    expect(words.map((word) => word && word['done'])).toEqual([1, 2, 3, 3])
    expect(await bob.get(lease.id)).toMatchObject({ fence: lease.fence, mode: 'exclusive' })
  })

  it('the next holder reads the last word of the one before', async () => {
    const [ann, bob] = await pair(kind)
    const first = await ann.acquire('cron:nightly', { metadata: { host: 'a' } })
    expect(await first.previous()).toBeNull()
    await first.release({ reason: 'completed', metadata: { lastTick: 42 } })
    const second = await bob.acquire('cron:nightly')
    const before = await second.previous()
    expect(before).toMatchObject({ holder: 'ann', state: 'released', metadata: { lastTick: 42 } })
    expect(before?.releaseReason).toBe('completed')
    await second.release()
    const third = await ann.acquire('cron:nightly')
    expect(await third.previous()).toMatchObject({ holder: 'bob', metadata: null })
    const waiting = bob.acquire('cron:nightly', { waitMs: 60_000 })
    await third.release({ metadata: { lastTick: 43 } })
    expect(await (await waiting).previous()).toMatchObject({ metadata: { lastTick: 43 } })
  })

  it('several leases are released with one word', async () => {
    const [ann, bob] = await pair(kind)
    const set = await ann.acquireAll(['work:A', 'work:B'])
    await set.release({ metadata: { at: 7 } })
    const next = await bob.acquireAll(['work:A', 'work:B'])
    for (const lease of next.leases) {
      expect(await lease.previous()).toMatchObject({ metadata: { at: 7 } })
    }
  })
})

describe('words that cannot be said', () => {
  it('are too long together with what was said before, of another kind, or too late', async () => {
    const [ann] = await pair('memory')
    const lease = await ann.acquire('job:import', { reason: 'x'.repeat(1_000) })
    const long = { metadata: { text: 'y'.repeat(100) } }
    const nothing = (): Promise<void> => lease.update(undefined as never)
    await expect(nothing()).rejects.toThrow('options must be an object, got null')
    const error: unknown = await lease.update(long).catch((thrown: unknown) => thrown)
    expect(isLeaseError(error, 'LIMIT_EXCEEDED')).toBe(true)
    await expect(lease.release(long)).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' })
    expect(lease.state).toBe('held')
    await lease.release()
    await expect(lease.update({ reason: 'late' })).rejects.toMatchObject({ code: 'LEASE_TERMINAL' })
  })

  it('are those of a lease that another has ended', async () => {
    const [ann, bob] = await pair('memory')
    const lease = await ann.acquire('job:import')
    await bob.revoke(lease.id)
    await expect(lease.update({ reason: 'still here' })).rejects.toMatchObject({
      code: 'LEASE_LOST',
    })
  })
})
