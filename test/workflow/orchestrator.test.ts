import { describe, expect, it } from 'vitest'
import type { Action, Bus, Orchestrator } from '../../src/workflow/index.ts'
import { ActionGuard, claimWorkflow, currentLease, LocalBus } from '../../src/workflow/index.ts'
import { relayRevocations } from '../../src/workflow/revocations.ts'
import {
  failWith,
  first,
  hang,
  loseAnswer,
  newClient,
  newWorld,
  type World,
} from '../client/harness.ts'
import { codeOf } from './code-of.ts'

interface Stage {
  readonly world: World
  readonly bus: RecordingBus
  claim(holder: string, options?: Record<string, unknown>): Promise<Orchestrator>
}

/** Takes everything, and remembers it. */
class RecordingBus implements Bus {
  readonly published: Action[] = []
  readonly batches: number[] = []
  failing = 0

  async publish(actions: readonly Action[]): Promise<void> {
    if (this.failing > 0) {
      this.failing -= 1
      throw new Error('the bus is away')
    }
    this.batches.push(actions.length)
    this.published.push(...actions)
  }

  async announce(): Promise<void> {}

  async subscribe(): Promise<never> {
    throw new Error('nobody listens')
  }
}

function newStage(): Stage {
  const world = newWorld()
  const bus = new RecordingBus()
  const { runtime } = world
  const claim: Stage['claim'] = (holder, options = {}) => {
    const { tenure } = newClient(world, holder)
    return claimWorkflow(tenure, 'order-991', { bus, runtime, ttlMs: 10_000, ...options })
  }
  return { world, bus, claim }
}

const TO = { target: 'compute' } as const

