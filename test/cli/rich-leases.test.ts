/** Shared, subtree and counted leases, upgrades, transfers, graces and deadlocks, as people use them. */
import { describe, expect, it } from 'vitest'
import type { LeaseInfo } from '../../src/core/lease.ts'
import type { Inspection, LeaseList, LedgerEntry } from '../../src/service/lease-api.ts'
import { until, workshop, type Running, type Workshop } from './tenure-process.ts'

async function acquire(
  shop: Workshop,
  holder: string,
  ...words: readonly string[]
): Promise<LeaseInfo> {
  return shop.json(['acquire', ...words, '--holder', holder])
}

/** The exit status of an acquire that does not wait. */
async function attempt(
  shop: Workshop,
  holder: string,
  ...words: readonly string[]
): Promise<number | null> {
  return (await shop.hosted(['acquire', ...words, '--holder', holder])).code
}

async function isAwaited(shop: Workshop, resource: string, waiters = 1): Promise<void> {
  await until(async () => {
    const { queue }: Inspection = await shop.json(['why', resource])
    return queue.length === waiters
  })
}

/** Starts an acquire that waits, and returns when it stands in the queue. */
async function waiter(
  shop: Workshop,
  resource: string,
  words: readonly string[],
): Promise<Running> {
  const { queue }: Inspection = await shop.json(['why', resource])
  const running = shop.start(['acquire', resource, '--wait', '40s', '--json', ...words])
  await isAwaited(shop, resource, queue.length + 1)
  return running
}

describe('a shared lease', () => {
  it('is held by many, and keeps out whoever wants to be alone', async () => {
    const shop = workshop()
    const ann = await acquire(shop, 'ann', 'work:1', '--shared')
    const ben = await acquire(shop, 'ben', 'work:1', '--shared')
    expect([ann.mode, ben.mode]).toEqual(['shared', 'shared'])
    expect(await attempt(shop, 'cyd', 'work:1')).toBe(10)
    const { stdout } = await shop.tenure(['ls'])
    expect(stdout).toMatch(/work:1 +ann +shared +active .*\nwork:1 +ben +shared +active /)
    const why = await shop.tenure(['why', 'work:1'])
    expect(why.stdout).toContain('work:1 is shared by ann\n')
    expect(why.stdout).toContain('work:1 is shared by ben\n')
  })

  it('is not given to a reader who comes after a waiting writer', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'work:1', '--shared')
    const writer = await waiter(shop, 'work:1', ['--holder', 'ben'])
    expect(await attempt(shop, 'cyd', 'work:1', '--shared')).toBe(10)
    await shop.json(['release', 'work:1', '--holder', 'ann'])
    expect((await writer.ended).code).toBe(0)
  })

  it('has to be named by its id when a holder has two of one resource', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'work:1', '--shared')
    await acquire(shop, 'ann', 'work:1', '--shared', '--session', 'other')
    const { code, stderr } = await shop.tenure(['release', 'work:1', '--holder', 'ann'])
    expect(code).toBe(2)
    expect(stderr).toContain('lease must be given by id, because 2 match')
  })
})

describe('a subtree', () => {
  it.each([[['src/']], [['src', '--subtree']]])(
    'given as %j blocks what is below, and nothing beside it',
    async (words) => {
      const shop = workshop()
      const lease = await acquire(shop, 'ann', ...words)
      expect(lease).toMatchObject({ resource: `file:${shop.directory}/src`, extent: 'subtree' })
      expect(await attempt(shop, 'ben', 'src/app.ts')).toBe(10)
      expect(await attempt(shop, 'ben', 'src')).toBe(10)
      expect(await attempt(shop, 'ben', 'src_backup')).toBe(0)
      const why = await shop.tenure(['why', 'src/app.ts'])
      expect(why.stdout).toContain(`is held by ann through file:${shop.directory}/src\n`)
      expect(why.stdout).toContain('  mode      exclusive, subtree\n')
    },
  )

  it('is blocked by what is below it, and why says by what', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'src/deep/app.ts')
    expect(await attempt(shop, 'ben', 'src/')).toBe(10)
    expect(await attempt(shop, 'ben', 'src')).toBe(0)
    const { leases }: Inspection = await shop.json(['why', 'src/'])
    expect(leases.map(({ holder }) => holder).toSorted()).toEqual(['ann', 'ben'])
  })
})

describe('a counted resource', () => {
  it('takes as many as all who share it agree to', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'gpu:1', '--slots', '2')
    const second = await acquire(shop, 'ben', 'gpu:1', '--slots', '2')
    expect(second).toMatchObject({ mode: 'shared', slots: 2 })
    expect(await attempt(shop, 'cyd', 'gpu:1', '--slots', '2')).toBe(10)
    expect(await attempt(shop, 'cyd', 'gpu:1', '--slots', '3')).toBe(10)
    await shop.json(['release', second.id, '--holder', 'ben'])
    expect(await attempt(shop, 'cyd', 'gpu:1', '--slots', '3')).toBe(0)
    expect(await attempt(shop, 'dan', 'gpu:1', '--slots', '3')).toBe(10)
  })
})

