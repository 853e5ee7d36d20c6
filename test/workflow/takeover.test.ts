/** How a workflow goes from one orchestrator to the next: what the next one knows, and what nobody may slip in between. */
import { describe, expect, it } from 'vitest'
import type { Action, Bus, Orchestrator } from '../../src/workflow/index.ts'
import {
  ActionGuard,
  claimWorkflow,
  currentLease,
  formatAction,
  LocalBus,
  parseAction,
} from '../../src/workflow/index.ts'
import type { HistoryOptions } from '../../src/client/options.ts'
import { failWith, newClient, newWorld, type Fault, type TestClient } from '../client/harness.ts'
import { codeOf } from './code-of.ts'

const TO = { target: 'compute' } as const

function newStage() {
  const world = newWorld()
  const { runtime } = world
  const published: Action[] = []
  const trouble = { publish: async (): Promise<void> => undefined }
  const bus: Bus = {
    publish: async (actions) => {
      await trouble.publish()
      published.push(...actions)
    },
    announce: async () => undefined,
    subscribe: async () => Promise.reject(new Error('nobody listens')),
  }
  const claimFor = (client: TestClient, options: Record<string, unknown> = {}) => {
    const all = { bus, runtime, ttlMs: 10_000, ...options }
    return claimWorkflow(client.tenure, 'order-991', all)
  }
  const claim = (holder: string, options: Record<string, unknown> = {}): Promise<Orchestrator> => {
    return claimFor(newClient(world, holder), options)
  }
  return { world, published, trouble, claim, claimFor }
}

describe('the state of a workflow', () => {
  it('is known to whoever takes it over after a crash', async () => {
    const { claim, world } = newStage()
    const one = await claim('one', { renewBelowMs: 0 })
    expect(one.state).toBe('initialized')
    await one.advance('processing')
    await one.emit('A', {}, TO)
    await world.runtime.advance(10_001)
    const two = await claim('two', { renewBelowMs: 0 })
    expect([two.state, two.epoch]).toEqual(['processing', 2])
    await world.runtime.advance(10_001)
    const three = await claim('three')
    expect(three.state).toBe('processing')
    await three.emit('B', {}, TO)
    await three.complete()
    expect((await claim('four')).state).toBe('processing')
  })

  it('is the last of those that one commit has noted, and goes along with a handoff', async () => {
    const { claim } = newStage()
    const one = await claim('one')
    await Promise.all([one.advance('a'), one.emit('A', {}, TO), one.advance('b')])
    expect(one.state).toBe('b')
    await one.handoff('two')
    expect((await claim('two')).state).toBe('b')
  })

  it('has changed although the bus did not take what shared its commit', async () => {
    const { claim, trouble } = newStage()
    const one = await claim('one')
    trouble.publish = () => Promise.reject(new Error('the bus is away'))
    const emission = one.emit('A', {}, TO)
    await Promise.all([one.advance('a'), expect(emission).rejects.toThrow('the bus is away')])
    expect(one.state).toBe('a')
  })

  it('may be told by whoever knows better', async () => {
    const { claim } = newStage()
    const one = await claim('one')
    await one.advance('a')
    await one.complete()
    expect((await claim('two', { state: 'z' })).state).toBe('z')
  })

  it('is waited for where the ledger tells of it later than of what was before', async () => {
    const { claim, claimFor, world } = newStage()
    const one = await claim('one')
    await one.advance('a')
    await one.advance('b')
    await one.complete()
    const client = newClient(world, 'two')
    const before = await client.tenure.history({ types: ['lease.advanced'], limit: 1 })
    const endsBefore: Fault = async (_, [question]) =>
      (question as HistoryOptions).types?.[0] === 'lease.advanced' ? before : []
    client.faults.when('history', endsBefore)
    const claiming = claimFor(client)
    await world.runtime.advance(1_000)
    client.faults.heal('history')
    await world.runtime.advance(1_000)
    expect((await claiming).state).toBe('b')
    await (await claiming).complete()
    client.faults.when('history', endsBefore)
    const failed = codeOf(claimFor(client))
    await world.runtime.advance(10_000)
    expect(await failed).toBe('STORE_UNAVAILABLE')
    expect((await client.tenure.inspect('workflow:order-991')).leases).toEqual([])
  })

  it('is not waited for where no history is kept', async () => {
    const { claim, world } = newStage()
    const { tenure } = newClient(world, 'operator')
    await tenure.config.set('keep_history', false)
    const one = await claim('one')
    await one.advance('a')
    await one.complete()
    const two = await claim('two')
    expect([two.state, two.epoch]).toEqual(['initialized', 1])
  })

  it('is nobody’s when it cannot be read: the lease is given back', async () => {
    const { claim, claimFor, world } = newStage()
    const one = await claim('one')
    await one.advance('a')
    await one.complete()
    const client = newClient(world, 'two')
    client.faults.when('history', failWith('STORE_UNAVAILABLE'))
    expect(await codeOf(claimFor(client))).toBe('STORE_UNAVAILABLE')
    expect((await claim('three')).state).toBe('a')
  })
})

