import { sessionDigest } from '../../src/service/session-digest.ts'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { openTenure } from '../../src/index.ts'
import type { Inspection, LeaseList, LedgerEntry } from '../../src/service/lease-api.ts'
import { tenure, until, workshop } from './tenure-process.ts'

describe('a lease from the command line', () => {
  it('is taken, seen, renewed and given back', async () => {
    const shop = workshop()
    const lease: LeaseInfo = await shop.json(['acquire', 'a.ts', '--holder', 'ann', '--ttl', '1m'])
    expect(lease).toMatchObject({
      resource: `file:${shop.directory}/a.ts`,
      holder: 'ann',
      session: sessionDigest('ann'),
      state: 'active',
      ttlMs: 60_000,
      renewals: 0,
      maxRenewals: -1,
    })
    const listed: LeaseList = await shop.json(['ls'])
    expect(listed.leases.map(({ id }) => id)).toEqual([lease.id])
    expect(listed.more).toBe(false)
    const renewed: LeaseInfo = await shop.json([
      'renew',
      lease.id,
      '--holder',
      'ann',
      '--ttl',
      '2m',
    ])
    expect(renewed).toMatchObject({ id: lease.id, ttlMs: 120_000, renewals: 1, fence: lease.fence })
    const released: LeaseInfo = await shop.json([
      ...['release', 'a.ts', '--holder', 'ann', '--reason', 'completed'],
    ])
    expect(released).toMatchObject({ id: lease.id, state: 'released', releaseReason: 'completed' })
    expect(await shop.json(['ls'])).toEqual({ leases: [], more: false })
    const ended: LeaseList = await shop.json(['ls', '--all'])
    expect(ended.leases).toMatchObject([{ id: lease.id, state: 'released' }])
    expect(await shop.json(['show', lease.id])).toMatchObject({ id: lease.id, renewals: 1 })
  })

  it('shows how far a holder has come wherever its reason is shown', async () => {
    const shop = workshop()
    const tenure = await openTenure(`sqlite:${shop.storeFile}`, { holder: 'ann' })
    onTestFinished(() => tenure.close())
    const lease = await tenure.acquire('job:1', { reason: 'import' })
    await lease.update({ metadata: { done: 5, of: 10 } })
    const said = '{"done":5,"of":10}'
    expect((await shop.tenure(['ls'])).stdout).toContain(`import ${said}`)
    const why = await shop.tenure(['why', 'job:1'])
    expect(why.stdout).toContain(`\n  reason    import\n  metadata  ${said}\n`)
    expect((await shop.tenure(['show', 'job:1'])).stdout).toContain(`\n  metadata  ${said}\n`)
    const refused = await shop.tenure(['acquire', 'job:1', '--holder', 'ben'])
    expect(refused.stderr).toBe(
      `tenure: job:1 is held by "ann" ("import" ${said}) (RESOURCE_HELD)\n`,
    )
  })

  it('keeps others out, and says who is in the way', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:1', '--holder', 'ann', '--reason', 'renaming'])
    const refused = await shop.tenure(['acquire', 'work:1', '--holder', 'ben', '--json'])
    expect(refused).toMatchObject({ code: 10, stdout: '' })
    expect(JSON.parse(refused.stderr)).toMatchObject({
      code: 'RESOURCE_HELD',
      effect: 'none',
      details: { blockers: [{ holder: 'ann', reason: 'renaming' }] },
    })
    const line = await shop.tenure(['acquire', 'work:1', '--holder', 'ben'])
    expect(line.stderr).toBe('tenure: work:1 is held by "ann" ("renaming") (RESOURCE_HELD)\n')
    const why: Inspection = await shop.json(['why', 'work:1'])
    expect(why.leases).toMatchObject([{ holder: 'ann', reason: 'renaming' }])
    const words = await shop.tenure(['why', 'work:1'])
    expect(words.stdout).toMatch(
      /^work:1 is held by ann\n {2}since .*\n {2}until {5}in .*\n {2}reason {4}renaming\n/,
    )
  })

  it('is shown by its resource: who holds it, and who waits', async () => {
    const shop = workshop()
    const held: LeaseInfo = await shop.json(['acquire', 'a.ts', '--holder', 'ann'])
    const words = await shop.tenure(['show', 'a.ts'])
    const byId = await shop.tenure(['show', held.id])
    expect(withoutSpans(words.stdout)).toBe(withoutSpans(byId.stdout))
    const waiting = shop.start(['acquire', 'a.ts', '--holder', 'ben', '--wait', '60s'])
    await until(async () => {
      const { leases, queue }: Inspection = await shop.json(['show', 'a.ts'])
      expect(leases).toMatchObject([{ id: held.id }])
      return queue[0]?.holder === 'ben'
    })
    expect((await shop.tenure(['show', 'a.ts'])).stdout).toMatch(/holder {4}ann[^]*\n\n[^]*ben/)
    await shop.json(['release', held.id, '--holder', 'ann'])
    await waiting.ended
    const { code, stderr } = await shop.tenure(['show', 'work:free'])
    const line = 'tenure: nobody holds or waits for "work:free" (LEASE_NOT_FOUND)\n'
    expect([code, stderr]).toEqual([13, line])
  })

  it('is waited for, and granted as soon as it is free', async () => {
    const shop = workshop()
    const first: LeaseInfo = await shop.json(['acquire', 'work:1', '--holder', 'ann'])
    const waiting = shop.start(['acquire', 'work:1', '--holder', 'ben', '--wait', '40s', '--json'])
    await until(async () => {
      const { queue }: Inspection = await shop.json(['why', 'work:1'])
      return queue.length === 1
    })
    const words = await shop.tenure(['why', 'work:1'])
    expect(words.stdout).toContain('queue     1. ben, waiting for ')
    await shop.json(['release', first.id, '--holder', 'ann'])
    const granted = await waiting.ended
    expect(granted.code).toBe(0)
    const lease = JSON.parse(granted.stdout) as LeaseInfo
    expect(lease.holder).toBe('ben')
    expect(lease.fence).toBeGreaterThan(first.fence ?? 0)
  })

  it.each(['--wait', '--timeout'])('is waited for no longer than %s says', async (option) => {
    const shop = workshop()
    await shop.json(['acquire', 'work:1', '--holder', 'ann'])
    const timedOut = await shop.tenure(['acquire', 'work:1', '--holder', 'ben', option, '200ms'])
    expect(timedOut.code).toBe(11)
    expect(timedOut.stderr).toMatch(/^tenure: work:1 did not become free .*\(WAIT_TIMEOUT\)\n$/)
    expect(await shop.json(['ls', '--state', 'pending'])).toEqual({ leases: [], more: false })
  })

  it('is waited for as long as the store is configured to, with --blocking', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:1', '--holder', 'ann'])
    await shop.json(['config', 'set', 'acquisition_timeout_ms', '150'])
    expect((await shop.tenure(['acquire', 'work:1', '--holder', 'ben', '--blocking'])).code).toBe(
      11,
    )
    await shop.json(['config', 'set', 'blocking_mode_enabled', 'false'])
    expect((await shop.tenure(['acquire', 'work:1', '--holder', 'ben', '--blocking'])).code).toBe(
      10,
    )
  })

  it('is not left waiting when its waiter is interrupted', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:1', '--holder', 'ann'])
    const waiting = shop.start(['acquire', 'work:1', '--holder', 'ben', '--wait', '1m'])
    await until(async () => {
      const { queue }: Inspection = await shop.json(['why', 'work:1'])
      return queue.length === 1
    })
    waiting.process.kill('SIGINT')
    expect(await waiting.ended).toEqual({ code: 130, stdout: '', stderr: '' })
    const { queue }: Inspection = await shop.json(['why', 'work:1'])
    expect(queue).toEqual([])
  })

  it('is recognised when the command is repeated with its id', async () => {
    const shop = workshop()
    const id = '0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2'
    const command = ['acquire', 'work:1', '--holder', 'ann', '--lease-id', id]
    const first: LeaseInfo = await shop.json(command)
    const again: LeaseInfo = await shop.json(command)
    expect([again.id, again.fence]).toEqual([id, first.fence])
  })

  it('ends by an operator, one or all of a holder', async () => {
    const shop = workshop()
    const one: LeaseInfo = await shop.json(['acquire', 'work:1', '--holder', 'ann'])
    await shop.json(['acquire', 'work:2', '--holder', 'ann'])
    await shop.json(['acquire', 'work:3', '--holder', 'ann'])
    await shop.json(['acquire', 'work:4', '--holder', 'ben'])
    await shop.json(['revoke', 'work:1', '--holder', 'op', '--reason', 'hangs'])
    expect(await shop.json(['show', one.id])).toMatchObject({ state: 'revoked' })
    expect(await shop.json(['release-all', 'ann', '--holder', 'op'])).toEqual({
      holder: 'ann',
      revoked: 2,
    })
    const { leases }: LeaseList = await shop.json(['ls'])
    expect(leases.map(({ holder }) => holder)).toEqual(['ben'])
    const history: LedgerEntry[] = await shop.json(['history', '--type', 'revoked'])
    expect(history.map(({ event }) => event)).toMatchObject([
      { type: 'lease.revoked', by: 'op', reason: 'hangs' },
      { by: 'op' },
      { by: 'op' },
    ])
  })
})

