/** What file leases tell their agents: the translation of every answer, and of every request that is none. */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import {
  FileLeases,
  type FileLeasePage,
  type FileLeasesOptions,
  type LeaseAcquisitionRequest,
  type LeaseDowngradeRequest,
  type LeaseReleaseRequest,
  type LeaseRenewalRequest,
  type LeaseTransferRequest,
  type LeaseUpgradeRequest,
  type LookUpOptions,
} from '../../src/files/index.ts'
import { granted, refusal, sqliteBench, stillBench, temporaryDirectory } from './harness.ts'

const FILE = '/repo/src/app.ts'
const UNKNOWN_ID = '00000000-0000-4000-8000-000000000000'

describe('the common error scenarios', () => {
  it('a lease that does not exist: LEASE_NOT_FOUND', async () => {
    const { files } = stillBench()
    const request = { leaseId: UNKNOWN_ID, agentId: 'agent-1' }
    for (const response of [await files.renewLease(request), await files.releaseLease(request)]) {
      expect(refusal(response)).toMatchObject({
        error: { code: 'LEASE_NOT_FOUND', details: { leaseId: UNKNOWN_ID } },
        holder: null,
      })
    }
    expect(await files.getLease(UNKNOWN_ID)).toBeNull()
  })

  it("another agent's lease: NOT_HOLDER, with who has it", async () => {
    const { files } = stillBench()
    const acquisition = { filePath: FILE, agentId: 'agent-1', ttlSeconds: 60, reason: 'renaming' }
    const lease = granted(await files.acquireLease(acquisition))
    const request = { leaseId: lease.id, agentId: 'agent-2' }
    for (const response of [await files.renewLease(request), await files.releaseLease(request)]) {
      const { error, holder } = refusal(response)
      expect(error.code).toBe('NOT_HOLDER')
      expect(holder).toEqual({
        agentId: 'agent-1',
        kind: 'lease',
        leaseId: lease.id,
        since: lease.createdAt,
        expiresAt: lease.expiresAt,
        remainingMs: 60_000,
        reason: 'renaming',
      })
    }
    expect(await files.hasAgentLease('agent-1', FILE)).toBe(true)
  })

  it('too many renewals: RENEWAL_LIMIT, and the lease lives on', async () => {
    const { files } = stillBench()
    const request = { filePath: FILE, agentId: 'agent-1', maxRenewals: 0 }
    const { id } = granted(await files.acquireLease(request))
    const response = await files.renewLease({ leaseId: id, agentId: 'agent-1' })
    expect(refusal(response).error.code).toBe('RENEWAL_LIMIT')
    expect(await files.isFileLocked(FILE)).toBe(true)
  })

  it('a locked file without blocking: RESOURCE_HELD at once, with who has it', async () => {
    const { files } = stillBench()
    const lease = granted(await files.acquireLease({ filePath: FILE, agentId: 'agent-1' }))
    const request = { filePath: FILE, agentId: 'agent-2', timeoutMs: 60_000 }
    const { error, holder, waitedMs } = refusal(await files.acquireLease(request))
    expect(error).toMatchObject({ code: 'RESOURCE_HELD', retryable: true, effect: 'none' })
    expect(error.message).toContain('agent-1')
    expect(holder).toMatchObject({ agentId: 'agent-1', leaseId: lease.id, kind: 'lease' })
    expect(waitedMs).toBe(0)
  })

  it('a wait that took too long: WAIT_TIMEOUT with the waited duration, and no trace in the queue', async () => {
    const { files, runtime } = stillBench()
    await files.acquireLease({ filePath: FILE, agentId: 'agent-1' })
    const request = { filePath: FILE, agentId: 'agent-2', blocking: true, timeoutMs: 700 }
    const response = files.acquireLease(request)
    await runtime.advance(700)
    const { error, holder, waitedMs } = refusal(await response)
    expect(error).toMatchObject({ code: 'WAIT_TIMEOUT', details: { waitedMs: 700 } })
    expect(holder).toMatchObject({ agentId: 'agent-1' })
    expect(waitedMs).toBe(700)
    await runtime.settle()
    expect(await files.getAgentLeases('agent-2')).toEqual([])
    expect(await files.getAgentLeases('agent-2', { status: 'failed' })).toHaveLength(1)
    expect(runtime.keepAliveTimers).toBe(0)
  })
})

