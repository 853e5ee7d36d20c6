import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { pause } from '../../src/runtime/pause.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { readAction, type Action } from '../../src/workflow/action.ts'
import { ActionGuard, LocalBus } from '../../src/workflow/index.ts'

const LEASE = { leaseId: randomUUID(), fence: 10 }

function action(epoch: number, change: Partial<Action> = {}): Action {
  return readAction({
    ...{ actionId: randomUUID(), actionType: 'A', target: 'compute', payload: { n: epoch } },
    ...{ workflowId: 'w', ...LEASE, epoch, previousEpoch: null, priority: 5, issuedAtMs: 1 },
    ...change,
  })
}

function newStage() {
  const runtime = new FakeRuntime()
  const bus = new LocalBus({ runtime, deliveriesMax: 3, retryAfterMs: 100 })
  const idle = async (): Promise<void> => {
    const done = bus.idle()
    await runtime.advance(10_000)
    await done
  }
  return { bus, runtime, idle }
}

describe('a bus within a process', () => {
  it('lets nothing of a workflow pass an action that failed, and others go on', async () => {
    const { bus, idle } = newStage()
    const done: string[] = []
    let failures = 0
    await bus.subscribe('compute', {
      onAction: ({ workflowId, epoch }) => {
        if (workflowId === 'w' && epoch === 1 && failures++ < 2) throw new Error('not yet')
        done.push(`${workflowId}${epoch}`)
      },
    })
    await bus.publish([0, 1, 2, 3].map((epoch) => action(epoch)))
    await bus.publish([action(0, { workflowId: 'v' })])
    await idle()
    expect(done).toEqual(['w0', 'v0', 'w1', 'w2', 'w3'])
  })

  it('goes on with what waited behind an action that became a dead letter', async () => {
    const { bus, idle } = newStage()
    const done: number[] = []
    await bus.subscribe('compute', {
      onAction: ({ epoch }) => {
        if (epoch === 0) throw new Error('never')
        done.push(epoch)
      },
    })
    await bus.publish([0, 1, 2].map((epoch) => action(epoch)))
    await idle()
    expect(done).toEqual([1, 2])
    expect(bus.deadLetters.map(({ reason }) => reason)).toEqual(['never'])
  })

  it('keeps a lenient guard from losing an action whose effect failed once', async () => {
    const { bus, idle } = newStage()
    const guard = new ActionGuard()
    await guard.setLease('w', LEASE.leaseId, LEASE.fence)
    const done: number[] = []
    let failed = false
    await guard.subscribe(bus, 'compute', (_, context) => {
      const { epoch } = context.action
      if (epoch === 1 && !failed) {
        failed = true
        throw new Error('once')
      }
      done.push(epoch)
    })
    await bus.publish([0, 1, 2, 3].map((epoch) => action(epoch)))
    await idle()
    expect(done).toEqual([0, 1, 2, 3])
  })

  it('lets what is missing pass an action that came too early', async () => {
    const { bus, idle } = newStage()
    const done: number[] = []
    await bus.subscribe('compute', {
      onAction: ({ epoch }) => {
        if (epoch === 2 && !done.includes(1)) throw new LeaseError('FUTURE_EPOCH', 'too early')
        done.push(epoch)
      },
    })
    await bus.publish([action(0), action(2), action(1)])
    await idle()
    expect(done).toEqual([0, 1, 2])
  })

  it('gives an action that failed its next turn however much else there is to do', async () => {
    const { bus, runtime, idle } = newStage()
    const done: string[] = []
    let failures = 0
    await bus.subscribe('compute', {
      onAction: async ({ workflowId, epoch }) => {
        if (workflowId === 'w' && failures++ === 0) throw new Error('not yet')
        await pause(runtime, 10, { keepAlive: true })
        done.push(`${workflowId}${epoch}`)
      },
    })
    await bus.publish([action(0)])
    const others = Array.from({ length: 100 }, (_, epoch) => action(epoch, { workflowId: 'v' }))
    await bus.publish(others)
    await idle()
    expect(done.indexOf('w0')).toBeLessThan(20)
  })

  it('tells all targets of a revocation, also when one of them is full', async () => {
    const { bus, idle } = newStage()
    for (let n = 0; n < 100_000; n += 1) bus.send('stalled', 'not an action')
    const revoked: string[] = []
    await bus.subscribe('compute', {
      onAction: () => undefined,
      onRevoked: ({ workflowId }) => revoked.push(workflowId),
    })
    await bus.announce({ workflowId: 'w', ...LEASE, reason: null, revokedAtMs: 1 })
    await idle()
    expect(revoked).toEqual(['w'])
    await expect(bus.publish([action(0, { target: '*' })])).rejects.toThrow('may wait for stalled')
  })

  it('does not throw into the void when it is full and something is due again', async () => {
    const { bus, runtime, idle } = newStage()
    let failures = 0
    const subscription = await bus.subscribe('compute', {
      onAction: ({ epoch }) => {
        if (epoch === 0 && failures++ === 0) throw new Error('once')
      },
    })
    await bus.publish([action(0)])
    await runtime.advance(1)
    await subscription.close()
    const text = 'not an action'
    for (let n = 0; n < 99_999; n += 1) bus.send('compute', text)
    expect(() => bus.send('compute', text)).toThrow('at most 100000 actions may wait')
    await runtime.advance(1_000)
    await bus.subscribe('compute', { onAction: () => undefined })
    await idle()
    expect(bus.deadLetters).toHaveLength(1_000)
  })
})