describe('the history', () => {
  it('tells every change, oldest first, refused attempts too', async () => {
    const shop = workshop()
    const { id }: LeaseInfo = await shop.json(['acquire', 'work:1', '--holder', 'ann'])
    await shop.tenure(['acquire', 'work:1', '--holder', 'ben'])
    await shop.json(['renew', id, '--holder', 'ann'])
    await shop.json(['release', id, '--holder', 'ann'])
    const history: LedgerEntry[] = await shop.json(['history', 'work:1'])
    const told = history.map(({ event }) => [event.type, event.holder, event.before, event.after])
    expect(told).toEqual([
      ['lease.issued', 'ann', null, 'active'],
      ['lease.denied', 'ben', null, 'failed'],
      ['lease.renewed', 'ann', 'active', 'active'],
      ['lease.released', 'ann', 'active', 'released'],
    ])
    const table = await shop.tenure(['history', '--holder', 'ben'])
    expect(table.stdout).toMatch(/denied +work:1 +ben +- → failed +exclusive +0 +held by ann/)
    const last: LedgerEntry[] = await shop.json(['history', '--limit', '1'])
    expect(last.map(({ event }) => event.type)).toEqual(['lease.released'])
  })

  it('is followed as it grows, a JSON value per line', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:0', '--holder', 'ann'])
    const [acquired]: LedgerEntry[] = await shop.json(['history'])
    const filter = ['--type', 'acquired,released', '--after', acquired?.position ?? '']
    const watching = shop.start(['watch', '--json', ...filter])
    await shop.json(['renew', 'work:0', '--holder', 'ann'])
    await shop.json(['release', 'work:0', '--holder', 'ann'])
    await watching.says('lease.released')
    watching.process.kill('SIGTERM')
    const { code, stdout, stderr } = await watching.ended
    expect([code, stderr]).toEqual([143, ''])
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as LedgerEntry)
    expect(events.map(({ event }) => event.type)).toEqual(['lease.released'])
  })

  it('are watched on from where an interrupted watch says', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:0', '--holder', 'ann', '--ttl', '60s'])
    const [acquired]: LedgerEntry[] = await shop.json(['history'])
    const first = shop.start(['watch', '--after', acquired?.position ?? ''])
    await shop.json(['renew', 'work:0', '--holder', 'ann'])
    await first.says('renewed')
    first.process.kill('SIGINT')
    const { code, stderr } = await first.ended
    expect([code, stderr]).toEqual([130, expect.stringMatching(/^resume with --after \S+\n$/)])
    await shop.json(['release', 'work:0', '--holder', 'ann'])
    const position = stderr.trim().split(' ').at(-1) ?? ''
    const second = shop.start(['watch', '--after', position])
    await second.says('released')
    second.process.kill('SIGINT')
    const { stdout } = await second.ended
    expect(stdout.trim().split('\n')).toHaveLength(1)
  })

  it('is not watched from a position that it has not reached', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:0', '--holder', 'ann'])
    const { code, stdout, stderr } = await shop.tenure(['watch', '--after', '999'])
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toBe(
      'tenure: after must be a position of this store, at most 1, got "999" (INVALID_INPUT)\n',
    )
  })
})

