/** One workflow, however its name is spelt in Unicode: with a composed é or with an e and an accent. */
import { describe, expect, it } from 'vitest'
import { generateSigningKey, LeaseSigner } from '../../src/delegation/index.ts'
import {
  ActionGuard,
  claimWorkflow,
  currentLease,
  grantedLease,
  LocalBus,
  type Action,
  type Orchestrator,
} from '../../src/workflow/index.ts'
import { relayRevocations } from '../../src/workflow/revocations.ts'
import { newClient, newWorld, type World } from '../client/harness.ts'
import { verifier } from '../registrar/grants.ts'
import { codeOf } from './code-of.ts'

const [COMPOSED, DECOMPOSED] = ['caf\u00e9', 'cafe\u0301']
const TO = { target: 'compute' } as const
const KEY = generateSigningKey()

function claim(world: World, holder: string, workflowId: string): Promise<Orchestrator> {
  const { runtime } = world
  const { tenure } = newClient(world, holder, { signer: LeaseSigner.of(KEY) })
  const bus = new LocalBus({ runtime })
  return claimWorkflow(tenure, workflowId, { bus, runtime, ttlMs: 10_000, signed: true })
}

describe.each([
  ['composed', COMPOSED],
  ['decomposed', DECOMPOSED],
])('a workflow with a %s name', (_spelling, id) => {
  it('is found by a guard that asks the store, and by one that asks its grant', async () => {
    const world = newWorld()
    const one = await claim(world, 'one', id)
    const { tenure } = newClient(world, 'processor')
    const byStore = new ActionGuard({ lookUp: currentLease(tenure) })
    const byGrant = new ActionGuard({
      lookUp: grantedLease([verifier(KEY)], { runtime: world.runtime }),
    })
    const action = await one.emit('A', {}, TO)
    expect(await byStore.process(action, () => 'done')).toBe('done')
    expect(await byGrant.process(action, () => 'done')).toBe('done')
    expect(await currentLease(tenure)(id, action)).toMatchObject({ leaseId: one.leaseId })
  })

  it('hears of its revocation', async () => {
    const world = newWorld()
    const one = await claim(world, 'one', id)
    const bus = new LocalBus({ runtime: world.runtime })
    const guard = new ActionGuard()
    await guard.setLease(id, one.leaseId, one.fence)
    await guard.subscribe(bus, 'compute', () => 'done')
    const { tenure } = newClient(world, 'ops')
    const end = new AbortController()
    const relay = relayRevocations(tenure, bus, { signal: end.signal })
    await world.runtime.advance(1)
    const action = await one.emit('A', {}, TO)
    await tenure.revoke(one.leaseId)
    await world.runtime.advance(1_000)
    await bus.idle()
    expect(await codeOf(guard.process(action, () => 'done'))).toBe('LEASE_VIOLATION')
    end.abort()
    await world.runtime.advance(1_000)
    await relay
  })

  it('is not open to an earlier orchestrator that spells it otherwise', async () => {
    const world = newWorld()
    const first = await claim(world, 'one', id === COMPOSED ? DECOMPOSED : COMPOSED)
    const stale: Action = await first.emit('A', {}, TO)
    await first.complete()
    const next = await claim(world, 'two', id)
    const guard = new ActionGuard()
    await guard.setLease(stale.workflowId, first.leaseId, first.fence)
    await guard.setLease(id, next.leaseId, next.fence)
    expect(await guard.process(await next.emit('B', {}, TO), () => 'done')).toBe('done')
    expect(await codeOf(guard.process(stale, () => 'done'))).toBe('LEASE_VIOLATION')
  })
})