describe('a queue', () => {
  it('is served by priority, and why shows it in that order', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'work:1')
    const patient = await waiter(shop, 'work:1', ['--holder', 'ben'])
    const urgent = await waiter(shop, 'work:1', ['--holder', 'cyd', '--priority', '50'])
    const { stdout } = await shop.tenure(['why', 'work:1'])
    expect(stdout).toMatch(/queue {5}1\. cyd, .*, priority 50\n {12}2\. ben, waiting for/)
    await shop.json(['release', 'work:1', '--holder', 'ann'])
    expect((await urgent.ended).code).toBe(0)
    patient.process.kill('SIGTERM')
    expect((await patient.ended).code).toBe(143)
  })
})

describe('an upgrade', () => {
  it('of a lease that nobody shares gives a new fence under the same id', async () => {
    const shop = workshop()
    const lease = await acquire(shop, 'ann', 'work:1', '--shared')
    const upgraded: LeaseInfo = await shop.json(['upgrade', 'work:1', '--holder', 'ann'])
    expect(upgraded).toMatchObject({ id: lease.id, mode: 'exclusive', changed: true })
    expect(upgraded.fence).toBeGreaterThan(lease.fence ?? 0)
    const down: LeaseInfo = await shop.json(['downgrade', 'work:1', '--holder', 'ann'])
    const { fence } = upgraded
    expect(down).toMatchObject({ id: lease.id, mode: 'shared', fence, changed: true })
    expect(await attempt(shop, 'ben', 'work:1', '--shared')).toBe(0)
  })

  it('waits for the others, lets nobody in meanwhile, and is done when they have left', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'work:1', '--shared')
    await acquire(shop, 'ben', 'work:1', '--shared')
    expect((await shop.tenure(['upgrade', 'work:1', '--holder', 'ann'])).code).toBe(10)
    const running = shop.start(['upgrade', 'work:1', '--holder', 'ann', '--wait', '40s', '--json'])
    await until(async () => (await upgrading(shop)).length === 1)
    const why = await shop.tenure(['why', 'work:1'])
    expect(why.stdout).toContain('  upgrade   waits for the other sharers to leave\n')
    expect(await attempt(shop, 'cyd', 'work:1', '--shared')).toBe(10)
    await shop.json(['release', 'work:1', '--holder', 'ben'])
    const { code, stdout } = await running.ended
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ holder: 'ann', mode: 'exclusive', changed: true })
  })

  it('leaves no wish behind, whether its wait ran out or was interrupted', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'work:1', '--shared')
    await acquire(shop, 'ben', 'work:1', '--shared')
    const command = ['upgrade', 'work:1', '--holder', 'ann', '--wait']
    const { code, stderr } = await shop.tenure([...command, '200ms'])
    expect(code).toBe(11)
    expect(stderr).toMatch(/^tenure: the others did not leave within 200 ms.*\(WAIT_TIMEOUT\)\n$/)
    expect(await upgrading(shop)).toEqual([])
    const running = shop.start([...command, '1m'])
    await until(async () => (await upgrading(shop)).length === 1)
    running.process.kill('SIGINT')
    expect(await running.ended).toEqual({ code: 130, stdout: '', stderr: '' })
    expect(await upgrading(shop)).toEqual([])
  })

  it('by two at once is a deadlock, of which the second is told', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'work:1', '--shared')
    await acquire(shop, 'ben', 'work:1', '--shared')
    const first = shop.start(['upgrade', 'work:1', '--holder', 'ann', '--wait', '40s'])
    await until(async () => (await upgrading(shop)).length === 1)
    const second = await shop.tenure(['upgrade', 'work:1', '--holder', 'ben', '--wait', '40s'])
    expect(second.code).toBe(10)
    expect(second.stderr).toBe(
      'tenure: waiting would never end: ben → work:1 → ann → work:1 → ben (DEADLOCK)\n',
    )
    await shop.json(['release', 'work:1', '--holder', 'ben'])
    expect((await first.ended).code).toBe(0)
  })
})

async function upgrading(shop: Workshop): Promise<readonly string[]> {
  const { leases }: LeaseList = await shop.json(['ls'])
  return leases.filter((lease) => lease.upgrading).map(({ holder }) => holder)
}

