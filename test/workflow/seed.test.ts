/** The tests of the pattern that this was made from, over a real store: the names are the pattern's. */
import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTenure } from '../../src/open.ts'
import type { Tenure } from '../../src/client/contract.ts'
import { newClient, newWorld } from '../client/harness.ts'
import {
  ActionGuard,
  claimWorkflow,
  LocalBus,
  type IncomingAction,
} from '../../src/workflow/index.ts'

let tenure: Tenure
let bus: LocalBus

beforeEach(async () => {
  tenure = await openTenure('memory:', { holder: 'orchestrator-1' })
  bus = new LocalBus()
})

afterEach(async () => {
  await tenure.close()
})

describe('the lease management pattern', () => {
  it('test_lease_validation_success', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    const guard = new ActionGuard()
    await guard.setLease('w', orchestrator.leaseId, orchestrator.fence)
    const action = await orchestrator.emit('EXECUTE', {}, { target: 'compute' })
    expect(guard.validate(action)).toBe(true)
  })

  it('test_lease_validation_wrong_lease', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    const guard = new ActionGuard()
    await guard.setLease('w', orchestrator.leaseId, orchestrator.fence)
    const action = await orchestrator.emit('EXECUTE', {}, { target: 'compute' })
    const leaseId = randomUUID()
    expect(() => guard.validate({ ...action, leaseId })).toThrow(
      expect.objectContaining({
        code: 'LEASE_VIOLATION',
        details: expect.objectContaining({ expected: orchestrator.leaseId, received: leaseId }),
      }),
    )
  })

  it('test_epoch_validation_stale_action', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    const guard = new ActionGuard()
    await guard.setLease('w', orchestrator.leaseId, orchestrator.fence, { epoch: 5 })
    const action = await orchestrator.emit('EXECUTE', {}, { target: 'compute' })
    expect(() => guard.validate({ ...action, epoch: 3 })).toThrow(
      expect.objectContaining({
        code: 'STALE_EPOCH',
        details: expect.objectContaining({
          action_epoch: 3,
          current_epoch: 5,
          recommendation: 'Orchestrator should refresh state',
        }),
      }),
    )
  })

  it('test_epoch_increment_on_state_change', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    const initial = orchestrator.epoch
    expect([initial, orchestrator.state]).toEqual([0, 'initialized'])
    await orchestrator.advance('processing')
    expect([orchestrator.epoch, orchestrator.state]).toEqual([initial + 1, 'processing'])
    const events = await tenure.history({ resource: 'workflow:w', types: ['lease.advanced'] })
    expect(events.map(({ event }) => event.reason)).toEqual(['state: processing'])
  })

  it('test_full_workflow_with_lease', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    const guard = new ActionGuard()
    await guard.setLease('w', orchestrator.leaseId, orchestrator.fence)
    const received = new Promise<IncomingAction>((resolve) => {
      void bus.subscribe('compute', { onAction: resolve })
    })
    await orchestrator.emit('PROCESS_DATA', { data: [1, 2, 3] }, { target: 'compute' })
    const action = await received
    expect([action.leaseId, action.epoch]).toEqual([orchestrator.leaseId, 0])
    const sum = await guard.process(action, (payload) => {
      return (payload as { data: number[] }).data.reduce((a, b) => a + b)
    })
    expect([sum, orchestrator.epoch]).toEqual([6, 1])
  })

  it('test_lease_expiration', async () => {
    const world = newWorld()
    const { runtime } = world
    const options = { bus, ttlMs: 1_000, renewBelowMs: 0, runtime }
    const orchestrator = await claimWorkflow(newClient(world, 'o').tenure, 'w', options)
    await runtime.advance(2_000)
    expect(orchestrator.signal.aborted).toBe(true)
    const error: unknown = await orchestrator
      .emit('EXECUTE', {}, { target: 'compute' })
      .catch((reason: unknown) => reason)
    expect(error).toMatchObject({
      code: 'LEASE_EXPIRED',
      details: {
        lease_id: orchestrator.leaseId,
        acquired_at: expect.stringMatching(/^\d{4}-.*Z$/),
        ttl_seconds: 1,
      },
    })
    await bus.idle()
  })
})