describe('an orchestrator', () => {
  it('is the only one of its workflow', async () => {
    const { claim } = newStage()
    await claim('one')
    expect(await codeOf(claim('two'))).toBe('RESOURCE_HELD')
  })

  it('numbers what it sends and what it changes, each with an epoch of its own', async () => {
    const { claim, bus } = newStage()
    const orchestrator = await claim('one')
    const first = await orchestrator.emit('A', { n: 1 }, TO)
    await orchestrator.advance('processing')
    const second = await orchestrator.emit('B', null, { target: 'effect', priority: 9 })
    const third = await orchestrator.emit('C', 'x', TO)
    expect([first, second, third].map(({ epoch }) => epoch)).toEqual([0, 2, 3])
    expect([first, second, third].map(({ previousEpoch }) => previousEpoch)).toEqual([
      null,
      null,
      0,
    ])
    expect([first.priority, second.priority]).toEqual([5, 9])
    expect(bus.published).toEqual([first, second, third])
    expect(orchestrator.epoch).toBe(4)
  })

  it('uses one commit for what is in flight at once, in the order in which it was asked for', async () => {
    const { claim, bus, world } = newStage()
    const orchestrator = await claim('one')
    const sent = await Promise.all(
      Array.from({ length: 100 }, (_, n) => orchestrator.emit('A', { n }, TO)),
    )
    expect(sent.map(({ epoch }) => epoch)).toEqual(Array.from({ length: 100 }, (_, n) => n))
    expect(bus.published.map(({ payload }) => (payload as { n: number }).n)).toEqual(
      sent.map(({ epoch }) => epoch),
    )
    expect(bus.batches).toEqual([100])
    const { events } = await ledger(world)
    expect(events.filter((type) => type === 'lease.advanced')).toHaveLength(1)
  })

  it('sends a payload as it was when it was asked to', async () => {
    const { claim } = newStage()
    const orchestrator = await claim('one')
    const payload = { list: [1] }
    const emission = orchestrator.emit('A', payload, TO)
    payload.list.push(2)
    expect((await emission).payload).toEqual({ list: [1] })
  })

  it('renews itself when little is left, however long the workflow takes', async () => {
    const { claim, world } = newStage()
    const orchestrator = await claim('one', { ttlMs: 300_000 })
    await world.runtime.advance(236_000)
    expect((await ledger(world)).events).toEqual(['lease.issued'])
    await world.runtime.advance(2_000)
    expect((await ledger(world)).events).toEqual(['lease.issued', 'lease.renewed'])
    await world.runtime.advance(3_600_000)
    expect(orchestrator.signal.aborted).toBe(false)
  })

  it('renews itself soon after its host slept, if little is left then', async () => {
    const { claim, world } = newStage()
    const orchestrator = await claim('one', { ttlMs: 300_000 })
    await world.runtime.advance(10_000)
    world.runtime.suspend(250_000)
    await world.runtime.advance(2_000)
    expect(orchestrator.remainingMs).toBeGreaterThan(290_000)
  })

  it('goes on trying to renew while the store is away', async () => {
    const { world, bus } = newStage()
    const { tenure, faults } = newClient(world, 'one')
    const { runtime } = world
    const orchestrator = await claimWorkflow(tenure, 'w', { bus, runtime, ttlMs: 10_000 })
    faults.when('renew', failWith('STORE_UNAVAILABLE'))
    await runtime.advance(8_000)
    faults.heal('renew')
    await runtime.advance(20_000)
    expect(orchestrator.signal.aborted).toBe(false)
    expect(await codeOf(orchestrator.emit('A', {}, TO))).toBe('no error')
  })

  it.each([
    ['expired', 'LEASE_EXPIRED'],
    ['revoked', 'LEASE_LOST'],
    ['given up', 'LEASE_TERMINAL'],
  ])('publishes nothing once its lease is %s', async (how, code) => {
    const { claim, bus, world } = newStage()
    const orchestrator = await claim('one', { renewBelowMs: 0 })
    if (how === 'expired') await world.runtime.advance(11_000)
    if (how === 'given up') await orchestrator.complete()
    if (how === 'revoked') {
      await newClient(world, 'ops').tenure.revoke(orchestrator.leaseId, { reason: 'stuck' })
      await world.runtime.advance(1_000)
      expect(orchestrator.signal.reason).toMatchObject({
        details: {
          reason: 'revoked',
          revokedBy: 'ops',
          revokedFor: 'stuck',
          revokedAtMs: expect.any(Number) as number,
        },
      })
    }
    expect(await codeOf(orchestrator.emit('A', {}, TO))).toBe(code)
    expect(await codeOf(orchestrator.advance('x'))).toBe(code)
    expect(bus.published).toEqual([])
  })

  it('publishes nothing when its lease is lost while the epoch is being written', async () => {
    const { world, bus } = newStage()
    const { tenure, faults } = newClient(world, 'one')
    const { runtime } = world
    const options = { bus, runtime, ttlMs: 1_000, renewBelowMs: 0 }
    const orchestrator = await claimWorkflow(tenure, 'w', options)
    faults.when('advance', hang)
    const emission = codeOf(orchestrator.emit('A', {}, TO))
    await runtime.advance(2_000)
    expect(await emission).toBe('LEASE_EXPIRED')
    expect(bus.published).toEqual([])
  })

  it('uses an epoch once although the answer that gave it was lost', async () => {
    const { world, bus } = newStage()
    const { tenure, faults } = newClient(world, 'one')
    const { runtime } = world
    const orchestrator = await claimWorkflow(tenure, 'w', { bus, runtime })
    faults.when('advance', first(1, loseAnswer))
    const emission = orchestrator.emit('A', {}, TO)
    await runtime.advance(1_000)
    expect((await emission).epoch).toBe(0)
    expect((await orchestrator.emit('B', {}, TO)).epoch).toBe(1)
  })

  it('skips epochs of which nobody knows what became of them, and goes on', async () => {
    const { world, bus } = newStage()
    const { tenure, faults } = newClient(world, 'one')
    const { runtime } = world
    const orchestrator = await claimWorkflow(tenure, 'w', { bus, runtime })
    faults.when('advance', loseAnswer)
    const emission = codeOf(orchestrator.emit('A', {}, TO))
    await runtime.advance(10_000)
    expect(await emission).toBe('STORE_OUTCOME_UNKNOWN')
    faults.heal('advance')
    const next = await orchestrator.emit('B', {}, TO)
    expect([next.epoch, next.previousEpoch]).toEqual([1, null])
    expect(bus.published).toEqual([next])
  })

  it('does not name an action that never reached the bus as the one before', async () => {
    const { claim, bus } = newStage()
    const orchestrator = await claim('one')
    const a = await orchestrator.emit('A', {}, TO)
    bus.failing = 1
    await expect(orchestrator.emit('B', {}, TO)).rejects.toThrow('the bus is away')
    const c = await orchestrator.emit('C', {}, TO)
    expect([a.epoch, c.epoch, c.previousEpoch]).toEqual([0, 2, 0])
  })

  it('that takes over after a crash goes on where the epoch had come to', async () => {
    const { claim, world } = newStage()
    const crashed = await claim('one', { renewBelowMs: 0 })
    await crashed.emit('A', {}, TO)
    await crashed.emit('B', {}, TO)
    await world.runtime.advance(10_001)
    const next = await claim('two')
    expect(next.epoch).toBe(2)
    expect(next.fence).toBeGreaterThan(crashed.fence)
    const action = await next.emit('C', {}, TO)
    expect([action.epoch, action.previousEpoch]).toEqual([2, null])
  })

  it.each([
    [{ bus: undefined }, 'bus must be a bus, got undefined'],
    [{ ttlMs: -5 }, 'ttlMs must be an integer 1..2592000000, got -5'],
    [{ ttlMs: 1_000, renewBelowMs: 1_000 }, 'renewBelowMs must be an integer 0..999, got 1000'],
    [{ tll: 1 }, 'options must be among'],
  ])('is not claimed with %o', async (options, message) => {
    const { claim } = newStage()
    await expect(claim('one', options)).rejects.toThrow(message)
  })

  it('refuses to send what no action can be, and uses no epoch for it', async () => {
    const { claim } = newStage()
    const orchestrator = await claim('one')
    const circular: { self?: unknown } = {}
    circular.self = circular
    await expect(orchestrator.emit('A', circular, TO)).rejects.toThrow('payload must be JSON')
    await expect(orchestrator.emit('', {}, TO)).rejects.toThrow('actionType must be 1..256 bytes')
    const bad = { target: 'x', priority: 11 }
    await expect(orchestrator.emit('A', {}, bad)).rejects.toThrow(
      'priority must be an integer 1..10',
    )
    const wrong = { target: 7 } as unknown as { target: string }
    await expect(orchestrator.emit('A', {}, wrong)).rejects.toThrow('target must be text')
    expect(orchestrator.epoch).toBe(0)
  })
})

