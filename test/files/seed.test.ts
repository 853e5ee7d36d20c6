/**
 * The nine tests that the file-leasing system was designed with, by their names. The first five look at one lease, on
 * a clock that the test moves; the others run on a real SQLite file.
 */
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import {
  granted,
  queued,
  refusal,
  sqliteBench,
  stillBench,
  temporaryDirectory,
  type Acquired,
} from './harness.ts'

const FILE = '/repo/src/app.ts'

describe('unit tests', () => {
  it('test_lease_creation: a new lease is what was asked for', async () => {
    const { files, runtime } = stillBench()
    const nowMs = runtime.wallMs()
    const response = await files.acquireLease({
      ...{ filePath: FILE, agentId: 'agent-1', ttlSeconds: 3600, maxRenewals: 5 },
      reason: 'renaming',
    })
    expect(granted(response)).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      ...{ resource: `file:${FILE}`, mode: 'exclusive', extent: 'exact', slots: null, root: null },
      filePath: FILE,
      agentId: 'agent-1',
      createdAt: nowMs,
      expiresAt: nowMs + 3_600_000,
      updatedAt: nowMs,
      ttlSeconds: 3600,
      status: 'active',
      renewalCount: 0,
      maxRenewals: 5,
      fence: nowMs * 1000,
      remainingMs: 3_600_000,
      reason: 'renaming',
    })
    expect(response).toMatchObject({ success: true, waitedMs: 0 })
  })

  it('test_lease_is_valid: a lease is valid until its deadline and not at it', async () => {
    const { files, runtime } = stillBench()
    const request = { filePath: FILE, agentId: 'agent-1', ttlSeconds: 60 }
    const { id } = granted(await files.acquireLease(request))
    runtime.stall(59_999)
    expect(await files.getLease(id)).toMatchObject({ status: 'active', remainingMs: 1 })
    expect(await files.hasAgentLease('agent-1', FILE)).toBe(true)
    expect(await files.isFileLocked(FILE)).toBe(true)
    runtime.stall(1)
    expect(await files.getLease(id)).toMatchObject({ status: 'expired', remainingMs: 0 })
    expect(await files.hasAgentLease('agent-1', FILE)).toBe(false)
    expect(await files.isFileLocked(FILE)).toBe(false)
  })

  it('test_lease_renewal: a renewal counts the TTL anew, up to the limit', async () => {
    const { files, runtime } = stillBench()
    const request = { filePath: FILE, agentId: 'agent-1', ttlSeconds: 60, maxRenewals: 2 }
    const lease = granted(await files.acquireLease(request))
    const renewal = { leaseId: lease.id, agentId: 'agent-1' }
    runtime.stall(30_000)
    const once = granted(await files.renewLease(renewal))
    expect(once).toMatchObject({ renewalCount: 1, ttlSeconds: 60, remainingMs: 60_000 })
    expect(once.fence).toBe(lease.fence)
    const twice = granted(await files.renewLease({ ...renewal, newTtlSeconds: 120 }))
    expect(twice).toMatchObject({ renewalCount: 2, ttlSeconds: 120, remainingMs: 120_000 })
    runtime.stall(1_000)
    const { error } = refusal(await files.renewLease(renewal))
    expect(error.code).toBe('RENEWAL_LIMIT')
    expect(await files.getLease(lease.id)).toMatchObject({ renewalCount: 2, status: 'active' })
  })

  it('test_time_remaining: what is left shrinks with the clock of the store only', async () => {
    const { files, runtime } = stillBench()
    const request = { filePath: FILE, agentId: 'agent-1', ttlSeconds: 10 }
    const { id } = granted(await files.acquireLease(request))
    runtime.stall(2_500)
    expect((await files.getLease(id))?.remainingMs).toBe(7_500)
    runtime.stepWall(86_400_000)
    expect((await files.getLease(id))?.remainingMs).toBe(7_500)
    runtime.stepWall(-2 * 86_400_000)
    runtime.stall(7_499)
    expect((await files.getLease(id))?.remainingMs).toBe(1)
    runtime.stall(100_000)
    expect((await files.getLease(id))?.remainingMs).toBe(0)
  })

  it('test_lease_status_transitions: each end is final, and waiting is a state of its own', async () => {
    const { api, files, runtime } = stillBench()
    const status = async (id: string): Promise<string | undefined> =>
      (await files.getLease(id))?.status
    const acquire = async (agentId: string): Promise<string> =>
      granted(await files.acquireLease({ filePath: FILE, agentId, ttlSeconds: 60 })).id

    const released = await acquire('agent-1')
    const waiting = files.acquireLease({
      ...{ filePath: FILE, agentId: 'agent-2', ttlSeconds: 60 },
      ...{ blocking: true, timeoutMs: 5_000 },
    })
    await runtime.settle()
    const [ticket] = await files.getAgentLeases('agent-2')
    expect(ticket).toMatchObject({ status: 'pending', fence: null, expiresAt: null })

    await files.releaseLease({ leaseId: released, agentId: 'agent-1' })
    const expired = granted(await waiting).id
    expect(expired).toBe(ticket?.id)
    expect(await status(released)).toBe('released')

    runtime.stall(60_001)
    const revoked = await acquire('agent-3')
    expect(await status(expired)).toBe('expired')

    const tooLong = files.acquireLease({
      ...{ filePath: FILE, agentId: 'agent-4', blocking: true, timeoutMs: 1_000 },
    })
    await runtime.advance(1_001)
    expect((await tooLong).success).toBe(false)
    expect(await files.getAgentLeases('agent-4', { status: 'failed' })).toHaveLength(1)
    const denied = await files.acquireLease({ filePath: FILE, agentId: 'agent-5' })
    expect(denied.success).toBe(false)
    expect(await api.history({ holder: 'agent-5' })).toMatchObject([
      { event: { type: 'lease.denied', after: 'failed', reason: 'held by agent-3' }, count: 1 },
    ])

    expect(await files.forceReleaseAgentLeases('agent-3')).toBe(1)
    expect(await status(revoked)).toBe('revoked')

    for (const [leaseId, agentId, code] of [
      [released, 'agent-1', 'LEASE_TERMINAL'],
      [expired, 'agent-2', 'LEASE_EXPIRED'],
      [revoked, 'agent-3', 'LEASE_TERMINAL'],
    ] as const) {
      expect(refusal(await files.renewLease({ leaseId, agentId })).error.code).toBe(code)
      expect(refusal(await files.releaseLease({ leaseId, agentId })).error.code).toBe(code)
    }
    await files.close()
    expect(runtime.keepAliveTimers).toBe(0)
  })
})