describe('an agent', () => {
  it('that asks again for a file it has is told of its own lease, and does not wait for itself', async () => {
    const { files } = stillBench()
    const request = { filePath: FILE, agentId: 'agent-1', blocking: true }
    const lease = granted(await files.acquireLease(request))
    const { error, holder } = refusal(await files.acquireLease(request))
    expect(error.code).toBe('RESOURCE_HELD')
    expect(holder).toMatchObject({ agentId: 'agent-1', leaseId: lease.id })
    expect(await files.getFileLeases(FILE)).toHaveLength(1)
  })

  it('that stops waiting is answered at once and leaves the queue', async () => {
    const { files, runtime } = stillBench()
    await files.acquireLease({ filePath: FILE, agentId: 'agent-1' })
    const stop = new AbortController()
    const request = { filePath: FILE, agentId: 'agent-2', blocking: true, signal: stop.signal }
    const response = files.acquireLease(request)
    await runtime.settle()
    expect(await files.getAgentLeases('agent-2')).toMatchObject([{ status: 'pending' }])
    stop.abort()
    expect(refusal(await response).error.code).toBe('ABORTED')
    await runtime.settle()
    expect(await files.getAgentLeases('agent-2')).toEqual([])
  })

  it('that is forced out loses what it has and what it waits for, with a reason in the history', async () => {
    const { api, files, runtime } = stillBench()
    const other = '/repo/README.md'
    granted(await files.acquireLease({ filePath: FILE, agentId: 'agent-1' }))
    granted(await files.acquireLease({ filePath: other, agentId: 'agent-2' }))
    const waiting = files.acquireLease({ filePath: other, agentId: 'agent-1', blocking: true })
    await runtime.settle()

    const options = { by: 'alice', reason: 'agent-1 hangs' }
    expect(await files.forceReleaseAgentLeases('agent-1', options)).toBe(1)
    expect(refusal(await waiting).error.code).toBe('LEASE_TERMINAL')
    expect(await files.getAgentLeases('agent-1')).toEqual([])
    expect(await files.hasAgentLease('agent-2', other)).toBe(true)
    const [revocation] = await api.history({ types: ['lease.revoked'] })
    expect(revocation?.event).toMatchObject({
      ...{ holder: 'agent-1', by: 'alice', reason: 'agent-1 hangs' },
      ...{ before: 'active', after: 'revoked' },
    })
    expect(await files.forceReleaseAgentLeases('agent-1')).toBe(0)
  })
})

