/** Several resources at once: all of them or none, waiting included, and released together. */
import { describe, expect, it } from 'vitest'
import type { LeaseInfo } from '../../src/core/lease.ts'
import type { Inspection, LeaseList } from '../../src/service/lease-api.ts'
import { until, workshop } from './tenure-process.ts'

describe('several resources', () => {
  it('are acquired together, each with an id and a fence of its own', async () => {
    const shop = workshop()
    const words = ['acquire', 'work:1', 'src/', 'work:2', '--holder', 'ann', '--ttl', '1m']
    const { leases }: LeaseList = await shop.json(words)
    expect(leases).toMatchObject([
      { resource: 'work:1', extent: 'exact', ttlMs: 60_000 },
      { resource: `file:${shop.directory}/src`, extent: 'subtree' },
      { resource: 'work:2', extent: 'exact' },
    ])
    expect(new Set(leases.map(({ id }) => id)).size).toBe(3)
    expect(new Set(leases.map(({ fence }) => fence)).size).toBe(3)
    const { stdout } = await shop.tenure(['acquire', 'work:3', 'work:4', '--holder', 'ann'])
    expect(stdout).toMatch(/^acquired work:3\n {2}id (.|\n)*\nacquired work:4\n {2}id /)
  })

  it('are all left alone when one of them is held', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:2', '--holder', 'ann'])
    const words = ['acquire', 'work:1', 'work:2', '--holder', 'ben']
    const { code, stderr } = await shop.tenure(words)
    expect(code).toBe(10)
    expect(stderr).toContain('held by "ann"')
    const { leases }: LeaseList = await shop.json(['ls'])
    expect(leases.map(({ resource }) => resource)).toEqual(['work:2'])
  })

  it('are waited for together: nobody holds one while waiting for the other', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:2', '--holder', 'ann'])
    const words = ['acquire', 'work:1', 'work:2', '--holder', 'ben', '--wait', '40s', '--json']
    const waiting = shop.start(words)
    await until(async () => {
      const { queue }: Inspection = await shop.json(['why', 'work:2'])
      return queue.length === 1
    })
    const { leases, queue }: Inspection = await shop.json(['why', 'work:1'])
    expect([leases, queue.map(({ holder }) => holder)]).toEqual([[], ['ben']])
    await shop.json(['release', 'work:2', '--holder', 'ann'])
    const { code, stdout } = await waiting.ended
    expect(code).toBe(0)
    expect((JSON.parse(stdout) as LeaseList).leases.map(({ holder }) => holder)).toEqual([
      'ben',
      'ben',
    ])
  })

  it('leave nothing behind when the wait runs out, or is interrupted', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:2', '--holder', 'ann'])
    const words = ['acquire', 'work:1', 'work:2', '--holder', 'ben', '--wait']
    expect((await shop.tenure([...words, '200ms'])).code).toBe(11)
    const waiting = shop.start([...words, '1m'])
    await until(async () => {
      const { queue }: Inspection = await shop.json(['why', 'work:1'])
      return queue.length === 1
    })
    waiting.process.kill('SIGINT')
    expect(await waiting.ended).toEqual({ code: 130, stdout: '', stderr: '' })
    const { leases }: LeaseList = await shop.json(['ls'])
    expect(leases.map(({ holder }) => holder)).toEqual(['ann'])
  })
})

describe('a command that runs under several leases', () => {
  it('finds the first in the usual places and all of them as JSON, and they end together', async () => {
    const shop = workshop()
    const script = 'echo "$TENURE_RESOURCE $TENURE_LEASE_ID $TENURE_FENCE"; echo "$TENURE_LEASES"'
    const words = ['run', 'work:1', 'src/', '--shared', '--', 'sh', '-c', script]
    const { code, stdout, stderr } = await shop.tenure(words)
    expect([code, stderr]).toEqual([0, ''])
    const [first = '', json = ''] = stdout.split('\n')
    const told = JSON.parse(json) as readonly LeaseInfo[]
    const { leases }: LeaseList = await shop.json(['ls', '--all'])
    expect(leases).toHaveLength(2)
    expect(told).toEqual(
      ['work:1', `file:${shop.directory}/src`].map((name) => {
        const lease = leases.find(({ resource }) => resource === name)
        expect(lease).toMatchObject({ state: 'released', releaseReason: 'completed' })
        const { id, resource, mode, extent, fence } = lease as LeaseInfo
        return { id, resource, mode, extent, fence }
      }),
    )
    expect(first).toBe(`work:1 ${told[0]?.id} ${told[0]?.fence}`)
  })

  it('is told of its only lease in the same way', async () => {
    const shop = workshop()
    const { stdout } = await shop.tenure(['run', 'work:1', '--', 'sh', '-c', 'echo $TENURE_LEASES'])
    expect(JSON.parse(stdout)).toMatchObject([{ resource: 'work:1', mode: 'exclusive' }])
  })

  it('ends when one of them is lost, and the others are given back', async () => {
    const shop = workshop()
    const words = ['run', 'work:1', 'work:2', '--', 'sh', '-c', 'echo ready; sleep 60']
    const running = shop.start(words)
    await running.says('ready')
    await shop.json(['revoke', 'work:2', '--holder', 'op'])
    const { code, stderr } = await running.ended
    expect(code).toBe(14)
    expect(stderr).toMatch(/^tenure: .*work:2.*\(LEASE_LOST\)\n$/)
    expect(await shop.json(['ls'])).toEqual({ leases: [], more: false })
  })
})