describe('integration tests', () => {
  it('test_acquire_release_lease: a released file is free, and the history tells it all', async () => {
    const directory = temporaryDirectory()
    const filePath = path.join(directory, 'notes.md')
    const here = await sqliteBench(path.join(directory, 'leases.db'))
    const there = await sqliteBench(path.join(directory, 'leases.db'))

    const first = granted(await here.files.acquireLease({ filePath, agentId: 'agent-1' }))
    const blocked = refusal(await there.files.acquireLease({ filePath, agentId: 'agent-2' }))
    expect(blocked.error.code).toBe('RESOURCE_HELD')
    expect(blocked.holder).toMatchObject({ agentId: 'agent-1', kind: 'lease', leaseId: first.id })

    const release = { leaseId: first.id, agentId: 'agent-1' }
    expect(granted(await there.files.releaseLease(release)).status).toBe('released')
    const second = granted(await there.files.acquireLease({ filePath, agentId: 'agent-2' }))
    expect(second.fence).toBeGreaterThan(first.fence ?? 0)

    const events = (await here.api.history({})).map(({ event }) => event)
    expect(events.map(({ holder, type, after }) => [holder, type, after])).toEqual([
      ['agent-1', 'lease.issued', 'active'],
      ['agent-2', 'lease.denied', 'failed'],
      ['agent-1', 'lease.released', 'released'],
      ['agent-2', 'lease.issued', 'active'],
    ])
  })

  it('test_blocking_acquisition: a waiter gets the file when it is released, or a timeout', async () => {
    const directory = temporaryDirectory()
    const filePath = path.join(directory, 'notes.md')
    const here = await sqliteBench(path.join(directory, 'leases.db'))
    const there = await sqliteBench(path.join(directory, 'leases.db'))
    const first = granted(await here.files.acquireLease({ filePath, agentId: 'agent-1' }))

    const late = { filePath, agentId: 'agent-3', blocking: true, timeoutMs: 50 }
    const tooLate = await there.files.acquireLease(late)
    expect(refusal(tooLate)).toMatchObject({
      error: { code: 'WAIT_TIMEOUT' },
      holder: { agentId: 'agent-1', leaseId: first.id },
    })
    expect(tooLate.waitedMs).toBeGreaterThanOrEqual(50)

    const request = { filePath, agentId: 'agent-2', blocking: true, timeoutMs: 10_000 }
    const waiting = await queued(here.api, () => there.files.acquireLease(request))
    await here.files.releaseLease({ leaseId: first.id, agentId: 'agent-1' })
    const second = granted(await waiting.answer)
    expect(second.fence).toBeGreaterThan(first.fence ?? 0)
    expect(await here.files.getFileLeases(filePath)).toMatchObject([{ agentId: 'agent-2' }])
  })

  it('test_cleanup_expired: cleanup writes down what ran out, once', async () => {
    const directory = temporaryDirectory()
    const clock = new FakeRuntime()
    const { api, files } = await sqliteBench(path.join(directory, 'leases.db'), clock.ticks)
    const take = (name: string, ttlSeconds: number): Promise<Acquired> =>
      files.acquireLease({ filePath: path.join(directory, name), agentId: 'agent-1', ttlSeconds })
    const short = [granted(await take('a', 10)), granted(await take('b', 10))]
    const long = granted(await take('c', 100))

    expect(await files.cleanupExpiredLeases()).toBe(0)
    // Decisions are a microsecond apart although the clock stands still, so the second deadline is a little later.
    clock.stall(10_001)
    expect((await files.getAllLeases()).map(({ id }) => id)).toEqual([long.id])
    expect(await files.cleanupExpiredLeases()).toBe(2)
    expect(await files.cleanupExpiredLeases()).toBe(0)

    const expiries = await api.history({ types: ['lease.expired'] })
    expect(expiries.map(({ event }) => event.leaseId).toSorted()).toEqual(
      short.map(({ id }) => id).toSorted(),
    )
    const [ended] = await files.getAllLeases({ status: 'expired' })
    expect(ended?.updatedAt).toBe(ended?.expiresAt)
  })

  it('test_concurrent_acquisitions: of many agents one gets the file, and all do in turn', async () => {
    const directory = temporaryDirectory()
    const filePath = path.join(directory, 'notes.md')
    const benches = [
      await sqliteBench(path.join(directory, 'leases.db')),
      await sqliteBench(path.join(directory, 'leases.db')),
    ] as const
    const agents = Array.from({ length: 20 }, (_, index) => `agent-${index}`)
    const filesOf = (agentId: string): (typeof benches)[0]['files'] =>
      (Number(agentId.slice(6)) % 2 === 0 ? benches[0] : benches[1]).files

    const rush = await Promise.all(
      agents.map((agentId) => filesOf(agentId).acquireLease({ filePath, agentId })),
    )
    const winners = rush.filter(({ success }) => success)
    expect(winners).toHaveLength(1)
    const winner = granted(winners[0] ?? expect.unreachable())
    for (const loser of rush.filter(({ success }) => !success)) {
      expect(refusal(loser).holder).toMatchObject({ agentId: winner.agentId })
    }
    await filesOf(winner.agentId).releaseLease({ leaseId: winner.id, agentId: winner.agentId })

    const taken: (number | null)[] = []
    let inside = 0
    await Promise.all(
      agents.map(async (agentId) => {
        const request = { filePath, agentId, blocking: true, timeoutMs: 15_000 }
        const lease = granted(await filesOf(agentId).acquireLease(request))
        inside += 1
        expect(inside).toBe(1)
        taken.push(lease.fence)
        inside -= 1
        await filesOf(agentId).releaseLease({ leaseId: lease.id, agentId })
      }),
    )
    expect(taken).toHaveLength(agents.length)
    expect(taken).toEqual(taken.toSorted((a, b) => (a ?? 0) - (b ?? 0)))
    const ledger = await benches[0].api.history({ types: ['lease.issued', 'lease.released'] })
    const turns = ledger.map(({ event }) => event.type)
    expect(turns).toEqual(
      Array.from({ length: 21 }).flatMap(() => ['lease.issued', 'lease.released']),
    )
  })
})
