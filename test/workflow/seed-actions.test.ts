/** What the reader of the lease management pattern writes: actions by hand, on the wire, to all, in order. */
import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTenure, type Tenure } from '../../src/index.ts'
import {
  ActionGuard,
  claimWorkflow,
  createAction,
  formatAction,
  LocalBus,
  parseAction,
  type Action,
  type Bus,
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

describe('lease_id', () => {
  it('is a UUID of version 7, and another for every lease', async () => {
    const one = await claimWorkflow(tenure, 'w', { bus })
    await one.complete()
    const two = await claimWorkflow(tenure, 'w', { bus })
    const version7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
    expect([one.leaseId, two.leaseId]).toEqual([
      ...[expect.stringMatching(version7), expect.stringMatching(version7)],
    ])
    expect(two.leaseId).not.toBe(one.leaseId)
  })
})

describe('the log of a workflow', () => {
  it('is the ledger: changes of state and revocations stand there, with their reasons', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    await orchestrator.advance('step_completed')
    await tenure.revoke(orchestrator.leaseId, { reason: 'orchestrator failed' })
    const entries = await tenure.history({ resource: 'workflow:w' })
    expect(entries.map(({ event }) => [event.type, event.reason])).toEqual([
      ['lease.issued', null],
      ['lease.advanced', 'state: step_completed'],
      ['lease.revoked', 'orchestrator failed'],
    ])
  })
})

describe('ModelAction', () => {
  it('is built of its type, lease and epoch; the rest has defaults', () => {
    const leaseId = randomUUID()
    const action = createAction({ actionType: 'EXECUTE', leaseId, epoch: 0 })
    expect(action).toEqual({
      ...{ actionId: expect.stringMatching(/^[0-9a-f-]{36}$/), actionType: 'EXECUTE', leaseId },
      ...{ target: '*', payload: null, workflowId: null, fence: null, epoch: 0 },
      ...{ previousEpoch: null, priority: 5, issuedAtMs: expect.any(Number) },
    })
    expect(Object.isFrozen(action)).toBe(true)
    const payload = { data: [1, 2, 3] }
    const whole = createAction({
      ...{ actionId: randomUUID(), actionType: 'EXECUTE', target: 'compute', payload, priority: 1 },
      ...{ workflowId: 'w', leaseId, fence: 7, epoch: 3, previousEpoch: 1, issuedAtMs: 9 },
    }) satisfies Action
    payload.data.push(4)
    expect(whole.payload).toEqual({ data: [1, 2, 3] })
    expect(parseAction(formatAction(whole))).toEqual(whole)
  })

  it('is not built without a lease or an epoch, or with a field that no action has', () => {
    const make = (fields: object): (() => unknown) => {
      return () => createAction(fields as Parameters<typeof createAction>[0])
    }
    const leaseId = randomUUID()
    expect(make({ actionType: 'EXECUTE', epoch: 0 })).toThrow('leaseId must be a UUID')
    expect(make({ actionType: 'EXECUTE', leaseId })).toThrow('epoch must be an integer')
    expect(make({ leaseId, epoch: 0 })).toThrow('actionType must be text, got undefined')
    expect(make({ actionType: 'A', leaseId, epoch: 0, lease_id: 1 })).toThrow('got "lease_id"')
    expect(make(undefined as unknown as object)).toThrow('action must be an object, got undefined')
  })
})