describe('a handoff', () => {
  it('is the last word: what is emitted meanwhile is refused, and never passes the announcement', async () => {
    const { claim, published } = newStage()
    const one = await claim('one')
    const before = one.emit('A', {}, TO)
    const handoff = one.handoff('two')
    const meanwhile = [one.emit('B', {}, TO), one.advance('late')]
    await Promise.all([before, handoff])
    expect(await Promise.all(meanwhile.map(codeOf))).toEqual(['LEASE_LOST', 'LEASE_LOST'])
    expect(published.map(({ actionType }) => actionType)).toEqual(['A', 'LEASE_TRANSFER'])
    expect(published.map(({ epoch }) => epoch)).toEqual([0, 1])
  })

  it('that fails leaves the workflow with its holder, who goes on renewing it', async () => {
    const { claimFor, world } = newStage()
    const client = newClient(world, 'one')
    const one = await claimFor(client)
    expect(await codeOf(one.handoff('one'))).toBe('INVALID_INPUT')
    expect(one.epoch).toBe(0)
    client.faults.when('transfer', failWith('STORE_UNAVAILABLE'))
    const failed = codeOf(one.handoff('two'))
    await world.runtime.advance(10_000)
    expect(await failed).toBe('STORE_UNAVAILABLE')
    await world.runtime.advance(60_000)
    expect(one.signal.aborted).toBe(false)
    expect((await one.emit('A', {}, TO)).epoch).toBe(1)
  })

  it('says what the receiver has when the bus does not take the announcement', async () => {
    const { claim, trouble } = newStage()
    const one = await claim('one')
    trouble.publish = () => Promise.reject(new Error('the bus is away'))
    const error = await one.handoff('two').catch((thrown: unknown) => thrown)
    const two = await claim('two')
    const { leaseId, fence, epoch } = two
    expect(error).toMatchObject({ effect: 'unknown', details: { leaseId, fence, epoch } })
  })

  it('says that it may have happened when the lease of the receiver cannot be read', async () => {
    const { claim, claimFor, world } = newStage()
    const client = newClient(world, 'one')
    const one = await claimFor(client, { ttlMs: 60_000 })
    client.faults.when('get', failWith('STORE_UNAVAILABLE'))
    const failed = one.handoff('two').catch((thrown: unknown) => thrown)
    await world.runtime.advance(20_000)
    const { leaseId, epoch } = await claim('two')
    expect(await failed).toMatchObject({ effect: 'unknown', details: { leaseId, epoch } })
  })

  it('keeps the TTL, by which the receiver renews, not by the one that it asked for', async () => {
    const { claim, world } = newStage()
    const one = await claim('one', { ttlMs: 3_000 })
    await one.handoff('two')
    const client = newClient(world, 'look')
    const two = await claim('two', { ttlMs: 300_000 })
    await world.runtime.advance(10_000)
    const renewals = (await client.tenure.get(two.leaseId))?.renewals ?? 0
    expect(renewals).toBeGreaterThanOrEqual(4)
    expect(renewals).toBeLessThanOrEqual(6)
  })

  it('can be read by the processors, however many targets were sent to', async () => {
    const { claim, published } = newStage()
    const one = await claim('one')
    const targets = Array.from({ length: 1_000 }, (_, n) => String(n).padStart(256, 't'))
    await Promise.all(targets.map((target) => one.emit('A', {}, { target })))
    await one.handoff('two')
    const announcement = published.at(-1) as Action
    expect(parseAction(formatAction(announcement))).toEqual(announcement)
  })

  it('tells a strict guard of a gap before it, as every action does', async () => {
    const { claim, published } = newStage()
    const one = await claim('one')
    const guard = new ActionGuard({ strict: true })
    await guard.setLease('order-991', one.leaseId, one.fence)
    await guard.process(await one.emit('A', {}, TO), () => 'done')
    const lost = await one.emit('B', {}, TO)
    await one.emit('C', {}, { target: 'effect' })
    await one.handoff('two')
    const announcement = published.at(-1) as Action
    const refused = guard.process(announcement, () => 'never')
    await expect(refused).rejects.toMatchObject({
      code: 'FUTURE_EPOCH',
      details: { missing: { after: 0, through: 1 } },
    })
    await guard.process(lost, () => 'done')
    await guard.process(announcement, () => 'never')
  })
})

