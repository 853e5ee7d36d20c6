/** How long a client renews a lease without anybody asking, where it obeys the store's `max_hold_seconds`. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Lease } from '../../src/client/contract.ts'
import type { LeaseError } from '../../src/core/errors.ts'
import { onOwnFault } from '../runtime/hear-faults.ts'
import {
  failWith,
  newClient,
  newWorld,
  type ClientOptions,
  type TestClient,
  type World,
} from './harness.ts'

const told: string[] = []
let stop = (): void => undefined

beforeEach(() => {
  told.length = 0
  stop = onOwnFault(({ source, error }) => told.push(`${source}: ${(error as LeaseError).message}`))
})

afterEach(() => stop())

interface Held extends TestClient {
  readonly world: World
  readonly lease: Lease
  readonly causes: (LeaseError | null)[]
}

async function hold(options: ClientOptions = { maxHold: 'configured' }): Promise<Held> {
  const world = newWorld()
  const client = newClient(world, 'alice', options)
  await client.tenure.config.set('max_hold_seconds', 60, { for: 'work' })
  const lease = await client.tenure.acquire('work:W', { ttlMs: 30_000 })
  const causes: (LeaseError | null)[] = []
  lease.on('uncertain', ({ cause }) => {
    told.push('uncertain')
    causes.push(cause)
  })
  lease.on('lost', () => told.push('lost'))
  return { world, ...client, lease, causes }
}

describe('a client that obeys max_hold_seconds', () => {
  it('renews no further, after a report and uncertainty, and leaves what was granted', async () => {
    const { world, lease, causes } = await hold()
    await world.runtime.advance(59_999)
    expect(lease.state).toBe('held')
    expect(told).toEqual([])
    await world.runtime.advance(10_001)
    const report = `client/max-hold: lease ${lease.id} has reached the max_hold_seconds of 60`
    expect(told).toEqual([report, 'uncertain'])
    expect(causes).toMatchObject([{ code: 'RENEWAL_LIMIT' }])
    expect(lease.state).toBe('uncertain')
    const { renewals, remainingMs } = lease
    expect(remainingMs).toBeGreaterThan(15_000)
    await world.runtime.advance(remainingMs - 1)
    expect(lease.state).toBe('uncertain')
    await world.runtime.advance(2)
    expect(lease.state).toBe('lost')
    expect(lease.renewals).toBe(renewals)
    expect(told).toEqual([report, 'uncertain', 'lost'])
    expect((lease.signal.reason as Error).message).toContain(
      'was lost: it has reached the max_hold_seconds of 60',
    )
  })

  it('lets the holder itself go on renewing', async () => {
    const { world, lease } = await hold()
    await world.runtime.advance(75_000)
    expect(lease.state).toBe('uncertain')
    await lease.renew()
    await world.runtime.advance(25_000)
    expect(lease.remainingMs).toBeGreaterThan(0)
    expect(told.filter((one) => one.startsWith('client/max-hold'))).toHaveLength(1)
  })

  it('renews on when the limit is raised before it is reached, or taken away', async () => {
    for (const seconds of [600, 0]) {
      const { world, lease, tenure } = await hold()
      await world.runtime.advance(30_000)
      await tenure.config.set('max_hold_seconds', seconds, { for: 'work' })
      await world.runtime.advance(300_000)
      expect(lease.state).toBe('held')
    }
  })

  it('renews on when the limit cannot be read, and says so', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice', { maxHold: 'configured' })
    faults.when('settings', failWith('STORE_UNAVAILABLE'))
    const lease = await tenure.acquire('work:W', { ttlMs: 30_000 })
    await world.runtime.advance(100_000)
    expect(lease.state).toBe('held')
    expect(told[0]).toBe('client/max-hold: a fault of the test')
  })
})

describe('a client of the library', () => {
  it('renews without end, whatever max_hold_seconds says', async () => {
    const { world, lease } = await hold({})
    await world.runtime.advance(600_000)
    expect(lease.state).toBe('held')
    expect(told).toEqual([])
  })
})
