/** The short forms that programs are written with, as their authors write them. */
import util from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isLeaseError, openTenure, type Lease, type Tenure } from '../../src/index.ts'
import { FakeRuntime } from '../../src/testing/index.ts'

interface Pair {
  readonly ann: Tenure
  readonly bob: Tenure
  readonly runtime: FakeRuntime
}

async function pair(): Promise<Pair> {
  const runtime = new FakeRuntime()
  const url = `memory:${crypto.randomUUID()}`
  const [ann, bob] = await Promise.all(
    ['ann', 'bob'].map((holder) => openTenure(url, { holder, runtime })),
  )
  if (ann === undefined || bob === undefined) throw new Error('two clients were asked for')
  onTestFinished(async () => void (await Promise.all([ann.close(), bob.close()])))
  return { ann, bob, runtime }
}

/** As Node's own errors of this kind. */
const ABORT = { name: 'AbortError', code: 'ABORT_ERR' }

describe('withLease', () => {
  it('needs no options', async () => {
    const { ann } = await pair()
    const fence = await ann.withLease('work:A', async (lease) => lease.fence)
    expect(fence).toBeGreaterThan(0)
    const [ended] = await ann.list({ state: 'released' })
    expect(ended).toMatchObject({ resource: 'work:A', releaseReason: 'completed' })
  })

  it('says LEASE_LOST, too, when the work ends by the signal of its lease', async () => {
    const url = `memory:${crypto.randomUUID()}`
    await using ann = await openTenure(url, { holder: 'ann' })
    await using bob = await openTenure(url, { holder: 'bob' })
    const work = ann.withLease('work:A', async (lease) => {
      // As timers, child processes and streams end: with an error of their own, the reason as its cause.
      const ended = new Promise((_resolve, reject) => {
        lease.signal.addEventListener('abort', () => {
          const { reason: cause } = lease.signal
          reject(Object.assign(new Error('The operation was aborted', { cause }), ABORT))
        })
      })
      await Promise.all([ended, bob.revoke(lease.id)])
    })
    await expect(work).rejects.toMatchObject({ code: 'LEASE_LOST' })
  })

  it('lets an abort that is not about its lease pass as it is', async () => {
    const { ann } = await pair()
    const cancelled = Object.assign(new Error('The operation was aborted'), ABORT)
    const work = ann.withLease('work:A', () => Promise.reject(cancelled))
    await expect(work).rejects.toBe(cancelled)
  })

  it('takes several resources or none, and releases them together', async () => {
    const { ann, bob } = await pair()
    const seen = await ann.withLease(['work:A', { resource: 'work:B', mode: 'shared' }], (set) => {
      return set.leases.map(({ resource, mode }) => `${resource} ${mode}`)
    })
    expect(seen).toEqual(['work:A exclusive', 'work:B shared'])
    const held = await bob.acquire('work:B')
    const work = ann.withLease(['work:A', 'work:B'], { waitMs: 0 }, () => 'done')
    await expect(work).rejects.toMatchObject({ code: 'RESOURCE_HELD' })
    expect(await ann.isHeld('work:A')).toBe(false)
    await held.release()
  })

  it('releases all of them as aborted when the work throws, but those that were abandoned', async () => {
    const { ann } = await pair()
    const work = ann.withLease(['work:A', 'work:B'], async ({ leases: [a] }) => {
      a?.abandon()
      throw new Error('the work failed')
    })
    await expect(work).rejects.toThrow('the work failed')
    expect(await ann.isHeld('work:A')).toBe(true)
    expect(await ann.list({ state: 'released' })).toMatchObject([
      { resource: 'work:B', releaseReason: 'aborted' },
    ])
  })

  it('runs its work under all of them: asking for one of them again is refused at once', async () => {
    const { ann } = await pair()
    const again = ann.withLease(['work:A', 'work:B'], () =>
      ann.acquire('work:A', { waitMs: 5_000 }),
    )
    await expect(again).rejects.toMatchObject({ code: 'RESOURCE_HELD' })
  })

  it('wants a function', async () => {
    const { ann } = await pair()
    const wrong = ann.withLease('work:A', {} as () => void)
    await expect(wrong).rejects.toThrow('work must be a function, got an object')
  })
})

describe('several leases', () => {
  it('are heard and renewed together', async () => {
    const { ann, bob, runtime } = await pair()
    const set = await ann.acquireAll(['work:A', 'work:B'], { ttlMs: 30_000 })
    const heard: string[] = []
    const stop = set.on('renewed', (_, lease) => heard.push(lease.resource))
    set.on('lost', ({ error }, lease) => heard.push(`${lease.resource} ${error.code}`))
    await runtime.advance(1_000)
    await set.renew()
    stop()
    await set.renew({ ttlMs: 60_000 })
    expect(heard).toEqual(['work:A', 'work:B'])
    await bob.revoke(set.leases[1]?.id ?? '')
    await runtime.settle()
    expect(heard.at(-1)).toBe('work:B LEASE_LOST')
    await expect(set.renew()).rejects.toMatchObject({ code: 'LEASE_LOST' })
    expect(set.leases[0]?.state).toBe('held')
  })
})

