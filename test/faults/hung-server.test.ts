/**
 * A server that no longer answers, while its connections stay open: the holder says that it is in doubt, and at its own
 * deadline that the lease is lost, whether or not any call returns. When the server answers again, everything goes on.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { isLeaseError, openTenure, type Lease, type Tenure } from '../../src/index.ts'
import { Proxy } from '../servers/proxy.ts'
import type { TestServer } from '../servers/test-server.ts'
import { courseOf } from './hung-holder.ts'
import { freshStore, SERVER_STORES } from './server-stores.ts'

const TTL_MS = 1_200
/** A call is given up after the deadline, so that it is the deadline that ends the lease; but not long after. */
const CALL_MS = 2_000
const PATIENCE = { holder: 'ann', callMs: CALL_MS, connectMs: CALL_MS }

interface Stage {
  readonly server: TestServer
  readonly proxy: Proxy
}

interface Hang {
  begin(stage: Stage): void | Promise<void>
  end(stage: Stage): void | Promise<void>
}

const HANGS: readonly (readonly [name: string, hang: Hang])[] = [
  [
    'whose network swallows everything',
    { begin: ({ proxy }) => proxy.blackHole(), end: ({ proxy }) => proxy.clear() },
  ],
  [
    'that is slower than the deadline',
    { begin: ({ proxy }) => proxy.delay(2 * TTL_MS), end: ({ proxy }) => proxy.clear() },
  ],
  [
    'that is stopped',
    { begin: ({ server }) => server.pause(), end: ({ server }) => server.resume() },
  ],
]

/** As a program that goes on trying; the store has to come back by itself, before the test's own timeout. */
async function acquireAgain(tenure: Tenure, resource: string): Promise<Lease> {
  for (;;) {
    try {
      return await tenure.acquire(resource, { ttlMs: 30_000, waitMs: 5_000 })
    } catch (error) {
      if (!isLeaseError(error) || !error.retryable) throw error
      await sleep(20)
    }
  }
}

describe.each(SERVER_STORES)('%s', (_name, store) => {
  let stage: Stage

  beforeAll(async () => {
    const server = await store.start()
    const proxy = await Proxy.start(server.url)
    stage = { server, proxy }
    return async () => {
      await proxy.close()
      await server.close()
    }
  })

  it.each(HANGS)(
    'a server %s: the holder is in doubt, then loses its lease',
    async (_how, { begin, end }) => {
      const url = freshStore(stage.server.url)
      await using tenure = await openTenure(stage.proxy.through(url), PATIENCE)
      const lease = await tenure.acquire('work:w', { ttlMs: TTL_MS })
      const course = courseOf(lease)
      await new Promise((resolve) => lease.on('renewed', resolve))
      try {
        await begin(stage)
        const { told, lostAtMs, deadlineMs, timerAtMs } = await course
        expect(told).toEqual(['uncertain', 'lost'])
        expect(lostAtMs - deadlineMs).toBeGreaterThan(-5)
        expect(lostAtMs - timerAtMs).toBeLessThan(TTL_MS)
        expect(lease).toMatchObject({ state: 'lost', remainingMs: 0, signal: { aborted: true } })
      } finally {
        await end(stage)
      }
      const next = await acquireAgain(tenure, 'work:w')
      expect(next.fence).toBeGreaterThan(lease.fence)
    },
  )

  it('another client gets what a cut-off holder had, after that holder knows it is lost', async () => {
    const url = freshStore(stage.server.url)
    await using cutOff = await openTenure(stage.proxy.through(url), PATIENCE)
    await using other = await openTenure(url, { holder: 'bob' })
    const lease = await cutOff.acquire('work:w', { ttlMs: TTL_MS })
    let isLost = false
    lease.on('lost', () => (isLost = true))
    stage.proxy.blackHole()
    const next = await other.acquire('work:w', { waitMs: 50_000 })
    expect(isLost).toBe(true)
    expect(next.fence).toBeGreaterThan(lease.fence)
    stage.proxy.clear()
  })
})