describe('the configuration', () => {
  it('is listed, read, set for everybody or for a kind, and given its default back', async () => {
    const shop = workshop()
    expect((await shop.tenure(['config', 'get', 'max_renewals'])).stdout).toBe('-1\n')
    expect(await shop.json(['config', 'set', 'max_renewals', '5'])).toEqual({
      key: 'max_renewals',
      value: 5,
    })
    await shop.json(['config', 'set', 'max_renewals', '-1', '--for', 'work'])
    await shop.json(['config', 'set', 'max_renewals', '7', '--for', 'work:1'])
    const value = async (...target: readonly string[]): Promise<unknown> => {
      const answer: { value: unknown } = await shop.json([
        'config',
        'get',
        'max_renewals',
        ...target,
      ])
      return answer.value
    }
    expect(await value()).toBe(5)
    expect(await value('--for', 'work')).toBe(-1)
    expect(await value('--for', 'work:1')).toBe(7)
    expect(await shop.json(['acquire', 'work:1'])).toMatchObject({ maxRenewals: 7 })
    await shop.json(['config', 'unset', 'max_renewals', '--for', 'work:1'])
    expect(await value('--for', 'work:1')).toBe(-1)
    await shop.json(['config', 'unset', 'max_renewals'])
    expect(await value()).toBe(-1)
    const all: { settings: Record<string, unknown> } = await shop.json(['config', 'ls'])
    expect(all.settings).toMatchObject({ default_ttl_seconds: 3600, keep_history: true })
  })
})

