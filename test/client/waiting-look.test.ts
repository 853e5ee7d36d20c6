import { expect, it } from 'vitest'
import { follow, hang, newClient, newWorld } from './harness.ts'

it('a waiter whose look at the queue hangs keeps its place and is served in its turn', async () => {
  const world = newWorld()
  const { runtime } = world
  const holder = newClient(world, 'agent-1')
  const waiter = newClient(world, 'agent-2', { claimWindowMs: 600 })
  const lease = await holder.tenure.acquire('work:W-1', { ttlMs: 30_000 })
  waiter.faults.when('get', hang)
  const waiting = follow(waiter.tenure.acquire('work:W-1', { ttlMs: 30_000, waitMs: 20_000 }))
  await runtime.advance(5_000)
  expect(waiter.faults.count('get')).toBeGreaterThan(0)
  expect(waiter.faults.count('claim')).toBeGreaterThan(20)
  await lease.release()
  await runtime.advance(10)
  expect(waiting.value().state).toBe('held')
  await waiter.tenure.close()
  await holder.tenure.close()
})

it('asking again for the id of a held lease gives the same handle, and cancelling that changes nothing', async () => {
  const world = newWorld()
  const { tenure } = newClient(world, 'agent-1')
  const leaseId = world.runtime.uuid()
  const lease = await tenure.acquire('work:W-1', { leaseId })
  const again = await tenure.acquire('work:W-1', { leaseId, signal: AbortSignal.abort() })
  expect(again).toBe(lease)
  await world.runtime.advance(100)
  expect((await tenure.get(leaseId))?.state).toBe('active')
  await tenure.close()
})
