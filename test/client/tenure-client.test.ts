import { describe, expect, it } from 'vitest'
import type { Tenure } from '../../src/client/contract.ts'
import type { AcquireOptions } from '../../src/client/options.ts'
import { TenureClient } from '../../src/client/tenure-client.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import {
  failWith,
  first,
  follow,
  hang,
  loseAnswer,
  newClient,
  newWorld,
  statesOf,
} from './harness.ts'

const RESOURCE = 'work:W-1'
const FOR_EVER = { waitMs: Infinity }

describe('a client', () => {
  it('has a session of its own unless it is given one', () => {
    const world = newWorld()
    const one = newClient(world, 'alice').tenure
    const two = newClient(world, 'alice').tenure
    expect(one.session).not.toBe(two.session)
    expect(newClient(world, 'alice', { session: 'run-7' }).tenure.session).toBe('run-7')
  })

  it('excludes another client of the same holder', async () => {
    const world = newWorld()
    await newClient(world, 'alice').tenure.acquire(RESOURCE)
    const attempt = await newClient(world, 'alice').tenure.tryAcquire(RESOURCE)
    expect(attempt.kind).toBe('held')
  })

  it('answers who holds what', async () => {
    const world = newWorld()
    const { tenure } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE, { metadata: { ticket: 17 } })
    expect(await tenure.get(lease.id)).toMatchObject({ holder: 'alice', metadata: { ticket: 17 } })
    expect(await tenure.get('00000000-0000-4000-8000-000000000009')).toBeNull()
    expect((await tenure.inspect(RESOURCE)).leases).toHaveLength(1)
    expect(await tenure.isHeld(RESOURCE)).toBe(true)
    expect(await tenure.isHeld('work:W-2')).toBe(false)
    expect(await tenure.holds('alice', RESOURCE)).toBe(true)
    expect(await tenure.holds('bob', RESOURCE)).toBe(false)
    expect(await tenure.list({ holder: 'alice' })).toHaveLength(1)
    expect(await tenure.list({ state: 'released' })).toHaveLength(0)
    await lease.release()
    expect(await tenure.list({ state: 'released', resource: RESOURCE, limit: 1 })).toHaveLength(1)
  })

  it('tells the history and follows it', async () => {
    const world = newWorld()
    const { tenure } = newClient(world, 'alice')
    const events = tenure
      .watch({ types: ['lease.issued', 'lease.released'] })
      [Symbol.asyncIterator]()
    const next = follow(events.next())
    await world.runtime.settle()
    const lease = await tenure.acquire(RESOURCE)
    await world.runtime.settle()
    expect(next.value()).toMatchObject({ value: { event: { type: 'lease.issued' } } })
    await lease.release()
    const history = await tenure.history({ leaseId: lease.id, newestFirst: true, limit: 1 })
    expect(history).toMatchObject([{ event: { type: 'lease.released' } }])
    expect(await events.next()).toMatchObject({ value: { event: { type: 'lease.released' } } })
    const last = follow(events.next())
    await world.runtime.settle()
    await tenure.close()
    await world.runtime.settle()
    expect(last.value()).toMatchObject({ done: true })
  })

  it('revokes by id and by holder, under its own name', async () => {
    const world = newWorld()
    const operator = newClient(world, 'operator').tenure
    const { tenure } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE)
    await operator.revoke(lease.id, { reason: 'maintenance' })
    const [revoked] = await operator.history({ types: ['lease.revoked'] })
    expect(revoked?.event).toMatchObject({ by: 'operator', reason: 'maintenance' })
    await expect(operator.revoke(lease.id)).rejects.toMatchObject({ code: 'LEASE_TERMINAL' })
    await tenure.acquire('work:W-2')
    await tenure.acquire('work:W-3')
    expect(await operator.releaseAll('alice')).toBe(2)
    expect(await tenure.list()).toEqual([])
  })

  it('knows at once that it has revoked what it holds, by id or by holder', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    faults.when('onWake', failWith('STORE_UNAVAILABLE'))
    const one = await tenure.acquire(RESOURCE)
    const two = await tenure.acquire('work:W-2')
    await tenure.revoke(one.id)
    expect(one.state).toBe('lost')
    expect(await tenure.releaseAll('alice')).toBe(1)
    expect(two.state).toBe('lost')
    expect(two.signal.reason).toMatchObject({ details: { reason: 'revoked' } })
  })

  it('repeats a revocation whose answer was lost', async () => {
    const world = newWorld()
    const operator = newClient(world, 'operator')
    const lease = await newClient(world, 'alice').tenure.acquire(RESOURCE)
    operator.faults.when('revoke', first(1, loseAnswer))
    const revoking = follow(operator.tenure.revoke(lease.id))
    await world.runtime.advance(50)
    revoking.value()
    expect(operator.faults.count('revoke')).toBe(2)
  })

  it('cleans up what is over', async () => {
    const world = newWorld()
    const { tenure } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE, { ttlMs: 1_000 })
    lease.abandon()
    await world.runtime.advance(1_000)
    expect(await tenure.cleanup()).toMatchObject({ expired: 1 })
    expect(await tenure.get(lease.id)).toMatchObject({ state: 'expired' })
  })
})

