/** Everything that a client can do, over a real server: nobody can tell that the store is elsewhere. */
import { randomUUID } from 'node:crypto'
import { describe, expect, it, onTestFinished } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { FileLeases } from '../../src/files/index.ts'
import { openLeaseManager } from '../../src/open-fleet.ts'
import { openApi, openTenure } from '../../src/open.ts'
import { serving } from '../server/serving.ts'
import { ownMs } from '../servers/own-time.ts'
import { apiAt, listening, newHttpStage, openAt } from './http-stage.ts'

describe('a client of a server', () => {
  it('holds, renews, changes and releases as on a store of its own', async () => {
    const { open } = await newHttpStage()
    const [ann, bob] = [await open('ann'), await open('bob')]
    const lease = await ann.acquire('workflow:w', { reason: 'r', budget: { tokens: 5 } })
    expect(await ann.tryAcquire('workflow:w')).toMatchObject({ kind: 'held' })
    await lease.renew()
    expect(lease.renewals).toBe(1)
    expect(await lease.advance()).toMatchObject({ from: 0, to: 1 })
    await lease.update({ reason: 'new' })
    expect(await lease.spend({ tokens: 1 })).toEqual({ tokens: 4 })
    const child = await lease.derive({ holder: 'kid', budget: { tokens: 1 } })
    await child.release()
    await lease.downgrade()
    await lease.upgrade()
    const id = String(await lease.transfer('bob'))
    const adopted = await bob.acquire('workflow:w')
    expect(adopted.id).toBe(id)
    await bob.revoke(id)
    // It hears of it by the stream, long before it would have renewed.
    await expect.poll(() => adopted.state).toBe('lost')
    const set = await ann.acquireAll(['work:a', 'work:b'])
    expect((await ann.list({ holder: 'ann' })).length).toBe(2)
    expect(await ann.inspect('work:a')).toMatchObject({ leases: [{ holder: 'ann' }] })
    await set.release()
    expect((await ann.history({ leaseId: id })).length).toBeGreaterThan(1)
    await ann.config.set('max_renewals', 5)
    expect(await ann.config.get('max_renewals')).toBe(5)
    expect(await ann.releaseAll('nobody')).toBe(0)
    expect(await ann.cleanup()).toMatchObject({ expired: 0 })
  })

  it('refuses what a store refuses, in the same words', async () => {
    const { url } = await newHttpStage()
    const [far, near] = [await apiAt(url), await openApi('memory:')]
    onTestFinished(() => near.close())
    const wrong = {
      id: randomUUID(),
      resource: 'no resource',
      holder: 'ann',
      session: 's',
    } as never
    const errors = await Promise.all(
      [far, near].map((api) => api.acquire(wrong).catch((error: unknown) => error)),
    )
    expect(JSON.stringify(errors[0])).toBe(JSON.stringify(errors[1]))
  })

  it('hears no wake-ups once it is closed, also where it was while it began to listen for them', async () => {
    const { url } = await newHttpStage()
    const [closed, open] = [
      await openApi(url, { callMs: 60_000 }),
      await openApi(url, { callMs: 60_000 }),
    ]
    onTestFinished(() => open.close())
    const session = 'bob-1'
    const heard: string[] = []
    const subscribing = closed.onWake({ session }, () => heard.push('closed'))
    await closed.close()
    await subscribing
    await open.onWake({ session }, () => heard.push('open'))
    const resource = parseResource('work:1')
    const [held, waiting] = [randomUUID(), randomUUID()]
    await open.acquire({ id: held, resource, holder: 'ann', session: 'ann-1' })
    await open.acquire({ id: waiting, resource, holder: 'bob', session, waitMs: 60_000 })
    await open.release({ id: held, holder: 'ann' })
    await expect.poll(() => heard).toEqual(['open'])
  })

  it('waits without an open request, and is woken by the one stream', async () => {
    const { open, requests } = await newHttpStage()
    const [ann, bob] = [await open('ann'), await open('bob', { claimWindowMs: 60_000 })]
    const stands = listening(2)
    const held = await Promise.all(
      Array.from({ length: 50 }, (_, index) => ann.acquire(`work:${index}`)),
    )
    const waiting = held.map(({ resource }) => bob.acquire(resource, { waitMs: 60_000 }))
    await expect.poll(async () => (await ann.list({ state: 'pending' })).length).toBe(50)
    await stands
    await Promise.all(held.map((lease) => lease.release()))
    // On its own it would look after a third of its claim window, in 20 s.
    expect(3 * (await ownMs(() => Promise.all(waiting)))).toBeLessThan(20_000)
    const leases = await Promise.all(waiting)
    expect(leases.map(({ state }) => state)).toEqual(leases.map(() => 'held'))
    await Promise.all([ann.close(), bob.close()])
    const streams = (): number => requests.filter(({ path }) => path === '/v1/wakes').length
    // The second session opened the stream anew, for both.
    await expect.poll(streams).toBeGreaterThan(0)
    expect(streams()).toBeLessThanOrEqual(2)
    // Nobody polls: a claim each, whatever came together in one request.
    expect(requests.length).toBeLessThan(40)
  })

  it('sends all that is under way together in one request', async () => {
    const { open, requests } = await newHttpStage()
    const ann = await open('ann')
    const many = Array.from({ length: 300 }, (_, index) => `work:${index}`)
    const leases = await Promise.all(many.map((resource) => ann.acquire(resource)))
    await Promise.all(leases.map((lease) => lease.renew()))
    await Promise.all(leases.map((lease) => lease.release()))
    await expect.poll(() => requests.length).toBeGreaterThan(2)
    expect(requests.length).toBeLessThan(10)
  })

  it('watches: every event once, also when the stream is cut in between', async () => {
    const { open, proxy, url } = await newHttpStage()
    const [ann, api] = [await open('ann'), await apiAt(url)]
    const seen: string[] = []
    const stop = new AbortController()
    let start: () => void = () => undefined
    const started = new Promise<void>((resolve) => (start = resolve))
    const observer = { onAway: () => {}, onBack: () => {}, onPosition: () => start() }
    const watching = (async () => {
      const wanted = { types: ['lease.issued' as const] }
      for await (const { event } of api.watch(wanted, { observer, signal: stop.signal })) {
        seen.push(event.resource)
      }
    })()
    await started
    const names = Array.from({ length: 40 }, (_, index) => `work:${index}`)
    for (const [index, name] of names.entries()) {
      await ann.acquire(name)
      if (index % 10 === 5) proxy.cut()
    }
    await expect.poll(() => seen.length).toBe(names.length)
    expect(seen).toEqual(names)
    stop.abort()
    await watching
  })

  it('has file leases and instances of a fleet', async () => {
    const { url, open } = await newHttpStage()
    const files = new FileLeases(await apiAt(url))
    onTestFinished(() => files.close())
    const wanted = { agentId: 'agent-1', filePath: '/repo/a.ts' }
    expect(await files.acquireLease(wanted)).toMatchObject({ success: true })
    expect(await (await open('ann')).isHeld('file:/repo/a.ts')).toBe(true)
    const manager = await openLeaseManager(url)
    await manager.start()
    onTestFinished(() => manager.stop())
    expect(await manager.tryAcquire('session-1')).toBe(true)
  })

  it('uses the namespace that it names, and else that of its token', async () => {
    const server = await serving({ withTokens: true })
    const token = server.token({ name: 'ci', role: 'holder', as: ['*'], namespace: 'own' })
    const own = await openAt(server.url, 'ann', { token })
    await own.acquire('work:1')
    const root = server.token({ name: 'all', role: 'operator', namespace: '*' })
    const named = await openAt(`${server.url}?namespace=own`, 'bob', { token: root })
    expect(await named.isHeld('work:1')).toBe(true)
    const other = await openAt(server.url, 'bob', { token: root })
    expect(await other.isHeld('work:1')).toBe(false)
    const foreign = await openAt(server.url, 'bob', { token, namespace: 'other' })
    await expect(foreign.acquire('work:1')).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  })

  it.each([
    ['http://', 'store'],
    ['http://a:7420,,b:7420', 'store'],
    ['http://user:secret@a:7420', 'store'],
    ['http://a:0', 'store'],
    ['http://a:7420?token=x', 'store'],
    ['http://a:7420?callMs=0', 'callMs'],
    ['http://a:7420#x', 'store'],
  ])('%s is no address', async (url, field) => {
    const error = await openTenure(url, { holder: 'ann' }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'INVALID_INPUT', details: { field } })
    expect(String(error)).not.toContain('secret')
  })
})
