import { describe, expect, it } from 'vitest'
import { generateSigningKey, LeaseSigner } from '../../src/delegation/index.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import type { LeaseError } from '../../src/core/errors.ts'
import {
  ActionGuard,
  claimWorkflow,
  formatAction,
  grantedLease,
  LocalBus,
  parseAction,
  type Action,
  type Bus,
  type Orchestrator,
} from '../../src/workflow/index.ts'
import { newClient, newWorld } from '../client/harness.ts'
import { verifier } from '../registrar/grants.ts'
import { codeOf } from './code-of.ts'

const KEY = generateSigningKey()
const TO = { target: 'compute' } as const

function newStage() {
  const world = newWorld()
  const { runtime } = world
  const claim = (
    holder: string,
    workflowId = 'w',
    bus: Bus = new LocalBus({ runtime }),
  ): Promise<Orchestrator> => {
    const { tenure } = newClient(world, holder, { signer: LeaseSigner.of(KEY) })
    return claimWorkflow(tenure, workflowId, { bus, runtime, ttlMs: 10_000, signed: true })
  }
  const newGuard = (options: { readonly log?: (error: LeaseError) => void } = {}) => {
    return new ActionGuard({ lookUp: grantedLease([verifier(KEY)], { runtime }), ...options })
  }
  return { world, claim, newGuard }
}

describe('an action with a signed grant', () => {
  it('tells a guard of its lease, over the wire and without a store', async () => {
    const { claim, newGuard } = newStage()
    const one = await claim('one')
    const guard = newGuard()
    const sent = parseAction(formatAction(await one.emit('A', {}, TO)))
    expect(sent.grant).toMatch(/^tenure-grant\.1\./)
    expect(await guard.process(sent, () => 'done')).toBe('done')
    await one.complete()
    const two = await claim('two')
    expect(await guard.process(await two.emit('B', {}, TO), () => 'done')).toBe('done')
  })

  it('does not bring back a lease with a lower fence', async () => {
    const { claim, newGuard } = newStage()
    const one = await claim('one')
    const late = await one.emit('A', {}, TO)
    await one.complete()
    const two = await claim('two')
    const guard = newGuard()
    await guard.process(await two.emit('B', {}, TO), () => 'done')
    expect(await codeOf(guard.process(late, () => 'late'))).toBe('LEASE_VIOLATION')
  })

  it('is refused for good, and logged once, when the grant is not its own or not genuine', async () => {
    const { claim, newGuard } = newStage()
    const action = await (await claim('one')).emit('A', {}, TO)
    const other = await (await claim('one', 'other')).emit('A', {}, TO)
    const stranger = generateSigningKey()
    const cases: [Partial<Action>, unknown][] = [
      [{ grant: other.grant as string }, 'LEASE_VIOLATION'],
      [{ fence: action.fence + 1 }, 'LEASE_VIOLATION'],
      [{ leaseId: other.leaseId }, 'LEASE_VIOLATION'],
      [{ grant: 'tenure-grant.1.AAAA' }, 'DECODE_ERROR'],
    ]
    for (const [change, code] of cases) {
      const logged: LeaseError[] = []
      const guard = newGuard({ log: (error) => logged.push(error) })
      const forged = { ...action, ...change }
      expect(await codeOf(guard.process(forged, () => 'never'))).toBe(code)
      expect(await codeOf(guard.process(forged, () => 'never'))).toBe(code)
      expect(logged.map((error) => error.code)).toEqual([code])
    }
    const keys = [verifier(stranger)]
    const wary = new ActionGuard({ lookUp: grantedLease(keys) })
    expect(await codeOf(wary.process(action, () => 'never'))).toBe('INVALID_SIGNATURE')
  })

  it('is refused without its grant, and with one that has expired', async () => {
    const { claim, newGuard, world } = newStage()
    const action = await (await claim('one')).emit('A', {}, TO)
    const { grant: _, ...bare } = action
    expect(await codeOf(newGuard().process(bare, () => 'never'))).toBe('LEASE_VIOLATION')
    await world.runtime.advance(10_001)
    expect(await codeOf(newGuard().process(action, () => 'never'))).toBe('LEASE_EXPIRED')
  })

  it('has a grant that was signed again after the renewal', async () => {
    const { claim, newGuard, world } = newStage()
    const one = await claim('one')
    const before = await one.emit('A', {}, TO)
    await world.runtime.advance(15_000)
    const after = await one.emit('B', {}, TO)
    expect(after.grant).not.toBe(before.grant)
    expect(await newGuard().process(after, () => 'done')).toBe('done')
  })

  it('announces a handoff to processors without a store, and the receiver goes on', async () => {
    const { claim, newGuard, world } = newStage()
    const bus = new LocalBus({ runtime: world.runtime })
    const done: Action[] = []
    await newGuard().subscribe(bus, 'compute', (_, { action }) => done.push(action))
    const one = await claim('one', 'w', bus)
    const { leaseId, epoch } = await one.handoff('two')
    const two = await claim('two', 'w', bus)
    const sent = await two.emit('A', {}, TO)
    await bus.idle()
    expect([sent.leaseId, sent.epoch]).toEqual([leaseId, epoch])
    expect(done.map(({ actionId }) => actionId)).toEqual([sent.actionId])
  })

  it('cannot be had from a client without a key: the claim is given back', async () => {
    const { world, claim } = newStage()
    const { tenure } = newClient(world, 'one')
    const { runtime } = world
    const bus = new LocalBus({ runtime })
    const claiming = claimWorkflow(tenure, 'w', { bus, runtime, signed: true })
    await expect(claiming).rejects.toMatchObject({ code: 'MISSING_SIGNATURE' })
    const info = await tenure.inspect('workflow:w')
    expect(info.leases satisfies readonly LeaseInfo[]).toEqual([])
    await claim('two')
  })
})
