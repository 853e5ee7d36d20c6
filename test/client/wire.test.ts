/** A client whose service is in another process: everything is text, and nothing of the service's own process is there. */
import { describe, expect, it } from 'vitest'
import { TenureClient } from '../../src/client/tenure-client.ts'
import { readRequest, type RequestName } from '../../src/protocol/requests.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { newWorld } from './harness.ts'
import { overJson } from './json-wire.ts'

const ID = '0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2'

describe('a client over a wire', () => {
  it('waits, is handed a lease and renews it without what only a process of its own has', async () => {
    const { runtime, service } = newWorld()
    const wire: LeaseApi = new Proxy(overJson<LeaseApi>(service), {
      get: (target, name) => (name === 'standBy' ? undefined : Reflect.get(target, name)),
    })
    const ann = new TenureClient({ api: wire, runtime, holder: 'ann' })
    const bob = new TenureClient({ api: wire, runtime, holder: 'bob' })
    const first = await ann.acquire('work:W-1', { ttlMs: 30_000 })
    const waiting = bob.acquire('work:W-1', { ttlMs: 30_000, waitMs: 60_000 })
    await runtime.advance(15_000)
    await first.release()
    await runtime.advance(100)
    const second = await waiting
    expect(second.fence).toBeGreaterThan(first.fence)
    await runtime.advance(60_000)
    expect(second.state).toBe('held')
    expect(second.renewals).toBeGreaterThan(1)
  })

  it('sends nothing that its description does not allow, whatever a request is for', async () => {
    const { runtime, service } = newWorld()
    const seen = new Set<string>()
    const api = new Proxy<LeaseApi>(service, {
      get: (target, name: keyof LeaseApi) => {
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        if (name === 'standBy' || name === 'close') return value.bind(target)
        return (...input: unknown[]): unknown => {
          seen.add(name)
          readRequest((name === 'onWake' ? 'wakes' : name) as RequestName, input[0] ?? {})
          return Reflect.apply(value, target, input)
        }
      },
    })
    const ann = new TenureClient({ api, runtime, holder: 'ann' })
    const lease = await ann.acquire('workflow:w', { reason: 'r', budget: { tokens: 5 } })
    await lease.renew()
    await lease.advance()
    await lease.update({ reason: 'new' })
    await lease.spend({ tokens: 1 })
    const child = await lease.derive({ holder: 'kid', budget: { tokens: 1 } })
    await child.release()
    await lease.downgrade()
    await lease.upgrade()
    await lease.transfer('bob')
    const set = await ann.acquireAll(['work:a', 'work:b'])
    await set.release()
    await ann.list({ holder: 'ann' })
    await ann.history({ leaseId: lease.id })
    await ann.get(lease.id)
    await ann.inspect('work:a')
    await ann.config.set('max_renewals', 5)
    await ann.releaseAll('bob')
    await ann.cleanup()
    expect(seen.size).toBeGreaterThan(18)
    await ann.close()
  })

  it('cannot act on what is another’s by knowing its id', async () => {
    const { service } = newWorld()
    const resource = 'work:W-1' as never
    const ann = { id: ID, resource, holder: 'ann', session: 'secret' }
    await service.acquire({ ...ann, mode: 'shared', waitMs: 0 })
    const eve = { id: ID, holder: 'eve' }
    const refused = { kind: 'not_holder', leaseId: ID, holder: 'ann' }
    expect(await service.renew(eve)).toEqual(refused)
    expect(await service.release(eve)).toEqual(refused)
    expect(await service.upgrade({ ...eve, mayWait: true })).toEqual(refused)
    expect(await service.withdrawUpgrade(eve)).toEqual(refused)
    expect(await service.downgrade(eve)).toEqual(refused)
    expect(await service.update(eve)).toEqual(refused)
    expect(await service.transfer({ ...eve, to: 'eve2', newId: ID })).toEqual(refused)
    expect(await service.adopt({ ...eve, session: 'eve' })).toEqual(refused)
    expect(await service.spend({ ...eve, amounts: { tokens: 1 } })).toEqual(refused)
    const child = { id: ID.replace(/2$/, '3'), parent: { id: ID }, by: 'eve', holder: 'eve' }
    expect(await service.derive({ ...child, session: 'eve' })).toEqual(refused)
    // The session decides as well where an entry is claimed or withdrawn: the name of a holder is no secret.
    const named = { ...ann, session: 'guessed' }
    expect(await service.withdraw({ ...named, why: 'aborted' })).toEqual(refused)
    expect(await service.claim(named)).toMatchObject({ kind: 'not_holder' })
    expect(await service.get({ id: ID })).toMatchObject({ state: 'active', holder: 'ann' })
  })
})