describe('a transfer', () => {
  it.each(['adopt', 'acquire'])(
    'to a holder by name is that holder’s at once, and taken over by %s',
    async (command) => {
      const shop = workshop()
      const old = await acquire(shop, 'ann', 'work:1', '--ttl', '1m')
      const given: { lease: LeaseInfo } = await shop.json([
        ...['transfer', 'work:1', '--holder', 'ann', '--to', 'ben'],
      ])
      const { id, fence } = given.lease
      expect(given.lease).toMatchObject({ holder: 'ben', state: 'active', ttlMs: 60_000 })
      expect(id).not.toBe(old.id)
      expect(fence).toBeGreaterThan(old.fence ?? 0)
      expect(await shop.json(['show', old.id])).toMatchObject({ releaseReason: 'transferred' })
      expect(await attempt(shop, 'ann', 'work:1')).toBe(10)
      const word = command === 'adopt' ? id : 'work:1'
      expect(await shop.json([command, word, '--holder', 'ben'])).toMatchObject({ id, fence })
      const events: LedgerEntry[] = await shop.json(['history', '--type', 'transferred,adopted'])
      expect(events.map(({ event }) => event.holder)).toEqual(['ann', 'ben'])
    },
  )

  it('is shown as not adopted by why, show and ls until its receiver has taken it over', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'work:W')
    await shop.json(['transfer', 'work:W', '--holder', 'ann', '--to', 'ben'])
    const listed = async (): Promise<LeaseInfo | undefined> => {
      const { leases }: LeaseList = await shop.json(['ls', 'work:W'])
      return leases[0]
    }
    const given = await listed()
    expect(given).toMatchObject({ adopted: false, group: null, holder: 'ben' })
    const line = '  adopted   not yet: it was transferred to ben\n'
    expect((await shop.tenure(['why', 'work:W'])).stdout).toContain(line)
    expect((await shop.tenure(['show', given?.id ?? ''])).stdout).toContain(line)
    expect((await shop.tenure(['ls'])).stdout).toContain('active, not adopted')
    const both = await shop.tenure(['acquire', 'work:V', 'work:W', '--holder', 'ben'])
    expect(both.stdout).toContain(given?.id)
    expect(await listed()).toMatchObject({ adopted: true })
  })

  it('to the next in the queue serves the waiter', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'work:1')
    const waiting = await waiter(shop, 'work:1', ['--holder', 'ben'])
    await shop.json(['transfer', 'work:1', '--holder', 'ann', '--next'])
    expect((await waiting.ended).code).toBe(0)
  })
})

it('a request for several is shown with what its tickets have in common', async () => {
  const shop = workshop()
  await acquire(shop, 'ann', 'work:A')
  const running = shop.start(['acquire', 'work:A', 'work:B', '--wait', '40s', '--holder', 'ben'])
  await isAwaited(shop, 'work:A')
  const { leases }: LeaseList = await shop.json(['ls', '--state', 'pending'])
  const groups = new Set(leases.map(({ group }) => group))
  expect(leases).toHaveLength(2)
  expect(groups.size).toBe(1)
  const why = await shop.tenure(['why', 'work:A'])
  expect(why.stdout).toContain(`one of several at once (group ${[...groups].join()})`)
  await shop.json(['release', 'work:A', '--holder', 'ann'])
  expect((await running.ended).code).toBe(0)
})

it('a lease that was revoked says by whom', async () => {
  const shop = workshop()
  const { id } = await acquire(shop, 'ann', 'work:A')
  await shop.json(['revoke', id, '--holder', 'op', '--reason', 'deploy'])
  const { stdout } = await shop.tenure(['show', id])
  expect(stdout).toContain('  revoked   by op: deploy\n')
})

describe('a holder who is asked to finish', () => {
  it('by an operator has until the end of the grace, and cannot renew', async () => {
    const shop = workshop()
    const { id } = await acquire(shop, 'ann', 'work:1')
    const words = ['revoke', id, '--holder', 'op', '--grace', '30s', '--reason', 'going down']
    const asked: LeaseInfo = await shop.json(words)
    expect(asked).toMatchObject({ id, state: 'active', revoking: { by: 'op' } })
    expect(asked.remainingMs).toBeLessThanOrEqual(30_000)
    const { code, stderr } = await shop.tenure(['renew', id, '--holder', 'ann'])
    expect([code, stderr.endsWith('(RENEWAL_LIMIT)\n')]).toEqual([10, true])
    const why = await shop.tenure(['why', 'work:1'])
    expect(why.stdout).toContain('  asked     to finish by op: going down\n')
    expect((await shop.tenure(['ls'])).stdout).toContain(' active, revoking ')
    await shop.json(['release', id, '--holder', 'ann'])
  })

  it('and runs a command is told so, and the command ends with the grace', async () => {
    const shop = workshop()
    const running = shop.start(['run', 'work:1', '--', 'sh', '-c', 'echo ready; sleep 60'])
    await running.says('ready')
    // Long enough for a busy machine to tell the run of it before it is over.
    await shop.json(['revoke', 'work:1', '--holder', 'op', '--grace', '5s'])
    const { code, stderr } = await running.ended
    expect(code).toBe(14)
    expect(stderr).toMatch(
      /^tenure: op asks to finish work:1 within .*\ntenure: .*\(LEASE_LOST\)\n$/,
    )
    // The holder's view ends a little before the lease does.
    const revoked = async (): Promise<readonly LedgerEntry[]> => {
      await shop.json(['cleanup'])
      return shop.json(['history', '--type', 'revoked'])
    }
    await until(async () => (await revoked()).length > 0)
    expect((await revoked())[0]?.event).toMatchObject({ by: 'op', after: 'revoked' })
  })

  it('is asked by a waiter only if it allowed that', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'work:1', '--breakable')
    await acquire(shop, 'ann', 'work:2')
    const ask = ['--holder', 'ben', '--break-after', '100ms', '--wait']
    expect(await shop.json(['acquire', 'work:1', ...ask, '40s'])).toMatchObject({ holder: 'ben' })
    expect((await shop.tenure(['acquire', 'work:2', ...ask, '1s'])).code).toBe(11)
  })
})

