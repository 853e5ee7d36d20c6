/** A command whose answer is lost on its way back asks again under the same request id, and its effect happens once. */
import { expect, it, onTestFinished } from 'vitest'
import type { LeaseEventType } from '../../src/core/event.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { openTenure } from '../../src/open.ts'
import { Proxy } from '../servers/proxy.ts'
import { startRedis } from '../servers/redis-server.ts'
import { tenure } from './tenure-process.ts'

async function json<Answer>(args: readonly string[]): Promise<Answer> {
  const { code, stdout, stderr } = await tenure([...args, '--json'])
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout) as Answer
}

async function lossyStore() {
  const server = await startRedis()
  onTestFinished(() => server.close())
  const proxy = await Proxy.start(server.url)
  onTestFinished(() => proxy.close())
  const observer = await openTenure(server.url, { holder: 'observer' })
  onTestFinished(() => observer.close())
  const direct = ['--store', server.url]
  return { proxy, observer, direct, through: ['--store', proxy.through(server.url)] }
}

const LEASE = 'work:A'
it('of renew, spend, downgrade, transfer, adopt, release and revoke', async () => {
  const { proxy, observer, direct, through } = await lossyStore()
  const count = async (type: LeaseEventType): Promise<number> => {
    return (await observer.history({ resource: LEASE, types: [type] })).length
  }
  /** Loses the answer to the first request after which the store has one more event of the type. */
  const losing = async (type: LeaseEventType, args: readonly string[]): Promise<unknown> => {
    const before = await count(type)
    const lost = proxy.loseReply({ isDone: async () => (await count(type)) > before })
    const answer = await json([...args, ...through])
    await lost
    expect([type, (await count(type)) - before]).toEqual([type, 1])
    return answer
  }
  await json(['config', 'set', 'record_renewals', 'true', ...direct])
  const ann = ['--holder', 'ann']
  await json(['acquire', LEASE, ...ann, '--budget', 'tokens=10', ...direct])

  await losing('lease.renewed', ['renew', LEASE, ...ann])
  const spent = await losing('lease.accounted', ['spend', LEASE, 'tokens=3', ...ann])
  expect(spent).toMatchObject({ budgetLeft: { tokens: 7 } })
  expect(await losing('lease.downgraded', ['downgrade', LEASE, ...ann])).toMatchObject({
    ...{ mode: 'shared', changed: true },
  })
  await losing('lease.transferred', ['transfer', LEASE, ...ann, '--to', 'ben'])
  await losing('lease.adopted', ['adopt', LEASE, '--holder', 'ben'])
  await losing('lease.released', ['release', LEASE, '--holder', 'ben'])
  await json<LeaseInfo>(['acquire', LEASE, ...ann, ...direct])
  await losing('lease.revoked', ['revoke', LEASE, '--holder', 'operator'])
  expect(await json(['ls', LEASE, ...direct])).toMatchObject({ leases: [] })
})

it('of config and release-all, which may be sent twice', async () => {
  const { proxy, observer, direct, through } = await lossyStore()
  const isSet = async (): Promise<boolean> => {
    return (await observer.config.get('default_ttl_seconds')) === 600
  }
  const setting = proxy.loseReply({ isDone: isSet })
  const set = ['config', 'set', 'default_ttl_seconds', '600', ...through]
  expect(await json(set)).toEqual({ key: 'default_ttl_seconds', value: 600 })
  await setting
  await json(['acquire', LEASE, '--holder', 'ann', ...direct])
  const ended = proxy.loseReply({ isDone: async () => (await observer.list()).length === 0 })
  const { code, stderr } = await tenure(['release-all', 'ann', '--holder', 'operator', ...through])
  await ended
  expect([code, stderr]).toEqual([0, expect.stringContaining('may have ended more')])
  expect(await observer.history({ resource: LEASE, types: ['lease.revoked'] })).toHaveLength(1)
})
