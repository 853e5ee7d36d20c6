import { describe, expect, it } from 'vitest'
import type { Lease } from '../../src/client/contract.ts'
import {
  hang,
  loseAnswer,
  first,
  newClient,
  newWorld,
  type TestClient,
  type World,
} from './harness.ts'

interface Stage extends TestClient {
  readonly world: World
  readonly lease: Lease
}

async function newStage(resource = 'workflow:w', ttlMs = 30_000): Promise<Stage> {
  const world = newWorld()
  const client = newClient(world, 'agent-1')
  const lease = await client.tenure.acquire(resource, { ttlMs })
  return { world, ...client, lease }
}

async function codeOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => 'done',
    (error: { readonly code: unknown }) => error.code,
  )
}

describe('a holder of a workflow', () => {
  it('uses up epochs, one or many at once, each once', async () => {
    const { lease } = await newStage()
    expect(lease.epoch).toBe(0)
    expect(await lease.advance()).toEqual({ from: 0, to: 1 })
    expect(await lease.advance({ count: 10 })).toEqual({ from: 1, to: 11 })
    const ranges = await Promise.all([1, 2, 3].map((count) => lease.advance({ count })))
    expect(ranges.map(({ from, to }) => [from, to])).toEqual([
      [11, 12],
      [12, 14],
      [14, 17],
    ])
    expect(lease.epoch).toBe(17)
  })

  it('hears of its loss although no answer comes', async () => {
    const { lease, faults, world } = await newStage('workflow:w', 5_000)
    lease.abandon()
    faults.when('advance', hang)
    const advance = codeOf(lease.advance())
    await world.runtime.advance(6_000)
    expect(await advance).toBe('LEASE_LOST')
  })

  it('asks again under the same id when an answer was lost', async () => {
    const { lease, faults, world } = await newStage()
    faults.when('advance', first(2, loseAnswer))
    const advance = lease.advance({ count: 3 })
    await world.runtime.advance(1_000)
    expect(await advance).toEqual({ from: 0, to: 3 })
    const requests = faults.calls.filter(({ method }) => method === 'advance')
    const ids = requests.map(({ request }) => (request as { requestId: string }).requestId)
    expect([ids.length, new Set(ids).size]).toEqual([3, 1])
  })

  it('never uses epochs of which nobody knows what became of them', async () => {
    const { lease, faults, world } = await newStage()
    faults.when('advance', loseAnswer)
    const advance = codeOf(lease.advance({ count: 3 }))
    await world.runtime.advance(10_000)
    expect(await advance).toBe('STORE_OUTCOME_UNKNOWN')
    faults.heal('advance')
    expect(await lease.advance()).toEqual({ from: 3, to: 4 })
  })

  it('is refused when another has used its epochs, and is not told to guess', async () => {
    const { lease, world } = await newStage()
    const { id: leaseId, holder } = lease
    await world.service.advance({ id: leaseId, holder, from: 0 })
    expect(await codeOf(lease.advance())).toBe('STALE_EPOCH')
  })

  it.each([
    [{ count: 0 }, 'count must be an integer 1..100000, got 0'],
    [{ count: 1.5 }, 'count must be an integer 1..100000, got 1.5'],
    [{ count: 100_001 }, 'count must be an integer 1..100000, got 100001'],
    [{ cuont: 1 }, 'options must be among count, reason, got "cuont"'],
  ])('is refused %o', async (options, message) => {
    const { lease } = await newStage()
    await expect(lease.advance(options as object)).rejects.toThrow(message)
    expect(lease.epoch).toBe(0)
  })

  it('is told that what is no workflow has no epochs', async () => {
    const { lease } = await newStage('work:W')
    expect(lease.epoch).toBe(null)
    expect(await codeOf(lease.advance())).toBe('INVALID_INPUT')
    expect(lease.state).toBe('held')
  })

  it.each([
    [-1, 'from must be an integer 0..9007199254740990, got -1'],
    [2 ** 53, 'from must be an integer 0..9007199254740990, got 9007199254740992'],
    [0.5, 'from must be an integer 0..9007199254740990, got 0.5'],
  ])('has no epoch %d', async (from, message) => {
    const { lease, world } = await newStage()
    const { id: leaseId, holder } = lease
    await expect(world.service.advance({ id: leaseId, holder, from })).rejects.toThrow(message)
  })
})
