/** Every kind of handle that Tenure gives out, as it is, at a guard. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Lease } from '../../src/client/contract.ts'
import { isLeaseError } from '../../src/core/errors.ts'
import { generateSigningKey, LeaseSigner, verifyGrant } from '../../src/delegation/index.ts'
import { FileLeases } from '../../src/files/index.ts'
import { openLeaseManager, runFleet, type PollContext } from '../../src/fleet.ts'
import { guard, type GuardedLease, type MemoryGuard } from '../../src/guard/index.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { claimWorkflow, LocalBus } from '../../src/workflow/index.ts'
import { newClient, newWorld } from '../client/harness.ts'
import { granted, temporaryDirectory } from '../files/harness.ts'
import { fleetWorld } from '../fleet/harness.ts'
import { run, stop } from '../fleet/running.ts'
import { verifier } from '../registrar/grants.ts'
import { freshRedis } from '../servers/shared-servers.ts'

const world = newWorld()
const ann = newClient(world, 'ann').tenure
const bob = newClient(world, 'bob').tenure

let names = 0
function fresh(kind = 'work'): string {
  names += 1
  return kind === 'file' ? `file:/handles/${names}` : `${kind}:handles-${names}`
}

/** What a guard says to a write: `written`, or the code of its refusal. */
function writing(guarded: MemoryGuard, lease: GuardedLease, resource?: string): string {
  try {
    return guarded.write(lease, () => 'written', resource === undefined ? {} : { resource })
  } catch (error) {
    if (isLeaseError(error)) return error.code
    throw error
  }
}

describe('the handle of a client’s lease at a guard', () => {
  it('writes until a later holder has', async () => {
    const resource = fresh()
    const guarded = guard.memory()
    const first = await ann.acquire(resource)
    expect(writing(guarded, first)).toBe('written')
    await first.release()
    const later = await bob.acquire(resource)
    expect(writing(guarded, later)).toBe('written')
    expect(writing(guarded, first)).toBe('STALE_FENCE')
  })

  it('says what it covers, and with whom it shares', async () => {
    const guarded = guard.memory()
    const directory = fresh('file')
    const whole = await ann.acquire(directory, { extent: 'subtree' })
    expect(writing(guarded, whole, `${directory}/below`)).toBe('written')
    const seats = fresh()
    const [one, two] = [
      await ann.acquire(seats, { slots: 2 }),
      await bob.acquire(seats, { slots: 2 }),
    ]
    expect(writing(guarded, two)).toBe('written')
    expect(writing(guarded, one)).toBe('written')
  })
})

describe('the handle of a derived lease at a guard', () => {
  it('acts for its root, which is not shut out by what it derived', async () => {
    const guarded = guard.memory()
    const directory = fresh('file')
    const root = await ann.acquire(directory, { extent: 'subtree' })
    const child = await root.derive({ holder: 'cy', resource: `${directory}/part` })
    const grandchild = await child.derive({ holder: 'dee' })
    expect(writing(guarded, grandchild)).toBe('written')
    expect(writing(guarded, child)).toBe('written')
    expect(writing(guarded, root, `${directory}/part`)).toBe('written')
    expect(writing(guarded, child)).toBe('written')
    await root.release()
    const later = await bob.acquire(`${directory}/part`)
    expect(writing(guarded, later)).toBe('written')
    expect(writing(guarded, grandchild)).toBe('STALE_FENCE')
  })

  it('acts for its root as the store describes it, too', async () => {
    const guarded = guard.memory()
    const root = await ann.acquire(fresh())
    const child = await root.derive({ holder: 'cy' })
    const described = await bob.get(child.id)
    if (described === null) throw new Error('the child is not in the store')
    expect(writing(guarded, described)).toBe('written')
    expect(writing(guarded, root)).toBe('written')
  })

  it('shuts out an earlier sharer when its root has the resource to itself', async () => {
    const resource = fresh()
    const guarded = guard.memory()
    const earlier = await bob.acquire(resource, { mode: 'shared' })
    expect(writing(guarded, earlier)).toBe('written')
    await earlier.release()
    const root = await ann.acquire(resource)
    const child = await root.derive({ holder: 'cy' })
    expect(child.mode).toBe('shared')
    expect(writing(guarded, child)).toBe('written')
    expect(writing(guarded, earlier)).toBe('STALE_FENCE')
  })

  it('does not shut out those with whom its root shares', async () => {
    const resource = fresh()
    const guarded = guard.memory()
    const share = { mode: 'shared' } as const
    const before = await bob.acquire(resource, share)
    const root = await ann.acquire(resource, share)
    const after = await newClient(world, 'eve').tenure.acquire(resource, share)
    const child = await root.derive({ holder: 'cy' })
    for (const sharer of [after, child, before, root]) {
      expect(writing(guarded, sharer)).toBe('written')
    }
  })

  it('acts for its root by its signed grant, too', async () => {
    const key = generateSigningKey()
    const { tenure } = newClient(world, 'signing', { signer: LeaseSigner.of(key) })
    const resource = fresh()
    const guarded = guard.memory()
    const earlier = await bob.acquire(resource, { mode: 'shared' })
    await earlier.release()
    const root = await tenure.acquire(resource)
    const child: Lease = await root.derive({ holder: 'cy' })
    const now = Math.floor(world.runtime.wallMs())
    expect(writing(guarded, verifyGrant(child.grant, [verifier(key)], { now }))).toBe('written')
    expect(writing(guarded, root)).toBe('written')
    expect(writing(guarded, verifyGrant(root.grant, [verifier(key)], { now }))).toBe('written')
    expect(writing(guarded, earlier)).toBe('STALE_FENCE')
  })
})