describe('a lock delay', () => {
  it('keeps a resource free after a lease that ran out', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'work:1', '--ttl', '3s', '--lock-delay', '1h')
    await until(async () => (await shop.json<LeaseList>(['ls'])).leases.length === 0)
    expect(await attempt(shop, 'ben', 'work:1')).toBe(10)
    const { stdout } = await shop.tenure(['why', 'work:1'])
    expect(stdout).toMatch(/^work:1 is kept free for another 59m .* after ann's lease\n/)
  })
})

describe('those who wait for each other', () => {
  it('are told, with the cycle named, and the other goes on waiting', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'work:A')
    await acquire(shop, 'ben', 'work:B')
    const ann = await waiter(shop, 'work:B', ['--holder', 'ann'])
    const ben = await shop.tenure(['acquire', 'work:A', '--wait', '40s', '--holder', 'ben'])
    expect(ben.code).toBe(10)
    expect(ben.stderr).toMatch(
      /^tenure: waiting would never end, if those who stand still wait for it: (ann → work:B → ben → work:A → ann|ben → work:A → ann → work:B → ben) \(DEADLOCK\)\n$/,
    )
    await shop.json(['release', 'work:B', '--holder', 'ben'])
    expect((await ann.ended).code).toBe(0)
  })
})

describe('a watch', () => {
  it('that starts where another ended misses nothing and repeats nothing', async () => {
    const shop = workshop()
    const { id } = await acquire(shop, 'ann', 'work:1', '--shared')
    const first = shop.start(['watch', '--json', '--after', await firstPosition(shop)])
    await shop.json(['upgrade', id, '--holder', 'ann'])
    await first.says('lease.upgraded')
    first.process.kill('SIGTERM')
    const seen = entriesOf((await first.ended).stdout)
    await shop.json(['downgrade', id, '--holder', 'ann'])
    await shop.json(['transfer', id, '--holder', 'ann', '--to', 'ben'])
    const second = shop.start(['watch', '--json', '--after', seen.at(-1)?.position ?? ''])
    await shop.json(['adopt', 'work:1', '--holder', 'ben'])
    await second.says('lease.adopted')
    second.process.kill('SIGTERM')
    const all = [...seen, ...entriesOf((await second.ended).stdout)]
    expect(all.map(({ event }) => event.type)).toEqual([
      ...['lease.upgraded', 'lease.downgraded', 'lease.transferred', 'lease.issued'],
      'lease.adopted',
    ])
  })

  it('tells people what is particular to each event', async () => {
    const shop = workshop()
    await acquire(shop, 'ann', 'src/', '--shared')
    const watching = shop.start(['watch', '--after', await firstPosition(shop)])
    const upgraded: LeaseInfo = await shop.json(['upgrade', 'src', '--holder', 'ann'])
    await shop.json(['revoke', 'src', '--holder', 'op', '--grace', '10s', '--reason', 'down'])
    await watching.says('down')
    watching.process.kill('SIGTERM')
    const { stdout } = await watching.ended
    const name = `file:${shop.directory}/src`
    expect(stdout).toContain(`upgraded     ${name}  ann  fence ${upgraded.fence}\n`)
    expect(stdout).toMatch(/revoking {5}file:\S+ {2}ann {2}until \S+ \S+ {2}down\n/)
  })
})

async function firstPosition(shop: Workshop): Promise<string> {
  const [entry]: LedgerEntry[] = await shop.json(['history'])
  return entry?.position ?? ''
}

function entriesOf(lines: string): readonly LedgerEntry[] {
  return lines
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as LedgerEntry)
}
