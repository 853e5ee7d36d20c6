/** The reference server from the public package, as somebody would use it who writes a server of their own. */
import { describe, expect, it } from 'vitest'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { ReferenceBackend, OptimisticStore } from '../../src/testing/index.ts'
import { parseResource } from '../../src/core/resource.ts'

const START_US = 1_900_000_000_000_000
const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`

/** A server, whose clock the test sets, and two processes that share it. */
async function setUp() {
  const clock = { us: START_US }
  const backend = new ReferenceBackend({
    ticks: {
      nowUs: () => clock.us,
      source: {
        host: 'server',
        domain: 'server/one/0',
        tickUs: () => clock.us,
        wallMs: () => Math.floor(clock.us / 1000),
      },
    },
  })
  const open = async (): Promise<LeaseService> => {
    const store = await OptimisticStore.open(backend, systemRuntime, {
      lowerUs: () => clock.us,
      toleranceUs: () => 1_000,
      note: () => undefined,
      reset: () => undefined,
    })
    return new LeaseService({ store, runtime: systemRuntime })
  }
  return { clock, backend, ann: await open(), bob: await open() }
}

function ticket(n: number, holder: string) {
  return { id: idOf(n), resource: parseResource('work:A'), holder, session: holder }
}

function wish(n: number, holder: string, waitMs = 0) {
  return { ...ticket(n, holder), ttlMs: 60_000, waitMs }
}

describe('the reference server', () => {
  it('lets one of two processes in, and tells the other what is there', async () => {
    const { backend, ann, bob } = await setUp()
    expect((await ann.acquire(wish(1, 'ann'))).kind).toBe('granted')
    expect(backend.misses).toBe(0)
    expect((await bob.acquire(wish(2, 'bob'))).kind).toBe('held')
    expect(backend.misses).toBe(1)
  })

  it('decides nothing with a clock that is more than 5 s behind its last commit', async () => {
    const { clock, ann } = await setUp()
    clock.us += 20_000_000
    await ann.acquire(wish(1, 'ann'))
    clock.us -= 5_000_001
    const refused = await ann.acquire(wish(2, 'ann')).catch((error: unknown) => error)
    expect(refused).toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
    clock.us += 1
    expect((await ann.acquire(wish(2, 'ann'))).kind).toBe('held')
  })

  it('takes a keep-alive whose neighbours changed, and none whose holder was given something', async () => {
    const { backend, ann, bob } = await setUp()
    await ann.acquire(wish(1, 'ann'))
    await bob.acquire(wish(2, 'bob', 60_000))
    await ann.acquire(wish(3, 'eve', 60_000))
    const { misses } = backend
    expect((await bob.claim(ticket(2, 'bob'))).kind).toBe('queued')
    expect(backend.misses).toBe(misses)
    const transfer = { id: idOf(1), holder: 'ann', to: 'bob', newId: idOf(4) }
    expect((await ann.transfer({ ...transfer, requestId: idOf(5) })).kind).toBe('transferred')
    expect((await bob.claim(ticket(2, 'bob'))).kind).toBe('granted')
    expect(backend.misses).toBeGreaterThan(misses)
  })

  it('keeps everybody waiting while one caller holds it', async () => {
    const { backend, ann } = await setUp()
    const order: string[] = []
    let release = (): void => undefined
    const held = backend.holding(async (attempt) => {
      await attempt({ settingsRevision: -1, attempts: [] })
      await new Promise<void>((resolve) => (release = resolve))
      order.push('held')
    })
    await Promise.resolve()
    const acquired = ann.acquire(wish(1, 'ann')).then(() => order.push('acquired'))
    await new Promise((resolve) => setImmediate(resolve))
    release()
    await Promise.all([held, acquired])
    expect(order).toEqual(['held', 'acquired'])
  })
})