describe('an orchestrator', () => {
  it('does not wait for a bus beyond the end of its lease', async () => {
    const { claim, trouble, world } = newStage()
    const one = await claim('one', { renewBelowMs: 0 })
    trouble.publish = () => new Promise(() => undefined)
    const emission = codeOf(one.emit('A', {}, TO))
    const completion = codeOf(one.complete())
    await world.runtime.advance(10_001)
    expect(await emission).toBe('STORE_OUTCOME_UNKNOWN')
    expect(await completion).toBe('LEASE_EXPIRED')
  })

  it('cannot emit what is announced', async () => {
    const { claim } = newStage()
    const one = await claim('one')
    await expect(one.emit('LEASE_TRANSFER', {}, TO)).rejects.toThrow('actionType must not be')
    await expect(one.emit('LEASE_REVOKED', {}, TO)).rejects.toThrow('actionType must not be')
  })

  it('has a limit for targets', async () => {
    const { claim } = newStage()
    const one = await claim('one')
    const targets = Array.from({ length: 1_000 }, (_, n) => ({ target: `t${n}` }))
    await Promise.all(targets.map((target) => one.emit('A', {}, target)))
    expect(await codeOf(one.emit('A', {}, { target: 'one more' }))).toBe('LIMIT_EXCEEDED')
    expect(await codeOf(one.emit('A', {}, { target: 't1' }))).toBe('no error')
  })
})

describe('a guard that asks the store', () => {
  it('carries out what was emitted before its workflow was completed', async () => {
    const { claim, world } = newStage()
    const { tenure } = newClient(world, 'processor')
    const one = await claim('one')
    const action = await one.emit('A', {}, TO)
    await one.complete()
    const guard = new ActionGuard({ lookUp: currentLease(tenure) })
    expect(await guard.process(action, () => 'done')).toBe('done')
  })

  it('does not take the word of a lease that ran out, was revoked, or is of another workflow', async () => {
    const { claim, world } = newStage()
    const { tenure } = newClient(world, 'processor')
    const one = await claim('one', { renewBelowMs: 0 })
    const expired = await one.emit('A', {}, TO)
    await world.runtime.advance(10_001)
    const two = await claim('two')
    const revoked = await two.emit('A', {}, TO)
    await tenure.revoke(two.leaseId, { reason: 'stuck' })
    const bus = new LocalBus({ runtime: world.runtime })
    const other = await claimWorkflow(tenure, 'other', { bus, runtime: world.runtime })
    const foreign = { ...(await other.emit('A', {}, TO)), workflowId: 'order-991' }
    await other.complete()
    for (const action of [expired, revoked, foreign]) {
      const guard = new ActionGuard({ lookUp: currentLease(tenure) })
      expect(await codeOf(guard.process(action, () => 'never'))).toBe('LEASE_VIOLATION')
    }
  })
})
