/** How others got epochs wrong; each was a real defect of an implementation of the pattern. */
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Action, Orchestrator } from '../../src/workflow/index.ts'
import { ActionGuard, claimWorkflow, LocalBus } from '../../src/workflow/index.ts'
import { newClient, newWorld, type World } from '../client/harness.ts'

const TO = { target: 'compute' }

async function claim(world: World, holder: string, workflowId = 'w'): Promise<Orchestrator> {
  const { runtime } = world
  const { tenure } = newClient(world, holder)
  const options = { bus: new LocalBus({ runtime }), runtime, ttlMs: 10_000, renewBelowMs: 0 }
  return claimWorkflow(tenure, workflowId, options)
}

async function guardOf(...orchestrators: readonly Orchestrator[]): Promise<ActionGuard> {
  const guard = new ActionGuard({ strict: true })
  for (const { workflowId, leaseId, fence } of orchestrators) {
    await guard.setLease(workflowId, leaseId, fence)
  }
  return guard
}

async function codeOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => 'done',
    (error: { readonly code: unknown }) => error.code,
  )
}

describe('no guard, however it is used, has', () => {
  it('the same epoch accepted twice', async () => {
    const orchestrator = await claim(newWorld(), 'one')
    const guard = await guardOf(orchestrator)
    const action = await orchestrator.emit('A', {}, TO)
    await guard.process(action, () => 'done')
    const other: Action = { ...action, actionId: randomUUID() }
    expect(await codeOf(guard.process(other, () => 'twice'))).toBe('STALE_EPOCH')
  })

  it('one epoch mark for all workflows', async () => {
    const world = newWorld()
    const [one, two] = [await claim(world, 'one', 'a'), await claim(world, 'two', 'b')]
    const guard = await guardOf(one, two)
    for (let n = 0; n < 5; n += 1) await guard.process(await one.emit('A', n, TO), () => n)
    expect(await codeOf(guard.process(await two.emit('B', 0, TO), () => 0))).toBe('done')
  })
})

describe('no workflow has', () => {
  it('an epoch that restarts at 0 after a takeover', async () => {
    const world = newWorld()
    const one = await claim(world, 'one')
    for (let n = 0; n < 3; n += 1) await one.emit('A', n, TO)
    await world.runtime.advance(10_001)
    const two = await claim(world, 'two')
    expect((await two.emit('B', 0, TO)).epoch).toBe(3)
  })

  it('a transfer in several steps: no other can come between', async () => {
    const world = newWorld()
    const one = await claim(world, 'one')
    const waiting = newClient(world, 'three').tenure.acquire('workflow:w', { waitMs: 60_000 })
    const outcome = codeOf(waiting)
    await world.runtime.advance(1)
    await one.handoff('two')
    const two = await claim(world, 'two')
    const ledger = await world.store.history({ limit: 100 })
    const changes = ledger.map(({ event }) => `${event.type} ${event.holder}`)
    const at = changes.indexOf('lease.transferred one')
    expect(changes[at + 1]).toBe('lease.issued two')
    await two.complete()
    await world.runtime.advance(1)
    expect(await outcome).toBe('done')
  })

  it('a revoked holder that is never told', async () => {
    const world = newWorld()
    const one = await claim(world, 'one')
    await newClient(world, 'ops').tenure.revoke(one.leaseId, { reason: 'stuck' })
    await world.runtime.advance(1_000)
    expect(one.signal.reason).toMatchObject({ code: 'LEASE_LOST', details: { reason: 'revoked' } })
    expect(await codeOf(one.emit('A', {}, TO))).toBe('LEASE_LOST')
  })
})
