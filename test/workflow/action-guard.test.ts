import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { LeaseError } from '../../src/core/errors.ts'
import { readAction, type Action } from '../../src/workflow/action.ts'
import { ActionGuard, LocalBus } from '../../src/workflow/index.ts'

const OLD = { leaseId: randomUUID(), fence: 10 }
const NEW = { leaseId: randomUUID(), fence: 20 }

function action(change: Partial<Action> = {}): Action {
  return readAction({
    ...{ actionId: randomUUID(), actionType: 'A', target: 'compute', payload: null },
    ...{ workflowId: 'w', ...OLD, epoch: 0, previousEpoch: null, priority: 5, issuedAtMs: 1 },
    ...change,
  })
}

async function guardAt(epoch: number, strict = false): Promise<ActionGuard> {
  const guard = new ActionGuard({ strict })
  await guard.setLease('w', OLD.leaseId, OLD.fence)
  await guard.process(action({ epoch }), () => 'done')
  return guard
}

function codeOf(call: () => unknown): unknown {
  try {
    return call()
  } catch (error) {
    return (error as LeaseError).code
  }
}

describe('an action guard', () => {
  it('is closed to a workflow whose lease nobody told it', async () => {
    const guard = new ActionGuard()
    expect(codeOf(() => guard.validate(action()))).toBe('LEASE_VIOLATION')
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    expect(guard.validate(action())).toBe(true)
    expect(codeOf(() => guard.validate(action({ workflowId: 'v' })))).toBe('LEASE_VIOLATION')
  })

  it.each<[string, Partial<Action>, string]>([
    ['another lease', { ...NEW, epoch: 9 }, 'LEASE_VIOLATION'],
    ['another lease, also when its epoch is old', { ...NEW, epoch: 1 }, 'LEASE_VIOLATION'],
    ['its lease with a lower fence', { fence: 9, epoch: 9 }, 'LEASE_VIOLATION'],
    ['an epoch that has passed', { epoch: 3 }, 'STALE_EPOCH'],
    ['the epoch of the last one', { epoch: 5 }, 'STALE_EPOCH'],
  ])('refuses %s', async (_, change, code) => {
    const guard = await guardAt(5)
    const refused = action(change)
    expect(codeOf(() => guard.validate(refused))).toBe(code)
    await expect(guard.process(refused, () => 'no')).rejects.toMatchObject({ code })
  })

  it('accepts the next epoch, and the same lease under a higher fence', async () => {
    const guard = await guardAt(5)
    expect(guard.validate(action({ epoch: 6 }))).toBe(true)
    expect(await guard.process(action({ epoch: 6, fence: 12 }), () => 'yes')).toBe('yes')
    expect(codeOf(() => guard.validate(action({ epoch: 7 })))).toBe('LEASE_VIOLATION')
  })

  it('recognises an action that comes again, however old, and does not carry it out', async () => {
    const guard = new ActionGuard()
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    let count = 0
    const actions = [0, 1, 2].map((epoch) => action({ epoch }))
    for (const one of actions) await guard.process(one, () => (count += 1))
    for (const one of actions) {
      await expect(guard.process(one, () => (count += 1))).rejects.toMatchObject({
        code: 'DUPLICATE_ACTION',
        details: { action_epoch: one.epoch, current_epoch: 2 },
      })
    }
    expect(count).toBe(3)
  })

  it('forgets old action ids, but never carries one out twice', async () => {
    const guard = new ActionGuard()
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    const oldest = action({ epoch: 0 })
    await guard.process(oldest, () => 0)
    for (let epoch = 1; epoch <= 1_000; epoch += 1) {
      await guard.process(action({ epoch }), () => epoch)
    }
    expect(codeOf(() => guard.validate(oldest))).toBe('STALE_EPOCH')
  })

  it('in strict mode refuses a gap and says what is missing; otherwise accepts it', async () => {
    const gap = action({ epoch: 9, previousEpoch: 7 })
    expect((await guardAt(5)).validate(gap)).toBe(true)
    const strict = await guardAt(5, true)
    expect(() => strict.validate(gap)).toThrow(
      expect.objectContaining({
        code: 'FUTURE_EPOCH',
        message: 'epoch 9 follows 7, which has not come; the last was 5',
        details: expect.objectContaining({
          ...{ action_epoch: 9, current_epoch: 5, missing: { after: 5, through: 7 } },
          recommendation: 'Check for missed state updates',
        }),
      }),
    )
    await strict.process(action({ epoch: 7, previousEpoch: 5 }), () => 'missing')
    expect(strict.validate(gap)).toBe(true)
  })

  it('in strict mode accepts epochs that were never meant for its target', async () => {
    const strict = await guardAt(5, true)
    expect(strict.validate(action({ epoch: 100, previousEpoch: 5 }))).toBe(true)
  })

  it('lets the first action under a new lease follow any lower mark', async () => {
    const strict = await guardAt(5, true)
    await strict.setLease('w', NEW.leaseId, NEW.fence)
    expect(strict.validate(action({ ...NEW, epoch: 40 }))).toBe(true)
    expect(codeOf(() => strict.validate(action({ ...NEW, epoch: 41, previousEpoch: 40 })))).toBe(
      'FUTURE_EPOCH',
    )
    expect(codeOf(() => strict.validate(action({ ...NEW, epoch: 5 })))).toBe('STALE_EPOCH')
  })

  it('accepts a new lease only with a higher fence', async () => {
    const guard = await guardAt(5)
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    await expect(guard.setLease('w', NEW.leaseId, 9)).rejects.toThrow(
      'fence of workflow w must be above 10, got 9',
    )
    const same = guard.setLease('w', NEW.leaseId, 10)
    await expect(same).rejects.toMatchObject({ code: 'LEASE_VIOLATION' })
    await guard.setLease('w', NEW.leaseId, NEW.fence)
    expect(codeOf(() => guard.validate(action({ epoch: 6 })))).toBe('LEASE_VIOLATION')
  })

  it('believes nobody who knows less than it does, not even the store', async () => {
    const guard = new ActionGuard({ lookUp: async () => OLD })
    await guard.setLease('w', NEW.leaseId, NEW.fence)
    const unknown = action({ leaseId: randomUUID(), fence: 30 })
    await expect(guard.process(unknown, () => 0)).rejects.toMatchObject({
      code: 'LEASE_VIOLATION',
    })
    expect(guard.validate(action({ ...NEW }))).toBe(true)
    expect(codeOf(() => guard.validate(action()))).toBe('LEASE_VIOLATION')
  })

  it.each<[string, Record<string, unknown>]>([
    ['without a fence', { new_lease_id: NEW.leaseId }],
    ['with a lower fence', { new_lease_id: NEW.leaseId, new_fence: 9 }],
    ['without a lease', { new_fence: 30 }],
  ])('does not follow an announcement %s', async (_, payload) => {
    const guard = await guardAt(5)
    const announcement = action({ actionType: 'LEASE_TRANSFER', epoch: 6, payload })
    await expect(guard.process(announcement, () => 0)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    })
    expect(guard.validate(action({ epoch: 6 }))).toBe(true)
  })

  it('carries out nothing more under a lease that was revoked, but under the next one', async () => {
    const guard = await guardAt(5)
    await guard.revoke({ workflowId: 'w', leaseId: OLD.leaseId, fence: OLD.fence })
    expect(() => guard.validate(action({ epoch: 6 }))).toThrow('its lease was revoked')
    await guard.setLease('w', NEW.leaseId, NEW.fence)
    expect(guard.validate(action({ ...NEW, epoch: 6 }))).toBe(true)
    await guard.revoke({ workflowId: 'w', leaseId: OLD.leaseId, fence: OLD.fence })
    expect(guard.validate(action({ ...NEW, epoch: 6 }))).toBe(true)
  })

  it('takes a revocation for that of its lease, under whatever fence it knows it', async () => {
    const guard = await guardAt(5)
    await guard.process(action({ epoch: 6, fence: 12 }), () => 'done')
    await guard.revoke({ workflowId: 'w', leaseId: OLD.leaseId, fence: OLD.fence })
    const next = action({ epoch: 7, fence: 13 })
    expect(() => guard.validate(next)).toThrow('its lease was revoked')
    await guard.setLease('w', OLD.leaseId, 13)
    expect(() => guard.validate(next)).toThrow('its lease was revoked')
  })

  it('leaves the mark where it is when the effect throws, so that the action may come again', async () => {
    const guard = await guardAt(5)
    const failing = action({ epoch: 6 })
    await expect(
      guard.process(failing, () => {
        throw new Error('no')
      }),
    ).rejects.toThrow('no')
    expect(await guard.process(failing, () => 'again')).toBe('again')
  })

  it('carries out one action of a workflow at a time, and others of other workflows meanwhile', async () => {
    const guard = await guardAt(5)
    await guard.setLease('v', OLD.leaseId, OLD.fence)
    const order: string[] = []
    let finish = (): void => undefined
    const slow = guard.process(action({ epoch: 6 }), async () => {
      await new Promise<void>((resolve) => (finish = resolve))
      order.push('slow')
    })
    const behind = guard.process(action({ epoch: 7 }), () => order.push('behind'))
    await guard.process(action({ workflowId: 'v' }), () => order.push('other'))
    finish()
    await Promise.all([slow, behind])
    expect(order).toEqual(['other', 'slow', 'behind'])
  })

  it('carries out nothing that still waits when it is closed', async () => {
    const guard = await guardAt(5)
    let finish = (): void => undefined
    const slow = guard.process(action({ epoch: 6 }), () => {
      return new Promise<void>((resolve) => (finish = resolve))
    })
    const waiting = guard.process(action({ epoch: 7 }), () => 'never')
    const refused = expect(waiting).rejects.toMatchObject({ code: 'CLOSED' })
    await guard.close()
    finish()
    await slow
    await refused
  })

  it('does not carry out the same action twice although both come at once', async () => {
    const guard = await guardAt(5)
    const twice = action({ epoch: 6 })
    let count = 0
    const results = await Promise.allSettled(
      [twice, twice].map((one) => guard.process(one, () => (count += 1))),
    )
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
    expect(count).toBe(1)
  })

  it('tells of each refusal once, with the values of both sides', async () => {
    const told: LeaseError[] = []
    const guard = new ActionGuard({ log: (error) => told.push(error) })
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    const foreign = action({ ...NEW })
    for (let i = 0; i < 3; i += 1) {
      codeOf(() => guard.validate(foreign))
      await guard.process(foreign, () => 0).catch(() => undefined)
    }
    expect(told).toHaveLength(1)
    expect(told[0]?.details).toMatchObject({
      ...{ workflow_id: 'w', action_id: foreign.actionId },
      ...{ expected: OLD.leaseId, received: NEW.leaseId, expected_fence: 10, received_fence: 20 },
    })
  })

  it.each([
    [async () => new ActionGuard({ strikt: true } as object), 'options must be among'],
    [() => new ActionGuard().setLease('', OLD.leaseId, 1), 'workflowId must be 1..1000 bytes'],
    [() => new ActionGuard().setLease('w', 'x', 1), 'leaseId must be a UUID, got "x"'],
    [() => new ActionGuard().setLease('w', OLD.leaseId, 0.5), 'fence must be an integer'],
    [
      () => new ActionGuard().setLease('w', OLD.leaseId, 1, { epoch: -1 }),
      'epoch must be an integer 0..',
    ],
  ])('refuses nonsense', async (call, message) => {
    await expect(call()).rejects.toThrow(message)
  })
})

describe('a guard on a bus', () => {
  it('takes a refusal for an answer, waits for what is missing, and gives up on what fails', async () => {
    const bus = new LocalBus({ retryAfterMs: 1, deliveriesMax: 3 })
    const guard = new ActionGuard({ strict: true })
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    const done: number[] = []
    await guard.subscribe(bus, 'compute', (_, { action: { epoch, actionType } }) => {
      if (actionType === 'BROKEN') throw new Error('broken')
      done.push(epoch)
    })
    const [first, second] = [action({ epoch: 0 }), action({ epoch: 1, previousEpoch: 0 })]
    await bus.publish([second, first, first, action({ ...NEW, epoch: 2 })])
    await bus.publish([action({ epoch: 3, previousEpoch: 1, actionType: 'BROKEN' })])
    bus.send('compute', 'nonsense')
    await bus.idle()
    expect(done).toEqual([0, 1])
    expect(bus.deadLetters.map(({ reason }) => reason)).toEqual([
      'DECODE_ERROR: message must be JSON, got "nonsense"',
      'broken',
    ])
  })
})