describe('orchestrator.validate_action', () => {
  it('test_lease_validation_success, with an action built by hand and with one that was emitted', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    const { leaseId, epoch } = orchestrator
    const action = createAction({ actionType: 'EXECUTE', leaseId, epoch })
    expect(orchestrator.validate(action)).toBe(true)
    expect(orchestrator.validate(await orchestrator.emit('EXECUTE', {}))).toBe(true)
  })

  it('test_lease_validation_wrong_lease, with both leases and both epochs in its details', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    await orchestrator.advance('processing')
    const leaseId = randomUUID()
    const action = createAction({ actionType: 'EXECUTE', leaseId, epoch: 0 })
    const refusal = expect.objectContaining({
      code: 'LEASE_VIOLATION',
      details: expect.objectContaining({
        ...{ expected: orchestrator.leaseId, received: leaseId },
        ...{ action_epoch: 0, current_epoch: 1, workflow_id: 'w' },
      }),
    })
    expect(() => orchestrator.validate(action)).toThrow(refusal)
    const { leaseId: own, fence } = orchestrator
    const other = { actionType: 'EXECUTE', leaseId: own, epoch: 0 }
    const violation = expect.objectContaining({ code: 'LEASE_VIOLATION' })
    const elsewhere = createAction({ ...other, workflowId: 'v' })
    expect(() => orchestrator.validate(elsewhere)).toThrow(violation)
    const misfenced = createAction({ ...other, fence: fence + 1 })
    expect(() => orchestrator.validate(misfenced)).toThrow(violation)
  })

  it('refuses an epoch that was not come to, and everything once the lease is over', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    const { leaseId } = orchestrator
    const future = createAction({ actionType: 'EXECUTE', leaseId, epoch: 1 })
    expect(() => orchestrator.validate(future)).toThrow(
      expect.objectContaining({
        code: 'FUTURE_EPOCH',
        message: 'epoch must be at most 0, which is the next, got 1',
        details: expect.objectContaining({ action_epoch: 1, current_epoch: 0 }),
      }),
    )
    expect(orchestrator.check()).toBeUndefined()
    await orchestrator.complete()
    const over = expect.objectContaining({ code: 'LEASE_TERMINAL' })
    const action = createAction({ actionType: 'EXECUTE', leaseId, epoch: 0 })
    expect(() => orchestrator.validate(action)).toThrow(over)
    expect(() => orchestrator.check()).toThrow(over)
  })
})

describe('lease_metadata', () => {
  it('has acquired_at and ttl_seconds, and renew_lease keeps the lease', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    const { leaseId, acquiredAtMs, ttlMs, remainingMs } = orchestrator
    expect(ttlMs).toBe(300_000)
    // What the holder counts is one percent less than what the store grants.
    expect(remainingMs).toBeLessThanOrEqual(297_000)
    const info = await tenure.get(leaseId)
    expect(acquiredAtMs).toBe(info?.grantedAtMs)
    await orchestrator.renew()
    expect((await tenure.get(leaseId))?.renewals).toBe(1)
    expect([orchestrator.leaseId, orchestrator.acquiredAtMs]).toEqual([leaseId, acquiredAtMs])
    await orchestrator.complete()
    await expect(orchestrator.renew()).rejects.toMatchObject({ code: 'LEASE_TERMINAL' })
  })
})

/** As an emitter writes it that knows the pattern and nothing of Tenure. */
function seedText(fields: { readonly lease_id: string; readonly epoch: number }): string {
  return JSON.stringify({
    ...{ action_id: randomUUID(), action_type: 'PROCESS_DATA', target_node_type: 'compute' },
    ...{ payload: { data: [1, 2, 3] }, priority: 5, ...fields },
  })
}