describe('work under a lease', () => {
  it('gets the lease and gives it back as completed', async () => {
    const world = newWorld()
    const { tenure } = newClient(world, 'alice')
    const result = await tenure.withLease(RESOURCE, { ttlMs: 5_000 }, async (lease) => {
      expect(await tenure.holds('alice', RESOURCE)).toBe(true)
      return lease.fence
    })
    expect(result).toBeGreaterThan(0)
    const [released] = await tenure.history({ types: ['lease.released'] })
    expect(released?.event).toMatchObject({ releaseReason: 'completed' })
  })

  it('may release or abandon the lease itself', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    await tenure.withLease(RESOURCE, {}, (lease) => lease.release({ reason: 'voluntary' }))
    expect(faults.count('release')).toBe(1)
    await tenure.withLease(RESOURCE, {}, (lease) => lease.abandon())
    expect(faults.count('release')).toBe(1)
    expect(await tenure.isHeld(RESOURCE)).toBe(true)
  })

  it('keeps its result when only the release failed: the lease ends by itself', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    faults.when('release', failWith('STORE_UNAVAILABLE'))
    const working = follow(tenure.withLease(RESOURCE, {}, () => 'done'))
    await world.runtime.advance(1_000)
    expect(working.value()).toBe('done')
  })

  it('is not begun when the lease is refused', async () => {
    const world = newWorld()
    await newClient(world, 'alice').tenure.acquire(RESOURCE)
    const { tenure } = newClient(world, 'bob')
    let began = false
    const working = tenure.withLease(RESOURCE, { waitMs: 0 }, () => void (began = true))
    await expect(working).rejects.toMatchObject({ code: 'RESOURCE_HELD' })
    expect(began).toBe(false)
  })
})