describe('a handoff', () => {
  it('is one commit, announced under the old lease; the receiver goes on after it', async () => {
    const { claim, bus, world } = newStage()
    const one = await claim('one')
    await one.emit('A', {}, TO)
    const handoff = await one.handoff('two')
    const announcement = bus.published.at(-1)
    expect(announcement).toMatchObject({
      ...{ actionType: 'LEASE_TRANSFER', target: '*', leaseId: one.leaseId, epoch: 1 },
      payload: {
        old_lease_id: one.leaseId,
        new_lease_id: handoff.leaseId,
        new_fence: handoff.fence,
        transfer_epoch: 1,
      },
    })
    const { events } = await ledger(world)
    expect(events.slice(-2)).toEqual(['lease.transferred', 'lease.issued'])
    expect(await codeOf(one.emit('B', {}, TO))).toBe('LEASE_LOST')
    const two = await claim('two')
    expect([two.leaseId, two.fence, two.epoch]).toEqual([handoff.leaseId, handoff.fence, 2])
    expect((await two.emit('B', {}, TO)).epoch).toBe(2)
  })

  it('leaves nobody else a moment to come in, and is refused to a name that is none', async () => {
    const { claim } = newStage()
    const one = await claim('one')
    await expect(one.handoff('')).rejects.toThrow('to must be 1..128 bytes')
    await one.handoff('two')
    expect(await codeOf(claim('three'))).toBe('RESOURCE_HELD')
  })

  it('is followed by a guard that hears of it', async () => {
    const { claim, bus } = newStage()
    const one = await claim('one')
    const guard = new ActionGuard({ strict: true })
    await guard.setLease('order-991', one.leaseId, one.fence)
    const late = await one.emit('A', {}, TO)
    await guard.process(late, () => 'done')
    await one.handoff('two')
    const announcement = bus.published.at(-1) as Action
    await guard.process(announcement, () => {
      throw new Error('an announcement is nothing to carry out')
    })
    const two = await claim('two')
    const next = await two.emit('B', {}, TO)
    expect(await guard.process(next, () => 'carried out')).toBe('carried out')
    expect(await codeOf(guard.process(late, () => 'late'))).toBe('LEASE_VIOLATION')
  })
})