describe('around the store', () => {
  it('cleanup says what it found', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:1', '--ttl', '3s'])
    await until(async () => (await shop.json<LeaseList>(['ls'])).leases.length === 0)
    expect(await shop.json(['cleanup'])).toEqual({ expired: 1, prunedLeases: 0, prunedEvents: 0 })
    expect((await shop.tenure(['cleanup'])).stdout).toBe(
      '0 leases found expired, 0 ended leases and 0 events pruned\n',
    )
  })

  it('namespaces do not see each other', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:1', '--holder', 'ann', '--namespace', 'one'])
    await shop.json(['acquire', 'work:1', '--holder', 'ben', '--namespace', 'two'])
    expect(await shop.json(['ls'])).toEqual({ leases: [], more: false })
    const viaEnv = await shop.tenure(['ls'], { env: { TENURE_NAMESPACE: 'one' } })
    expect(viaEnv.stdout).toContain('ann')
  })

  it('a doctor finds a healthy store healthy, and says what is wrong with a broken one', async () => {
    const shop = workshop()
    await shop.json(['ls'])
    const healthy: { ok: boolean; checks: { name: string }[] } = await shop.json(['doctor'])
    expect(healthy.ok).toBe(true)
    const names = healthy.checks.map(({ name }) => name)
    for (const name of ['node', 'driver', 'directory', 'store', 'clock', 'writing', 'rows']) {
      expect(names).toContain(name)
    }
    const ill = await shop.tenure(['doctor', '--store', `sqlite:/dev/null/x.db`])
    expect(ill.code).toBe(1)
    expect(ill.stdout).toContain('wrong  ')
    expect(ill.stderr).toBe('')
  })

  it('a store in a directory that is not there yet is created', async () => {
    const shop = workshop()
    const url = `sqlite:${shop.directory}/new/deep/leases.db`
    expect(await shop.json(['acquire', 'work:1', '--store', url])).toMatchObject({
      state: 'active',
    })
    expect(await shop.json(['ls', '--store', url])).toMatchObject({ leases: [{}] })
  })

  it('options may stand before the command', async () => {
    const shop = workshop()
    const { code, stdout } = await tenure(['--store', shop.storeUrl, '--json', 'ls'])
    expect([code, stdout]).toEqual([0, '{"leases":[],"more":false}\n'])
  })

  it('a reader that has enough ends a command quietly', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:1'])
    for (const command of ['ls', 'history', 'doctor']) {
      const running = shop.start([command])
      running.process.stdout?.destroy()
      expect(await running.ended).toEqual({ code: 0, stdout: '', stderr: '' })
    }
  })
})

/** Two commands are never run at the same moment, so what they say of how long ago it was differs. */
/** What has just happened is told without a span. */
function withoutSpans(text: string): string {
  return text.replaceAll(/\bnow \(/g, 'SPAN ago (').replaceAll(/\b(\d+[hm] ?)*[\d.]+s\b/g, 'SPAN')
}