describe('look-ups', () => {
  it('find live leases by file, by agent and all of them, and ended ones by status', async () => {
    const { files } = stillBench()
    const take = async (filePath: string, agentId: string): Promise<string> =>
      granted(await files.acquireLease({ filePath, agentId })).id
    const a1 = await take('/repo/a', 'agent-1')
    const b1 = await take('/repo/b', 'agent-1')
    const c2 = await take('/repo/c', 'agent-2')
    await files.releaseLease({ leaseId: b1, agentId: 'agent-1' })

    const ids = (leases: readonly { readonly id: string }[]): readonly string[] =>
      leases.map(({ id }) => id)
    expect(ids(await files.getFileLeases('/repo/a'))).toEqual([a1])
    expect(ids(await files.getFileLeases('/repo/b'))).toEqual([])
    expect(ids(await files.getAgentLeases('agent-1'))).toEqual([a1])
    expect(ids(await files.getAllLeases())).toEqual([a1, c2])
    expect(ids(await files.getAllLeases({ status: 'released' }))).toEqual([b1])
    expect(await files.hasAgentLease('agent-2', '/repo/a')).toBe(false)
  })

  it('give a page at a time, with where the next one begins', async () => {
    const { api, files } = stillBench()
    const taken: string[] = []
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      const request = { filePath: `/repo/${name}`, agentId: 'agent-1', ttlSeconds: 60 }
      taken.push(granted(await files.acquireLease(request)).id)
      const work = parseResource(`work:${name}`)
      const who = { holder: 'agent-1', session: 'agent-1' }
      await api.acquire({ id: randomUUID(), resource: work, ...who, waitMs: 0 })
    }
    const pages = async (look: (options: LookUpOptions) => Promise<FileLeasePage>) => {
      const found: string[] = []
      for (let next: string | undefined = ''; next !== undefined;) {
        const page: FileLeasePage = await look({
          limit: 2,
          ...(next === '' ? {} : { after: next }),
        })
        expect(page.length).toBeLessThanOrEqual(2)
        found.push(...page.map(({ id }) => id))
        next = page.next
      }
      return found
    }
    expect(await pages((options) => files.getAllLeases(options))).toEqual(taken)
    expect(await pages((options) => files.getAgentLeases('agent-1', options))).toEqual(taken)
    expect(await pages((options) => files.getFileLeases('/repo/c', options))).toEqual([taken[2]])
    expect((await files.getAllLeases()).next).toBeUndefined()
  })

  it('give every expired lease once, page by page, settled or not', async () => {
    const { files, runtime } = stillBench()
    const taken = new Set<string>()
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) {
      const request = { filePath: `/repo/${name}`, agentId: 'agent-1', ttlSeconds: 1 }
      taken.add(granted(await files.acquireLease(request)).id)
      // Those before `d` are settled, the others are over and nobody has noticed.
      if (name === 'c') {
        runtime.stall(2_000)
        expect(await files.cleanupExpiredLeases()).toBe(3)
      }
    }
    runtime.stall(2_000)
    const found: string[] = []
    let page = await files.getAllLeases({ status: 'expired', limit: 2 })
    found.push(...page.map(({ id }) => id))
    while (page.next !== undefined) {
      page = await files.getAllLeases({ status: 'expired', limit: 2, after: page.next })
      found.push(...page.map(({ id }) => id))
    }
    expect(found).toHaveLength(7)
    expect(new Set(found)).toEqual(taken)
  })

  it('refuse a page that cannot be', async () => {
    const { files } = stillBench()
    const refused = (options: object): Promise<unknown> => files.getAllLeases(options)
    await expect(refused({ limit: 0 })).rejects.toThrow('limit must be an integer 1..10000, got 0')
    await expect(refused({ after: 'x', limit: 1 })).rejects.toThrow('after must be')
    await expect(refused({ after: '1' })).rejects.toThrow('limit must be given with after')
  })

  it('see only files, whatever else the store keeps', async () => {
    const { api, files } = stillBench()
    const resource = parseResource('work:W-17')
    const who = { holder: 'agent-1', session: 'agent-1' }
    await api.acquire({ id: UNKNOWN_ID, resource, ...who, waitMs: 0 })
    expect(await files.getAllLeases()).toEqual([])
    expect(await files.getAgentLeases('agent-1')).toEqual([])
    expect(await files.getLease(UNKNOWN_ID)).toBeNull()
  })

  it('call a file locked while it is kept for the waiter whose turn it is', async () => {
    const { api, files } = stillBench()
    const first = granted(await files.acquireLease({ filePath: FILE, agentId: 'agent-1' }))
    const who = { holder: 'agent-2', session: 'agent-2' }
    const resource = parseResource(`file:${FILE}`)
    await api.acquire({ id: UNKNOWN_ID, resource, ...who, waitMs: 1_000 })
    await files.releaseLease({ leaseId: first.id, agentId: 'agent-1' })
    expect(await files.isFileLocked(FILE)).toBe(true)
    const { holder } = refusal(await files.acquireLease({ filePath: FILE, agentId: 'agent-3' }))
    expect(holder).toMatchObject({ agentId: 'agent-2', kind: 'offer' })
  })
})

describe('a path', () => {
  it('is one file under all its spellings, through links too', async () => {
    const directory = temporaryDirectory()
    fs.mkdirSync(path.join(directory, 'real'))
    fs.symlinkSync(path.join(directory, 'real'), path.join(directory, 'link'))
    const { files } = await sqliteBench(path.join(directory, 'leases.db'))
    const direct = path.join(directory, 'real', 'new.txt')
    const lease = granted(await files.acquireLease({ filePath: direct, agentId: 'agent-1' }))
    expect(lease.filePath).toBe(direct)
    for (const filePath of [
      path.join(directory, 'link', 'new.txt'),
      `${directory}//real/./sub/../new.txt`,
      `${direct}/`,
    ]) {
      expect(await files.isFileLocked(filePath)).toBe(true)
      expect(
        refusal(await files.acquireLease({ filePath, agentId: 'agent-2' })).holder,
      ).toMatchObject({
        agentId: 'agent-1',
      })
    }
  })

  it('next to a locked one is free', async () => {
    const { files } = stillBench()
    await files.acquireLease({ filePath: '/repo/src', agentId: 'agent-1' })
    for (const filePath of ['/repo/src_backup', '/repo/src/app.ts', '/repo']) {
      expect(await files.isFileLocked(filePath)).toBe(false)
    }
  })
})