describe('names of files', () => {
  const links: Readonly<Record<string, string>> = { '/repo/link': '/other/dir' }

  /** As the disk does it: a link is followed before `..` is taken. */
  function canonicalPath(path: string): string {
    const segments: string[] = []
    for (const segment of path.split('/')) {
      if (segment === '' || segment === '.') continue
      if (segment === '..') segments.pop()
      else segments.push(segment)
      const target = links[`/${segments.join('/')}`]
      if (target !== undefined) segments.splice(0, segments.length, ...target.slice(1).split('/'))
    }
    return `/${segments.join('/')}`
  }

  function newFileClient(): Tenure {
    return newClient(newWorld(new FakeRuntime({ canonicalPath })), 'alice').tenure
  }

  it.each([
    ['file:/repo/link/a.ts', 'file:/other/dir/a.ts'],
    ['file:/repo/link/../a.ts', 'file:/other/a.ts'],
    ['file:/repo/./sub//a.ts', 'file:/repo/sub/a.ts'],
  ])('%s is %s', async (spelling, canonical) => {
    const tenure = newFileClient()
    const lease = await tenure.acquire(spelling)
    expect(lease.resource).toBe(canonical)
    expect(await tenure.isHeld(canonical)).toBe(true)
    expect(await tenure.list({ resource: spelling })).toHaveLength(1)
  })

  it.each(['file:relative.ts', 'file:/../etc/passwd', 'file:/a\u0000b', 'file:'])(
    '%j is refused',
    async (name) => {
      await expect(newFileClient().acquire(name)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    },
  )

  it('of other kinds are taken as they are', async () => {
    const lease = await newFileClient().acquire('work:/repo/link/../a')
    expect(lease.resource).toBe('work:/repo/link/../a')
  })
})

describe('bad input', () => {
  const bad: readonly [string, AcquireOptions][] = [
    ['ttlMs', { ttlMs: 0 }],
    ['ttlMs', { ttlMs: -5 }],
    ['ttlMs', { ttlMs: Number.NaN }],
    ['ttlMs', { ttlMs: 1e99 }],
    ['ttlMs', { ttlMs: '30' as unknown as number }],
    ['waitMs', { waitMs: -1 }],
    ['waitMs', { waitMs: -Infinity }],
    ['maxRenewals', { maxRenewals: -2 }],
    ['maxHoldMs', { maxHoldMs: 0 }],
    ['autoRenew', { autoRenew: 'yes' as unknown as boolean }],
    ['signal', { signal: {} as AbortSignal }],
    ['leaseId', { leaseId: 'not-a-uuid' }],
    ['reason', { reason: 'a\u0000b' }],
    ['metadata', { metadata: [] as unknown as Record<string, string> }],
    ['options', { ttl: 5 } as AcquireOptions],
  ]

  it.each(bad)('%s is named, and nothing is sent: %o', async (field, options) => {
    const { tenure, faults } = newClient(newWorld(), 'alice')
    await expect(tenure.acquire(RESOURCE, options)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      details: { field },
    })
    expect(faults.calls).toEqual([])
  })

  it.each(['', 'work', 'Work:W-1', 'work:', `work:${'x'.repeat(1025)}`, 7 as unknown as string])(
    'the resource %j is refused',
    async (resource) => {
      const { tenure, faults } = newClient(newWorld(), 'alice')
      await expect(tenure.acquire(resource)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
      expect(faults.calls).toEqual([])
    },
  )

  it.each(['', 'x'.repeat(129), 'a\nb'])('the holder %j is refused', (holder) => {
    expect(() => newClient(newWorld(), holder)).toThrow(/^holder must/)
  })

  it('is refused by every method that takes options', async () => {
    const { tenure } = newClient(newWorld(), 'alice')
    const odd = { odd: 1 } as object
    const id = '00000000-0000-4000-8000-000000000001'
    const lease = await tenure.acquire(RESOURCE)
    const calls = [
      () => tenure.tryAcquire(RESOURCE, { waitMs: 5 } as object),
      () => tenure.list(odd),
      () => tenure.list({ limit: 0 }),
      async () => tenure.listAll({ limit: 1 } as object),
      () => tenure.list({ state: 'open' as 'active' }),
      () => tenure.history(odd),
      () => tenure.history({ types: ['lease.born' as 'lease.issued'] }),
      () => tenure.history({ fromMs: -1 }),
      async () => tenure.watch(odd),
      () => tenure.get('x'),
      () => tenure.revoke(id, odd),
      () => tenure.releaseAll('', {}),
      () => tenure.holds('', RESOURCE),
      () => tenure.config.get('ttl' as 'max_renewals'),
      () => tenure.config.set('max_renewals', 'many'),
      () => lease.acquire('work:W-2', { under: [] } as object),
      () => lease.renew(odd),
      () => lease.release(odd),
    ]
    for (const call of calls) {
      await expect(call(), String(call)).rejects.toMatchObject({
        code: expect.stringMatching(/^INVALID_/) as string,
      })
    }
  })

  it('of a claim window is refused', () => {
    const world = newWorld()
    const options = { api: world.service, runtime: world.runtime, holder: 'alice' }
    expect(() => new TenureClient({ ...options, claimWindowMs: 5 })).toThrow(/^claimWindowMs/)
  })
})

describe('closing', () => {
  it('gives everything back, closes the store, and can be done twice', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE)
    await Promise.all([tenure.close(), tenure.close()])
    await tenure[Symbol.asyncDispose]()
    expect(lease.state).toBe('released')
    expect(faults.count('close')).toBe(1)
    expect((await world.service.list({})).leases).toEqual([])
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('makes every further call throw CLOSED', async () => {
    const { tenure } = newClient(newWorld(), 'alice')
    await tenure.close()
    const id = '00000000-0000-4000-8000-000000000001'
    const calls = [
      () => tenure.acquire(RESOURCE),
      () => tenure.tryAcquire(RESOURCE),
      () => tenure.withLease(RESOURCE, {}, () => 1),
      () => tenure.get(id),
      () => tenure.inspect(RESOURCE),
      () => tenure.list(),
      () => tenure.isHeld(RESOURCE),
      () => tenure.holds('alice', RESOURCE),
      () => tenure.history(),
      async () => tenure.watch(),
      () => tenure.revoke(id),
      () => tenure.releaseAll('alice'),
      () => tenure.cleanup(),
      () => tenure.config.get('max_renewals'),
      () => tenure.config.set('max_renewals', 1),
      () => tenure.config.unset('max_renewals'),
      () => tenure.config.all(),
      () => tenure.config.overrides(),
    ]
    for (const call of calls) {
      await expect(call(), String(call)).rejects.toMatchObject({ code: 'CLOSED' })
    }
  })

  it('ends in bounded time although the store does not answer', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    await tenure.acquire(RESOURCE)
    faults.when('release', () => new Promise(() => undefined))
    const closing = follow(tenure.close())
    await world.runtime.advance(3_000)
    closing.value()
    await world.runtime.advance(7_000)
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('leaves nothing that would be sent again when a call fails after it', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE, { autoRenew: false })
    let fail = (): void => undefined
    faults.when('spend', (send) => {
      return new Promise((_, reject) => (fail = () => void loseAnswer(send, []).catch(reject)))
    })
    const spending = lease.spend({ tokens: 1 }).catch((error: unknown) => error)
    await tenure.close()
    fail()
    await world.runtime.settle()
    expect(await spending).toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' })
    expect(world.runtime.pendingTimers).toBe(0)
    expect(faults.count('spend')).toBe(1)
  })

  it.each([
    ['several leases', (tenure: Tenure) => tenure.acquireAll([RESOURCE, 'work:W-2'], FOR_EVER)],
    [
      'a lease under that of another process',
      async (tenure: Tenure, under: string) =>
        tenure.acquire(RESOURCE, { ...FOR_EVER, under: [under] }),
    ],
  ])('lets no wait begin that was just asked for: %s', async (_, ask) => {
    const world = newWorld()
    const { id } = await newClient(world, 'alice').tenure.acquire(RESOURCE)
    const { tenure, faults } = newClient(world, 'alice')
    const asking = follow<unknown>(ask(tenure, id))
    await tenure.close()
    await world.runtime.settle()
    expect(asking.error().code).toBe('CLOSED')
    expect(faults.count('acquire') + faults.count('acquireAll')).toBe(0)
    expect(await statesOf(world, 'alice')).toEqual(['active'])
  })

  it('ends within four seconds, whatever hangs', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    await tenure.acquire(RESOURCE)
    for (const method of ['release', 'acquire', 'withdraw', 'close'] as const) {
      faults.when(method, hang)
    }
    const asking = follow(tenure.acquire('work:W-2', { waitMs: 60_000 }))
    const closing = follow(tenure.close())
    await world.runtime.advance(3_999)
    expect(asking.error().code).toBe('CLOSED')
    expect(closing.isPending()).toBe(true)
    expect(faults.count('close')).toBe(1)
    await world.runtime.advance(1)
    closing.value()
  })

  it('ends a subscription that comes about only then', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    let open = (): void => undefined
    let ended = 0
    faults.when('onWake', async (send) => {
      await new Promise<void>((resolve) => (open = resolve))
      const unsubscribe = (await send()) as () => void
      return () => {
        ended += 1
        unsubscribe()
      }
    })
    await tenure.acquire(RESOURCE)
    await world.runtime.advance(50)
    const closing = follow(tenure.close())
    await world.runtime.settle()
    expect(closing.isPending()).toBe(true)
    open()
    await world.runtime.settle()
    closing.value()
    expect(ended).toBe(1)
  })

  it('lets a withdrawal end that a timeout left in the background', async () => {
    const world = newWorld()
    await newClient(world, 'alice').tenure.acquire(RESOURCE)
    const { tenure, faults } = newClient(world, 'bob')
    faults.when('withdraw', async (send) => {
      await new Promise<void>((resolve) => {
        world.runtime.setTimer(500, resolve, { keepAlive: true })
      })
      return send()
    })
    const waiting = follow(tenure.acquire(RESOURCE, { waitMs: 1_000 }))
    await world.runtime.advance(1_000)
    expect(waiting.error().code).toBe('WAIT_TIMEOUT')
    const closing = follow(tenure.close())
    await world.runtime.advance(499)
    expect(closing.isPending()).toBe(true)
    await world.runtime.advance(1)
    closing.value()
    expect((await world.service.list({ holder: 'bob' })).leases).toEqual([])
  })
})