describe('listeners of several leases', () => {
  it('are called for the first event of any, or until they are taken off', async () => {
    const { ann, runtime } = await pair()
    const set = await ann.acquireAll(['work:A', 'work:B'])
    const heard: string[] = []
    const each = (_: unknown, { resource }: Lease): void => void heard.push(`each ${resource}`)
    set.on('renewed', each)
    set.once('renewed', (_, { resource }) => heard.push(`first ${resource}`))
    const never = (): void => void heard.push('never')
    set.once('renewed', never)
    set.off('renewed', never)
    await runtime.advance(100)
    await set.renew()
    expect(heard).toEqual(['each work:A', 'first work:A', 'each work:B'])
    set.off('renewed', each)
    await runtime.advance(100)
    await set.renew()
    expect(heard).toHaveLength(3)
    expect(() => set.off('expired' as 'lost', never)).toThrow('name must be among')
    expect(() => set.once('lost', 1 as never)).toThrow('listener must be a function')
  })

  it('whoever is blocked by one of them sees what was said of all', async () => {
    const { ann, bob } = await pair()
    const set = await ann.acquireAll(['work:A', 'work:B'])
    await set.update({ reason: 'moving', metadata: { done: 1 } })
    for (const name of ['work:A', 'work:B']) {
      const attempt = await bob.tryAcquire(name)
      expect(attempt).toMatchObject({ blockers: [{ reason: 'moving', metadata: { done: 1 } }] })
    }
    await set.release()
    await expect(set.update({ reason: 'late' })).rejects.toMatchObject({ name: 'LeaseError' })
  })
})

describe('listeners of a lease', () => {
  it('are called once, or until they are taken off by what they were given as', async () => {
    const { ann, runtime } = await pair()
    const lease = await ann.acquire('work:A')
    const heard: string[] = []
    const each = (): void => void heard.push('each')
    const one = (): void => void heard.push('one')
    lease.on('renewed', each)
    lease.once('renewed', one)
    lease.once('renewed', one)
    lease.off('renewed', one)
    lease.once('renewed', () => heard.push('first'))
    for (const _ of [1, 2]) {
      await runtime.advance(100)
      await lease.renew()
    }
    lease.off('renewed', each)
    lease.off('lost', each)
    await runtime.advance(100)
    await lease.renew()
    expect(heard).toEqual(['each', 'first', 'each'])
    expect(() => lease.off('expired' as 'lost', each)).toThrow('name must be among')
  })
})

describe('an error', () => {
  it('has details whose types follow from its code', async () => {
    const { ann, bob } = await pair()
    await ann.acquire('work:A', { reason: 'importing' })
    const error: unknown = await bob
      .acquire('work:A', { waitMs: 0 })
      .catch((thrown: unknown) => thrown)
    if (!isLeaseError(error, 'RESOURCE_HELD')) throw error
    const [blocker] = error.details.blockers
    expect([blocker?.holder, blocker?.reason]).toEqual(['ann', 'importing'])
    expect(error.details.retryAfterMs satisfies number).toBe(30_000)
    expect(isLeaseError(error, 'WAIT_TIMEOUT')).toBe(false)
    expect(isLeaseError(new Error('none of ours'), 'RESOURCE_HELD')).toBe(false)
  })
})

describe('a client', () => {
  it('does not show its session, which proves what is its own', async () => {
    const { ann } = await pair()
    expect(ann.session).not.toBe('')
    const shown = [JSON.stringify(ann), util.inspect(ann, { depth: 9, showHidden: true })]
    for (const text of shown) expect(text).not.toContain(ann.session)
  })

  it('refuses to be under what another holds, or nobody', async () => {
    const { ann, bob } = await pair()
    const theirs = await bob.acquire('work:B')
    const nobodys = crypto.randomUUID()
    for (const under of [theirs, theirs.id, nobodys]) {
      const id = typeof under === 'string' ? under : under.id
      const message = `under must be leases of ann, got "${id}"`
      await expect(ann.acquire('work:A', { under: [under] })).rejects.toThrow(message)
      await expect(ann.acquireAll(['work:A'], { under: [under] })).rejects.toThrow(message)
    }
    expect(await ann.isHeld('work:A')).toBe(false)
  })

  it('refuses to be under what it has released', async () => {
    const { ann } = await pair()
    const under = [await ann.acquire('work:B')]
    await under[0]?.release()
    const message = `under must be live leases, got "${under[0]?.id}"`
    await expect(ann.acquire('work:A', { under })).rejects.toThrow(message)
    await expect(ann.acquireAll(['work:A'], { under })).rejects.toThrow(message)
  })
})