describe("the pattern's own wire form", () => {
  it('is carried out by a guard that was told of one workflow, in order and once', async () => {
    const guard = new ActionGuard()
    const leaseId = randomUUID()
    await guard.setLease('w', leaseId, 1)
    const action = parseAction(seedText({ lease_id: leaseId, epoch: 0 }))
    expect(action).toMatchObject({ workflowId: null, fence: null, issuedAtMs: null })
    expect(guard.validate(action)).toBe(true)
    const seen = await guard.process(action, (_, context) => context.action)
    expect(seen).toMatchObject({ workflowId: 'w', fence: 1, epoch: 0 })
    const code = (text: string): Promise<unknown> =>
      guard.process(parseAction(text), () => 'done').catch((error: { code: string }) => error.code)
    expect(await code(formatAction(action))).toBe('DUPLICATE_ACTION')
    expect(await code(seedText({ lease_id: leaseId, epoch: 0 }))).toBe('STALE_EPOCH')
    expect(await code(seedText({ lease_id: randomUUID(), epoch: 1 }))).toBe('LEASE_VIOLATION')
    expect(await code(seedText({ lease_id: leaseId, epoch: 1 }))).toBe('done')
  })

  it('is refused by a guard that knows no workflow, or several and not which', async () => {
    const leaseId = randomUUID()
    const action = parseAction(seedText({ lease_id: leaseId, epoch: 0 }))
    const guard = new ActionGuard()
    expect(() => guard.validate(action)).toThrow(
      'workflowId must be named where the guard knows none, got null',
    )
    await guard.setLease('v', randomUUID(), 1)
    await guard.setLease('w', leaseId, 1)
    expect(() => guard.validate(action)).toThrow(
      'workflowId must be named where the guard knows several, got null',
    )
    const own = new ActionGuard({ workflowId: 'w' })
    await own.setLease('v', randomUUID(), 1)
    await own.setLease('w', leaseId, 1)
    expect(own.validate(action)).toBe(true)
  })

  it('comes over a bus, and the store says whose lease it is', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    await using guard = new ActionGuard({ tenure, workflowId: 'w' })
    const done: unknown[] = []
    await guard.subscribe(bus, 'compute', (payload) => done.push(payload))
    bus.send('compute', seedText({ lease_id: orchestrator.leaseId, epoch: 0 }))
    bus.send('compute', seedText({ lease_id: randomUUID(), epoch: 1 }))
    await bus.idle()
    expect(done).toEqual([{ data: [1, 2, 3] }])
    expect(bus.deadLetters).toEqual([])
  })
})

describe('emit_action without a target', () => {
  it('goes to every target, also to one that is subscribed to later', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    const done: string[] = []
    const listen = async (target: string): Promise<void> => {
      const guard = new ActionGuard({ strict: true })
      await guard.setLease('w', orchestrator.leaseId, orchestrator.fence)
      await guard.subscribe(bus, target, (_, { action }) => done.push(`${target} ${action.epoch}`))
    }
    await listen('compute')
    await orchestrator.emit('VALIDATE_DATA', {})
    await orchestrator.emit('PROCESS_DATA', {}, { target: 'compute' })
    await orchestrator.emit('STORE_RESULTS', {}, { target: '*' })
    await listen('effect')
    await bus.idle()
    expect(done.toSorted()).toEqual(['compute 0', 'compute 1', 'compute 2', 'effect 0', 'effect 2'])
  })

  it('is missed by a strict guard when it has not come, as what is sent to one target is', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    const toAll = await orchestrator.emit('A', {})
    const toOne = await orchestrator.emit('B', {}, { target: 'compute' })
    const toAllAgain = await orchestrator.emit('C', {})
    const last = await orchestrator.emit('D', {}, { target: 'effect' })
    expect([toAll, toOne, toAllAgain, last].map((action) => action.previousEpoch)).toEqual([
      ...[null, 0, null, 2],
    ])
    expect(toAllAgain.lastEpochs).toEqual({ '*': 0, compute: 1 })
    expect(parseAction(formatAction(toAllAgain))).toEqual(toAllAgain)
    const guardOf = async (...done: readonly Action[]): Promise<ActionGuard> => {
      const guard = new ActionGuard({ strict: true })
      await guard.setLease('w', orchestrator.leaseId, orchestrator.fence)
      for (const action of done) await guard.process(action, () => undefined)
      return guard
    }
    const missing = (after: number, through: number): unknown =>
      expect.objectContaining({
        code: 'FUTURE_EPOCH',
        details: expect.objectContaining({ missing: { after, through } }),
      })
    const fresh = await guardOf()
    expect(() => fresh.validate(toOne)).toThrow(missing(-1, 0))
    expect(() => fresh.validate(toAllAgain)).toThrow(missing(-1, 0))
    const compute = await guardOf(toAll, toOne)
    expect(compute.validate(toAllAgain)).toBe(true)
    const effect = await guardOf(toAll, toAllAgain)
    expect(effect.validate(last)).toBe(true)
  })

  it('is missed as well where the target of the guard was sent to in between', async () => {
    const orchestrator = await claimWorkflow(tenure, 'w', { bus })
    const one = await orchestrator.emit('A', {}, { target: 'compute' })
    const two = await orchestrator.emit('B', {}, { target: 'compute' })
    const three = await orchestrator.emit('C', {})
    const guard = new ActionGuard({ strict: true })
    await guard.setLease('w', orchestrator.leaseId, orchestrator.fence)
    await guard.process(one, () => undefined)
    expect(() => guard.validate(three)).toThrow(expect.objectContaining({ code: 'FUTURE_EPOCH' }))
    await guard.process(two, () => undefined)
    expect(guard.validate(three)).toBe(true)
  })
})

