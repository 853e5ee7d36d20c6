/** Sharing, directories, priorities, upgrades and transfers, in the words of file leases. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import type { LeaseEventType } from '../../src/core/event.ts'
import { parseResource } from '../../src/core/resource.ts'
import { guard } from '../../src/guard/index.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { granted, queued, refusal, sqliteBench, stillBench, temporaryDirectory } from './harness.ts'

const DIRECTORY = '/repo/src'
const FILE = '/repo/src/app.ts'

describe('agents that read', () => {
  it('share a file, and keep one that writes out', async () => {
    const { files } = stillBench()
    const read = { filePath: FILE, mode: 'shared' } as const
    expect(granted(await files.acquireLease({ ...read, agentId: 'agent-1' }))).toMatchObject({
      mode: 'shared',
    })
    granted(await files.acquireLease({ ...read, agentId: 'agent-2' }))
    const write = { filePath: FILE, agentId: 'agent-3' }
    expect(refusal(await files.acquireLease(write)).error.code).toBe('RESOURCE_HELD')
    expect(await files.getFileLeases(FILE)).toHaveLength(2)
  })
})

describe('an agent that reads', () => {
  const read = { filePath: FILE, mode: 'shared', agentId: 'agent-1' } as const

  it('and asks again for the same is told of its own lease', async () => {
    const { files } = stillBench()
    const lease = granted(await files.acquireLease(read))
    const { error, holder } = refusal(await files.acquireLease({ ...read, blocking: true }))
    expect(error.code).toBe('RESOURCE_HELD')
    expect(holder).toMatchObject({ agentId: 'agent-1', leaseId: lease.id })
    expect(await files.getFileLeases(FILE)).toHaveLength(1)
    await files.releaseLease({ leaseId: lease.id, agentId: 'agent-1' })
    granted(await files.acquireLease(read))
  })

  it('and asks again while it waits for the same waits once', async () => {
    const { files, runtime } = stillBench()
    const written = granted(await files.acquireLease({ filePath: FILE, agentId: 'agent-2' }))
    const waiting = files.acquireLease({ ...read, blocking: true })
    await runtime.settle()
    const { holder } = refusal(await files.acquireLease({ ...read, blocking: true }))
    expect(holder).toMatchObject({ agentId: 'agent-1', kind: 'ticket' })
    await files.releaseLease({ leaseId: written.id, agentId: 'agent-2' })
    granted(await waiting)
    expect(await files.getFileLeases(FILE)).toHaveLength(1)
  })

  it('may read what is below, and the whole directory as well', async () => {
    const { files } = stillBench()
    const whole = { ...read, filePath: DIRECTORY, extent: 'subtree' } as const
    for (const request of [read, whole, { ...read, filePath: DIRECTORY }]) {
      granted(await files.acquireLease(request))
    }
  })
})

describe('a directory', () => {
  it('that is leased with all below it keeps others out of its files', async () => {
    const { files } = stillBench()
    const whole = { filePath: DIRECTORY, extent: 'subtree', agentId: 'agent-1' } as const
    const lease = granted(await files.acquireLease(whole))
    expect(lease).toMatchObject({ filePath: DIRECTORY, extent: 'subtree' })
    const { error, holder } = refusal(
      await files.acquireLease({ filePath: FILE, agentId: 'agent-2' }),
    )
    expect([error.code, holder?.agentId]).toEqual(['RESOURCE_HELD', 'agent-1'])
    expect(await files.isFileLocked(FILE)).toBe(true)
    expect(await files.isFileLocked('/repo/src_backup/app.ts')).toBe(false)
    granted(await files.acquireLease({ filePath: '/repo/README.md', agentId: 'agent-2' }))
  })

  it('is given when what is below it is free', async () => {
    const { files } = stillBench()
    granted(await files.acquireLease({ filePath: FILE, agentId: 'agent-1' }))
    const whole = { filePath: DIRECTORY, extent: 'subtree', agentId: 'agent-2' } as const
    expect(refusal(await files.acquireLease(whole)).holder?.agentId).toBe('agent-1')
  })
})

describe('an urgent request', () => {
  it('is served before one that came earlier', async () => {
    const { api, files, runtime } = stillBench()
    const first = granted(await files.acquireLease({ filePath: FILE, agentId: 'agent-1' }))
    const wait = { filePath: FILE, blocking: true, timeoutMs: 60_000 }
    const calm = files.acquireLease({ ...wait, agentId: 'agent-2' })
    await runtime.settle()
    const urgent = files.acquireLease({ ...wait, agentId: 'agent-3', priority: 10 })
    await runtime.settle()
    const { queue } = await api.inspect({ resource: parseResource(`file:${FILE}`) })
    expect(queue.map(({ holder }) => holder)).toEqual(['agent-3', 'agent-2'])
    await files.releaseLease({ leaseId: first.id, agentId: 'agent-1' })
    const second = granted(await urgent)
    await files.releaseLease({ leaseId: second.id, agentId: 'agent-3' })
    granted(await calm)
  })

  it.each([
    ['priority', 101],
    ['mode', 'alone'],
    ['extent', 'all'],
    ['filePath', 'src/app.ts'],
  ])('is refused for a %s of %j, by that name', async (field, value) => {
    const { files } = stillBench()
    const request = { filePath: FILE, agentId: 'agent-1', [field]: value }
    await expect(files.acquireLease(request)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      details: { field },
      message: expect.stringContaining(`${field} must be`),
    })
  })
})

describe('an upgrade', () => {
  const read = { filePath: FILE, mode: 'shared', ttlSeconds: 3600 } as const

  it('has alone at once what nobody else shares, under a higher fence', async () => {
    const { files } = stillBench()
    const lease = granted(await files.acquireLease({ ...read, agentId: 'agent-1' }))
    const request = { leaseId: lease.id, agentId: 'agent-1' }
    const upgraded = granted(await files.upgradeLease(request))
    expect(upgraded).toMatchObject({ id: lease.id, mode: 'exclusive' })
    expect(upgraded.fence).toBeGreaterThan(lease.fence ?? 0)
    expect(granted(await files.upgradeLease(request))).toEqual(upgraded)
    expect(granted(await files.downgradeLease(request))).toMatchObject({ mode: 'shared' })
    granted(await files.acquireLease({ ...read, agentId: 'agent-2' }))
  })

  it('is refused while others share the file, unless it may wait for them', async () => {
    const { files, runtime } = stillBench()
    const own = granted(await files.acquireLease({ ...read, agentId: 'agent-1' }))
    const other = granted(await files.acquireLease({ ...read, agentId: 'agent-2' }))
    const request = { leaseId: own.id, agentId: 'agent-1' }
    const { error, holder } = refusal(await files.upgradeLease(request))
    expect([error.code, holder?.agentId]).toEqual(['RESOURCE_HELD', 'agent-2'])
    const waiting = files.upgradeLease({ ...request, blocking: true, timeoutMs: 60_000 })
    await runtime.settle()
    await files.releaseLease({ leaseId: other.id, agentId: 'agent-2' })
    expect(granted(await waiting)).toMatchObject({ id: own.id, mode: 'exclusive' })
  })

  it('that waited in vain leaves the lease shared and the file open to others who share', async () => {
    const { files, runtime } = stillBench()
    const own = granted(await files.acquireLease({ ...read, agentId: 'agent-1' }))
    granted(await files.acquireLease({ ...read, agentId: 'agent-2' }))
    const request = { leaseId: own.id, agentId: 'agent-1', blocking: true, timeoutMs: 700 }
    const waiting = files.upgradeLease(request)
    await runtime.settle()
    expect(refusal(await files.upgradeLease(request)).error.code).toBe('INVALID_STATE')
    await runtime.advance(700)
    expect(refusal(await waiting).error).toMatchObject({
      code: 'WAIT_TIMEOUT',
      details: { waitedMs: 700 },
    })
    await runtime.settle()
    expect(await files.getLease(own.id)).toMatchObject({ mode: 'shared', status: 'active' })
    granted(await files.acquireLease({ ...read, agentId: 'agent-3' }))
  })

  it('is the holder’s alone to ask for', async () => {
    const { files } = stillBench()
    const lease = granted(await files.acquireLease({ ...read, agentId: 'agent-1' }))
    const request = { leaseId: lease.id, agentId: 'agent-2' }
    for (const response of [
      await files.upgradeLease(request),
      await files.downgradeLease(request),
    ]) {
      const { error, holder } = refusal(response)
      expect([error.code, holder?.agentId]).toEqual(['NOT_HOLDER', 'agent-1'])
    }
    const unknown = { leaseId: '00000000-0000-4000-8000-000000000000', agentId: 'agent-2' }
    expect(refusal(await files.upgradeLease(unknown)).error.code).toBe('LEASE_NOT_FOUND')
  })

  it('waits across processes that share a file of SQLite', async () => {
    const database = path.join(temporaryDirectory(), 'leases.db')
    const [one, two] = [await sqliteBench(database), await sqliteBench(database)]
    const own = granted(await one.files.acquireLease({ ...read, agentId: 'agent-1' }))
    const other = granted(await two.files.acquireLease({ ...read, agentId: 'agent-2' }))
    const after = (await one.api.history({ newestFirst: true, limit: 1 }))[0]?.position ?? '0'
    const request = { leaseId: own.id, agentId: 'agent-1', blocking: true }
    const waiting = one.files.upgradeLease(request)
    for await (const _event of two.api.watch({ after, types: ['lease.upgrading'] })) break
    await two.files.releaseLease({ leaseId: other.id, agentId: 'agent-2' })
    expect(granted(await waiting)).toMatchObject({ mode: 'exclusive' })
  })
})

describe('a transfer', () => {
  it('gives the file to another agent, who takes it over by asking for it', async () => {
    const { files } = stillBench()
    const lease = granted(await files.acquireLease({ filePath: FILE, agentId: 'agent-1' }))
    const request = { leaseId: lease.id, agentId: 'agent-1', toAgentId: 'agent-2' }
    const given = granted((await files.transferLease(request)) as Parameters<typeof granted>[0])
    expect(given).toMatchObject({ agentId: 'agent-2', filePath: FILE, status: 'active' })
    expect(given.fence).toBeGreaterThan(lease.fence ?? 0)
    expect(await files.getLease(lease.id)).toMatchObject({ status: 'released' })
    const taken = granted(await files.acquireLease({ filePath: FILE, agentId: 'agent-2' }))
    expect([taken.id, taken.fence]).toEqual([given.id, given.fence])
    expect(refusal(await files.transferLease(request)).error.code).toBe('LEASE_TERMINAL')
  })

  it('to the next in the queue is refused when nobody waits, and else serves whoever does', async () => {
    const { api, files } = await sqliteBench(path.join(temporaryDirectory(), 'leases.db'))
    const lease = granted(await files.acquireLease({ filePath: FILE, agentId: 'agent-1' }))
    const request = { leaseId: lease.id, agentId: 'agent-1', toAgentId: null }
    expect((await files.transferLease(request)).success).toBe(false)
    expect(await files.hasAgentLease('agent-1', FILE)).toBe(true)
    const waiting = { filePath: FILE, agentId: 'agent-2', blocking: true }
    const { answer } = await queued(api, () => files.acquireLease(waiting))
    expect(await files.transferLease(request)).toEqual({ success: true, lease: null })
    expect(granted(await answer)).toMatchObject({ agentId: 'agent-2' })
  })
})

describe('the doings of agents', () => {
  it('are counted from the history: renewals, timeouts and refusals of each agent', async () => {
    const { api, files, runtime } = stillBench()
    const own = { filePath: FILE, agentId: 'agent-1', ttlSeconds: 60 }
    const { id } = granted(await files.acquireLease(own))
    runtime.stall(10_000)
    granted(await files.renewLease({ leaseId: id, agentId: 'agent-1' }))
    const other = { filePath: FILE, agentId: 'agent-2' }
    refusal(await files.acquireLease(other))
    const waiting = files.acquireLease({ ...other, blocking: true, timeoutMs: 700 })
    await runtime.advance(700)
    refusal(await waiting)
    await runtime.settle()
    const count = async (holder: string, type: LeaseEventType): Promise<number> => {
      return (await api.history({ holder, types: [type] })).length
    }
    expect(await count('agent-1', 'lease.renewed')).toBe(1)
    expect(await count('agent-2', 'lease.failed')).toBe(1)
    expect(await count('agent-2', 'lease.denied')).toBe(1)
    expect(await files.getAgentLeases('agent-1')).toHaveLength(1)
  })
})

describe('a file lease', () => {
  it('is not renewed to end sooner, and a refused renewal leaves it as it was and a failed row in its history', async () => {
    const { api, files } = stillBench()
    const request = { filePath: FILE, agentId: 'agent-1', ttlSeconds: 60, maxRenewals: 5 }
    const lease = granted(await files.acquireLease(request))
    const shorter = { leaseId: lease.id, agentId: 'agent-1', newTtlSeconds: 30 }
    expect(refusal(await files.renewLease(shorter)).error.code).toBe('RENEWAL_DOES_NOT_EXTEND')
    expect(await files.getLease(lease.id)).toEqual(lease)
    await files.renewLease(shorter)
    const history = await api.history({ id: lease.id })
    expect(history.map(({ event, count }) => [event.type, event.reason, count])).toEqual([
      ['lease.issued', null, undefined],
      ['lease.denied', 'renewal refused: it would not extend the lease', 2],
    ])
    expect(await api.history({ id: lease.id, refusals: false })).toHaveLength(1)
  })

  it('has each refused renewal in its history: by another agent, past the limit, and after its end', async () => {
    const { api, files, runtime } = stillBench()
    const request = { filePath: FILE, agentId: 'agent-1', ttlSeconds: 60, maxRenewals: 0 }
    const { id: leaseId } = granted(await files.acquireLease(request))
    const own = { leaseId, agentId: 'agent-1' }
    for (const refusedRenewal of [{ ...own, agentId: 'agent-2' }, own, own]) {
      runtime.stall(1_000)
      refusal(await files.renewLease(refusedRenewal))
    }
    runtime.stall(1_000)
    granted(await files.releaseLease(own))
    runtime.stall(1_000)
    refusal(await files.renewLease(own))
    const history = await api.history({ id: leaseId })
    expect(history.map(({ event, count }) => [event.type, event.holder, count])).toEqual([
      ['lease.issued', 'agent-1', undefined],
      ['lease.denied', 'agent-2', 1],
      ['lease.denied', 'agent-1', 2],
      ['lease.released', 'agent-1', undefined],
      ['lease.denied', 'agent-1', 1],
    ])
    expect(history.map(({ event }) => event.reason)).toEqual([
      ...[null, 'renewal refused: held by agent-1', 'renewal refused: limited by its 0 renewals'],
      ...['voluntary', 'renewal refused: the lease was released'],
    ])
  })

  it('was updated when it last changed, whatever the change, in the table of the design as well', async () => {
    const clock = new FakeRuntime()
    const database = path.join(temporaryDirectory(), 'leases.db')
    const { api, files } = await sqliteBench(database, clock.ticks)
    const request = { filePath: FILE, agentId: 'agent-1', mode: 'shared', ttlSeconds: 60 } as const
    const { id } = granted(await files.acquireLease(request))
    const own = { leaseId: id, agentId: 'agent-1' }
    const Driver = await loadSqlite()
    const raw = new Driver(database)
    const rowOf = raw.prepare('SELECT updated_at FROM leases WHERE id = ?')
    const changes: Readonly<Record<string, () => Promise<unknown>>> = {
      upgrade: () => files.upgradeLease(own),
      renewal: () => files.renewLease(own),
      downgrade: () => files.downgradeLease(own),
      'new reason': () => api.update({ id, holder: 'agent-1', reason: 'renaming' }),
      'demand to finish': () => api.revoke({ id, by: 'ops', reason: null, graceMs: 30_000 }),
      release: () => files.releaseLease(own),
    }
    for (const [name, change] of Object.entries(changes)) {
      clock.stall(1_000)
      await change()
      const atMs = clock.wallMs()
      expect([name, (await files.getLease(id))?.updatedAt]).toEqual([name, atMs])
      expect([name, rowOf.get(id)]).toEqual([name, { updated_at: atMs }])
    }
    raw.close()
  })

  it('is all that the file guard asks for, and a later one locks it out', async () => {
    const directory = temporaryDirectory()
    const { files } = await sqliteBench(path.join(directory, 'leases.db'))
    const Driver = await loadSqlite()
    const database = new Driver(path.join(directory, 'marks.db'))
    const guarded = guard.file(database as never)
    guarded.init()
    const filePath = path.join(directory, 'notes.md')
    const first = granted(await files.acquireLease({ filePath, agentId: 'agent-1' }))
    guarded.write(first, 'by agent-1')
    await files.forceReleaseAgentLeases('agent-1')
    const second = granted(await files.acquireLease({ filePath, agentId: 'agent-2' }))
    guarded.write(second, 'by agent-2')
    expect(() => guarded.write(first, 'late')).toThrow(
      expect.objectContaining({ code: 'STALE_FENCE' }) as Error,
    )
    expect(fs.readFileSync(filePath, 'utf8')).toBe('by agent-2')
    database.close()
  })
})