describe('a file lease at a guard', () => {
  it('writes its file', async () => {
    const Driver = await loadSqlite()
    const database = new Driver(':memory:')
    const files = new FileLeases(world.service, { runtime: world.runtime })
    onTestFinished(async () => {
      database.close()
      await files.close()
    })
    const guarded = guard.file(database)
    guarded.init()
    const filePath = path.join(temporaryDirectory(), 'report.txt')
    const lease = granted(await files.acquireLease({ filePath, agentId: 'agent-1' }))
    guarded.write(lease, 'new')
    expect(fs.readFileSync(filePath, 'utf8')).toBe('new')
    const seen = await files.getLease(lease.id)
    if (seen === null) throw new Error('the lease is not in the store')
    guarded.write(seen, 'newer')
    expect(fs.readFileSync(filePath, 'utf8')).toBe('newer')
  })
})

describe('an orchestrator at a guard', () => {
  it('writes for its workflow until another has', async () => {
    const { runtime } = world
    const guarded = guard.memory()
    const claim = (tenure: typeof ann) => {
      return claimWorkflow(tenure, 'handles', { bus: new LocalBus({ runtime }), runtime })
    }
    const first = await claim(ann)
    expect(first).toMatchObject({ id: first.leaseId, resource: 'workflow:handles' })
    expect(writing(guarded, first)).toBe('written')
    await first.complete()
    const later = await claim(bob)
    expect(writing(guarded, later)).toBe('written')
    expect(writing(guarded, first)).toBe('STALE_FENCE')
  })
})

describe('a poller at a guard', () => {
  it('writes for its session until another has', async () => {
    const fleets = fleetWorld()
    const guarded = guard.memory()
    const contexts: PollContext[] = []
    const poll = (_session: string, context: PollContext): void => void contexts.push(context)
    const one = await run(fleets, ['s'], { poll })
    await fleets.runtime.advance(200)
    const [first] = contexts.splice(0)
    if (first === undefined) throw new Error('nothing was polled')
    expect(first.resource).toBe('session:s')
    expect(writing(guarded, first)).toBe('written')
    await stop(fleets, one)
    const two = await run(fleets, ['s'], { poll })
    await fleets.runtime.advance(200)
    const [later] = contexts
    if (later === undefined) throw new Error('nothing was polled')
    expect(writing(guarded, later)).toBe('written')
    expect(writing(guarded, first)).toBe('STALE_FENCE')
    await stop(fleets, two)
  })

  it('does so with the keys of polling services, which know no lease ids', async () => {
    const place = await freshRedis()
    onTestFinished(() => place.remove())
    const guarded = guard.memory()
    const session = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
    const manager = await openLeaseManager(place.url, {})
    let polled = (_context: PollContext): void => undefined
    const polling = new Promise<PollContext>((resolve) => {
      polled = resolve
    })
    await manager.start()
    const poll = (_session: string, context: PollContext): void => polled(context)
    const fleet = await runFleet(manager, [session], { poll, intervalMs: 10 })
    const context = await polling
    expect(context.resource).toBe(`session:${session}`)
    expect(writing(guarded, context)).toBe('written')
    expect(writing(guarded, context)).toBe('written')
    await fleet.stop()
    const other = { ...context, id: '3f2504e0-4f89-41d3-9a0c-0305e82c3302' }
    expect(writing(guarded, other)).toBe('STALE_FENCE')
  })
})