describe('handoff_lease', () => {
  it('does not pass an action to all that a strict guard has missed', async () => {
    const sent: Action[] = []
    const noting: Bus = {
      publish: async (actions) => void sent.push(...actions),
      announce: (revocation) => bus.announce(revocation),
      subscribe: (target, listener) => bus.subscribe(target, listener),
    }
    const orchestrator = await claimWorkflow(tenure, 'w', { bus: noting })
    await orchestrator.emit('A', {})
    await orchestrator.handoff('orchestrator-2')
    const [toAll, transfer] = sent as [Action, Action]
    expect(transfer).toMatchObject({
      actionType: 'LEASE_TRANSFER',
      payload: { transfer_epoch: 1, last_epochs: { '*': 0 } },
    })
    const guard = new ActionGuard({ strict: true })
    await guard.setLease('w', toAll.leaseId, toAll.fence)
    const early = guard.process(transfer, () => undefined)
    await expect(early).rejects.toMatchObject({ code: 'FUTURE_EPOCH' })
    await guard.process(toAll, () => undefined)
    await guard.process(transfer, () => undefined)
    const old = createAction({ ...toAll, actionId: randomUUID(), epoch: 2, issuedAtMs: 1 })
    expect(() => guard.validate(old)).toThrow(expect.objectContaining({ code: 'LEASE_VIOLATION' }))
  })
})

describe('handle_epoch_conflict', () => {
  it('with every_epoch refuses all but the next epoch, whatever the sender names', async () => {
    const guard = new ActionGuard({ strict: 'every_epoch' })
    const leaseId = randomUUID()
    await guard.setLease('w', leaseId, 1, { epoch: 4 })
    const action = (epoch: number): Action =>
      createAction({ actionType: 'EXECUTE', workflowId: 'w', leaseId, fence: 1, epoch })
    expect(() => guard.validate(action(9))).toThrow(
      expect.objectContaining({
        code: 'FUTURE_EPOCH',
        details: expect.objectContaining({
          ...{ action_epoch: 9, current_epoch: 4, missing: { after: 4, through: 8 } },
          recommendation: 'Check for missed state updates',
        }),
      }),
    )
    expect(() => guard.validate(action(4))).toThrow(
      expect.objectContaining({
        code: 'STALE_EPOCH',
        details: expect.objectContaining({
          recommendation: 'Orchestrator should refresh state',
        }),
      }),
    )
    expect(await guard.process(action(5), () => 'done')).toBe('done')
    await expect(guard.process(action(7), () => 'done')).rejects.toMatchObject({
      code: 'FUTURE_EPOCH',
    })
  })
})

describe('log violations', () => {
  it('with leases and epochs, once for each refusal', async () => {
    const told: object[] = []
    const guard = new ActionGuard({ log: ({ code, details }) => told.push({ code, ...details }) })
    const expected = randomUUID()
    const received = randomUUID()
    await guard.setLease('w', expected, 2, { epoch: 5 })
    const fields = { actionType: 'A', workflowId: 'w', leaseId: received, fence: 3, epoch: 9 }
    const action = createAction(fields)
    for (const _ of [1, 2]) {
      await guard.process(action, () => undefined).catch(() => undefined)
    }
    expect(told).toEqual([
      expect.objectContaining({
        ...{ code: 'LEASE_VIOLATION', expected, received },
        ...{ action_epoch: 9, current_epoch: 5 },
      }),
    ])
  })
})