describe('input that cannot be read', () => {
  const GOOD: LeaseAcquisitionRequest = { filePath: FILE, agentId: 'agent-1' }

  it.each([
    ['filePath', { filePath: 'src/app.ts' }, 'filePath'],
    ['filePath', { filePath: '/../etc/passwd' }, 'resource'],
    ['filePath', { filePath: '/repo/a\u0000b' }, 'filePath'],
    ['filePath', { filePath: 17 }, 'filePath'],
    ['agentId', { agentId: '' }, 'agentId'],
    ['agentId', { agentId: 'x'.repeat(129) }, 'agentId'],
    ['agentId', { agentId: 'a\nb' }, 'agentId'],
    ['ttlSeconds', { ttlSeconds: 0 }, 'ttlSeconds'],
    ['ttlSeconds', { ttlSeconds: -1 }, 'ttlSeconds'],
    ['ttlSeconds', { ttlSeconds: Number.NaN }, 'ttlSeconds'],
    ['ttlSeconds', { ttlSeconds: Number.POSITIVE_INFINITY }, 'ttlSeconds'],
    ['ttlSeconds', { ttlSeconds: 1e99 }, 'ttlSeconds'],
    ['ttlSeconds', { ttlSeconds: 2_592_001 }, 'ttlSeconds'],
    ['ttlSeconds', { ttlSeconds: '60' }, 'ttlSeconds'],
    ['maxRenewals', { maxRenewals: -2 }, 'maxRenewals'],
    ['timeoutMs', { timeoutMs: -1 }, 'timeoutMs'],
    ['timeoutMs', { timeoutMs: 86_400_001 }, 'timeoutMs'],
    ['blocking', { blocking: 'yes' }, 'blocking'],
    ['an unknown field', { ttl: 60 }, 'options'],
  ])('%s of %j is refused with its name, and nothing is written', async (_name, wrong, field) => {
    const { api, files } = stillBench()
    const request = { ...GOOD, ...wrong } as LeaseAcquisitionRequest
    await expect(files.acquireLease(request)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      effect: 'none',
      details: { field },
    })
    expect(await api.history({})).toEqual([])
  })

  it('a request that is left out or none is refused, and so is what the leases are opened on', async () => {
    const { api, files } = stillBench()
    for (const wrong of [undefined, null, 7, 'x'] as unknown as LeaseAcquisitionRequest[]) {
      const calls = [
        files.acquireLease(wrong),
        files.renewLease(wrong as unknown as LeaseRenewalRequest),
        files.releaseLease(wrong as unknown as LeaseReleaseRequest),
        files.upgradeLease(wrong as unknown as LeaseUpgradeRequest),
        files.downgradeLease(wrong as unknown as LeaseDowngradeRequest),
        files.transferLease(wrong as unknown as LeaseTransferRequest),
      ]
      for (const call of calls) await expect(call).rejects.toMatchObject({ code: 'INVALID_INPUT' })
      const opening = (): FileLeases => new FileLeases(wrong as unknown as typeof api)
      expect(opening).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }))
    }
    const misspelt = { runtme: 7 } as FileLeasesOptions
    expect(() => new FileLeases(api, misspelt)).toThrow('options must be among runtime')
  })

  it('a reason beyond 1 KiB is a mistake and not an answer', async () => {
    const { files } = stillBench()
    const request = { ...GOOD, reason: 'x'.repeat(1025) }
    await expect(files.acquireLease(request)).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' })
  })

  it('an id that is no UUID, and a status that is none, are refused', async () => {
    const { files } = stillBench()
    const wrong = { leaseId: 'W-17', agentId: 'agent-1' }
    await expect(files.renewLease(wrong)).rejects.toMatchObject({ details: { field: 'leaseId' } })
    await expect(files.releaseLease(wrong)).rejects.toMatchObject({ details: { field: 'leaseId' } })
    const status = 'held' as 'active'
    await expect(files.getAllLeases({ status })).rejects.toMatchObject({ code: 'INVALID_STATE' })
  })

  it('seconds may have a fraction, down to a millisecond', async () => {
    const { files } = stillBench()
    const lease = granted(await files.acquireLease({ ...GOOD, ttlSeconds: 0.3 }))
    expect(lease).toMatchObject({ ttlSeconds: 0.3, remainingMs: 300 })
  })
})

describe('closing', () => {
  it('ends the waits, leaves the leases, and refuses what comes after', async () => {
    const { files, runtime } = stillBench()
    const lease = granted(await files.acquireLease({ filePath: FILE, agentId: 'agent-1' }))
    const waiting = files.acquireLease({ filePath: FILE, agentId: 'agent-2', blocking: true })
    const ended = expect(waiting).rejects.toMatchObject({ code: 'CLOSED' })
    await runtime.settle()
    await files.close()
    await ended
    expect(runtime.pendingTimers).toBe(0)
    expect(await files.getAgentLeases('agent-2')).toEqual([])
    expect(await files.getLease(lease.id)).toMatchObject({ status: 'active' })
    const late = files.acquireLease({ filePath: FILE, agentId: 'agent-3' })
    await expect(late).rejects.toMatchObject({ code: 'CLOSED' })
  })
})
