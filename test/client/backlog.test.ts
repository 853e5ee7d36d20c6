/**
 * A process that has more to ask than its server can carry out: what it keeps back is sent only while its caller still has
 * a use for it.
 */
import { describe, expect, it } from 'vitest'
import type { Lease, Tenure } from '../../src/client/contract.ts'
import type { AcquireOptions } from '../../src/client/options.ts'
import { TenureClient } from '../../src/client/tenure-client.ts'
import { isLeaseError } from '../../src/core/errors.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Backend } from '../../src/store/optimistic/backend.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { FakeRuntime, randomFrom } from '../../src/testing/fake-runtime.ts'
import { ReferenceBackend } from '../../src/testing/reference-backend.ts'
import { follow } from './harness.ts'

const START_US = 1_700_000_000_000_000
const TTL_MS = 500
const WINDOW_MS = 300
const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`

/** A server that takes its time, and carries a call out at the end of it. */
class SlowServer {
  readonly runtime = new FakeRuntime()
  /** The ids of what it was asked about, call by call. */
  readonly asked: string[][] = []
  callMs = 400
  /** Above 0: it serves one call at a time, so that there is a limit to what it can do. */
  attemptMs = 0
  #isFreeAtMs = 0
  readonly #backend: ReferenceBackend

  constructor() {
    const nowUs = (): number => START_US + Math.round(this.runtime.monotonicMs() * 1000)
    const wallMs = (): number => Math.floor(nowUs() / 1000)
    const source = { host: 'server', domain: 'server/test/0', tickUs: nowUs, wallMs }
    this.#backend = new ReferenceBackend({ ticks: { nowUs, source } })
  }

  /** A client in a process of its own. */
  async openClient(holder: string): Promise<Tenure> {
    const { runtime } = this
    const opening = follow(OptimisticStore.open(this.#asSeen(), runtime))
    await runtime.advance(this.callMs)
    const api = new LeaseService({ store: opening.value(), runtime })
    return new TenureClient({ api, runtime, holder, claimWindowMs: WINDOW_MS })
  }

  async open(holder: string): Promise<(resource: string, options: AcquireOptions) => Wish> {
    const tenure = await this.openClient(holder)
    return (resource, options) => {
      return follow(tenure.acquire(resource, { ttlMs: TTL_MS, ...options }))
    }
  }

  timesAsked(n: number): number {
    return this.asked.flat().filter((id) => id === idOf(n)).length
  }

  #serve(attempts: number): Promise<void> {
    const { attemptMs, callMs, runtime } = this
    const nowMs = runtime.monotonicMs()
    const fromMs = attemptMs === 0 ? nowMs : Math.max(nowMs, this.#isFreeAtMs)
    this.#isFreeAtMs = fromMs + callMs + attempts * attemptMs
    return new Promise((resolve) => {
      runtime.setTimer(this.#isFreeAtMs - nowMs, resolve, { keepAlive: true })
    })
  }

  #asSeen(): Backend {
    const attempt: Backend['attempt'] = async (group) => {
      const places = group.attempts.flatMap((one) => one.places)
      this.asked.push(places.map(({ readSet }) => readSet.leaseId))
      await this.#serve(places.length)
      return this.#backend.attempt(group)
    }
    const own = { attempt, isQuick: false }
    return new Proxy<Backend>(this.#backend, {
      get: (target, name) => {
        if (name in own) return Reflect.get(own, name) as unknown
        const member: unknown = Reflect.get(target, name)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }
}

type Wish = ReturnType<typeof follow<Lease>>

/** Both calls that may be in flight are, for `callMs` from now on. */
async function keepBusy(
  { runtime }: SlowServer,
  acquire: (resource: string, options: AcquireOptions) => Wish,
): Promise<void> {
  for (const n of [1, 2]) {
    acquire(`work:busy-${n}`, { waitMs: 60_000, ttlMs: 60_000 })
    await runtime.advance(0)
  }
}

describe('a request that its process keeps back', () => {
  it('is not sent, nor withdrawn, when its wait is over before', async () => {
    const server = new SlowServer()
    const acquire = await server.open('alice')
    server.callMs = 1_200
    await keepBusy(server, acquire)
    const wish = acquire('work:W-1', { leaseId: idOf(9), waitMs: 1_000 })
    await server.runtime.advance(1_000)
    expect(wish.error()).toMatchObject({ code: 'WAIT_TIMEOUT', effect: 'none' })
    await server.runtime.advance(5_000)
    expect(server.timesAsked(9)).toBe(0)
  })

  it('is granted for its TTL from when it is sent', async () => {
    const server = new SlowServer()
    const acquire = await server.open('alice')
    await keepBusy(server, acquire)
    const wish = acquire('work:W-1', { waitMs: 60_000 })
    await server.runtime.advance(799)
    expect(wish.isPending()).toBe(true)
    await server.runtime.advance(1)
    const lease = wish.value()
    // The answer took 400 ms, and one per cent is left to the clocks.
    expect(lease.remainingMs).toBeCloseTo(TTL_MS - 400 - TTL_MS / 100)
  })

  it('is not decided again when its wait ended while it missed', async () => {
    const server = new SlowServer()
    const [other, acquire] = [await server.open('bob'), await server.open('alice')]
    other('work:W-1', { waitMs: 60_000, ttlMs: 60_000 })
    await server.runtime.advance(400)
    server.callMs = 1_200
    const wish = acquire('work:W-1', { leaseId: idOf(9), waitMs: 1_000 })
    await server.runtime.advance(1_000)
    expect(wish.error()).toMatchObject({ code: 'WAIT_TIMEOUT', effect: 'unknown' })
    await server.runtime.advance(5_000)
    // The request, which missed, and one withdrawal.
    expect(server.timesAsked(9)).toBe(2)
  })
})

describe('a withdrawal that its process keeps back', () => {
  it.each([
    { callMs: 700, what: 'is sent while something may be left', times: 1 },
    { callMs: 900, what: 'is not sent when all that there was has lapsed', times: 0 },
  ])('$what', async ({ callMs, times }) => {
    const server = new SlowServer()
    const [other, acquire] = [await server.open('bob'), await server.open('alice')]
    other('work:W-1', { waitMs: 60_000, ttlMs: 60_000 })
    await server.runtime.advance(400)
    const wish = acquire('work:W-1', { leaseId: idOf(9), waitMs: 900 })
    // It has a ticket, and is about to keep it alive.
    await server.runtime.advance(899)
    server.callMs = callMs
    await keepBusy(server, acquire)
    const before = server.timesAsked(9)
    await server.runtime.advance(1)
    expect(wish.error()).toMatchObject({ code: 'WAIT_TIMEOUT' })
    await server.runtime.advance(10_000)
    expect(server.timesAsked(9) - before).toBe(times)
  })
})

const TASKS = 40
const RESOURCES = 20

/** Each task waits for one of a few resources after the other. Every other lease is left to its end. */
function crowd(tenure: Tenure, runtime: FakeRuntime): { granted: number; isOver: boolean } {
  const random = randomFrom(1)
  const facts = { granted: 0, isOver: false }
  const asleep = (ms: number): Promise<void> => {
    return new Promise((resolve) => void runtime.setTimer(ms, resolve, { keepAlive: true }))
  }
  const work = async (): Promise<void> => {
    while (!facts.isOver) {
      const resource = `work:W-${Math.floor(random() * RESOURCES)}`
      const isAbandoned = random() < 0.5
      const options = { ttlMs: TTL_MS, waitMs: 4 * TTL_MS, autoRenew: !isAbandoned }
      try {
        const lease = await tenure.acquire(resource, options)
        facts.granted += 1
        if (isAbandoned) lease.abandon()
        await asleep(isAbandoned ? TTL_MS : 5)
        if (!isAbandoned) await lease[Symbol.asyncDispose]()
      } catch (error) {
        if (!isLeaseError(error)) throw error
      }
    }
  }
  for (let task = 0; task < TASKS; task += 1) void work()
  return facts
}

it('a process that asks for more than its server can do still gets what that can do', async () => {
  const server = new SlowServer()
  server.callMs = 50
  const tenure = await server.openClient('alice')
  server.attemptMs = 10
  const facts = crowd(tenure, server.runtime)
  await server.runtime.advance(10_000)
  const before = facts.granted
  await server.runtime.advance(10_000)
  facts.isOver = true
  expect(facts.granted - before).toBeGreaterThan(40)
})