describe('a revocation', () => {
  it('reaches the holder’s signal and, over the bus, the guards', async () => {
    const { world, claim } = newStage()
    const one = await claim('one')
    const bus = new LocalBus({ runtime: world.runtime })
    const guard = new ActionGuard()
    await guard.setLease('order-991', one.leaseId, one.fence)
    await guard.subscribe(bus, 'compute', () => 'done')
    const { tenure } = newClient(world, 'ops')
    const end = new AbortController()
    const relay = relayRevocations(tenure, bus, { signal: end.signal })
    await world.runtime.advance(1)
    const action = await one.emit('A', {}, TO)
    expect(guard.validate(action)).toBe(true)
    await tenure.revoke(one.leaseId, { reason: 'stuck' })
    await world.runtime.advance(1_000)
    await bus.idle()
    expect(one.signal.aborted).toBe(true)
    expect(() => guard.validate(action)).toThrow('its lease was revoked')
    end.abort()
    await world.runtime.advance(1_000)
    await relay
  })

  it('is relayed later when nobody relayed it at the time', async () => {
    const { world, claim } = newStage()
    const { tenure } = newClient(world, 'ops')
    const bus = new LocalBus({ runtime: world.runtime })
    const heard: (string | null)[] = []
    await bus.subscribe('compute', {
      onAction: () => undefined,
      onRevoked: ({ reason }) => void heard.push(reason),
    })
    const positions: string[] = []
    const relay = async (after?: string): Promise<void> => {
      const end = new AbortController()
      const from = after === undefined ? {} : { after }
      const options = { ...from, onRelayed: (position: string) => void positions.push(position) }
      const running = relayRevocations(tenure, bus, { signal: end.signal, ...options })
      await world.runtime.advance(1)
      await tenure.revoke((await claim('one')).leaseId, { reason: 'first' })
      await world.runtime.advance(1_000)
      end.abort()
      await world.runtime.advance(1_000)
      await running
    }
    await relay()
    await tenure.revoke((await claim('one')).leaseId, { reason: 'meanwhile' })
    await relay(positions.at(-1))
    expect(heard).toEqual(['first', 'meanwhile', 'first'])
  })
})

describe('a guard that may ask the store', () => {
  it('learns who took over, and is closed to whoever did not', async () => {
    const { claim, world } = newStage()
    const { tenure } = newClient(world, 'processor')
    const guard = new ActionGuard({ lookUp: currentLease(tenure) })
    const one = await claim('one', { renewBelowMs: 0 })
    const stale = await one.emit('A', {}, TO)
    expect(await guard.process(stale, () => 1)).toBe(1)
    const late = await one.emit('B', {}, TO)
    await world.runtime.advance(10_001)
    const two = await claim('two')
    expect(await guard.process(await two.emit('C', {}, TO), () => 2)).toBe(2)
    expect(await codeOf(guard.process(late, () => 3))).toBe('LEASE_VIOLATION')
  })
})

async function ledger(world: World): Promise<{ readonly events: readonly string[] }> {
  const entries = await world.store.history({ limit: 1_000 })
  return { events: entries.map(({ event }) => event.type) }
}
