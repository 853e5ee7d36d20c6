import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { openTenure } from '../../src/index.ts'
import {
  ActionGuard,
  claimWorkflow,
  currentLease,
  LocalBus,
  type Orchestrator,
} from '../../src/workflow/index.ts'
import { freshDatabase, freshRedis } from '../servers/shared-servers.ts'

interface Place {
  readonly url: string
  remove(): Promise<void>
}

const PLACES: Readonly<Record<string, () => Promise<Place>>> = {
  sqlite: async () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-workflow-'))
    const remove = async (): Promise<void> => fs.rmSync(directory, { recursive: true, force: true })
    return { url: `sqlite:${path.join(directory, 'leases.db')}`, remove }
  },
  postgres: () => freshDatabase(),
  redis: () => freshRedis(),
}

describe.each(Object.keys(PLACES))('a workflow on %s', (name) => {
  it('is driven by one after the other, with one epoch for all of them', async () => {
    const place = (await PLACES[name]?.()) as Place
    const [one, two] = await Promise.all(
      ['one', 'two'].map((holder) => openTenure(place.url, { holder })),
    )
    if (one === undefined || two === undefined) throw new Error('nobody is there')
    const bus = new LocalBus()
    const guard = new ActionGuard({ strict: true, lookUp: currentLease(two) })
    const epochs: number[] = []
    await guard.subscribe(bus, 'compute', (_, { action }) => epochs.push(action.epoch))

    const first = await claimWorkflow(one, 'order-991', { bus })
    await expect(claimWorkflow(two, 'order-991', { bus })).rejects.toMatchObject({
      code: 'RESOURCE_HELD',
    })
    await Promise.all([1, 2, 3].map((n) => first.emit('A', n, { target: 'compute' })))
    // The guard asks the store who holds the workflow: that must still be the first.
    await bus.idle()
    await first.handoff('two')
    const second = await claimWorkflow(two, 'order-991', { bus })
    await second.emit('B', 4, { target: 'compute' })
    await second.complete()
    const third = await claimWorkflow(one, 'order-991', { bus })
    await third.emit('C', 5, { target: 'compute' })
    await bus.idle()

    expect(epochs).toEqual([0, 1, 2, 4, 5])
    expect(third.epoch).toBe(6)
    expect(bus.deadLetters).toEqual([])
    await Promise.all([one.close(), two.close()])
    await place.remove()
  })

  it.each<[string, (orchestrator: Orchestrator) => Promise<unknown>]>([
    ['emit', (orchestrator) => orchestrator.emit('A', {})],
    ['advance', (orchestrator) => orchestrator.advance('next')],
    ['renew', (orchestrator) => orchestrator.renew()],
    ['complete', (orchestrator) => orchestrator.complete()],
    ['handoff', (orchestrator) => orchestrator.handoff('two')],
  ])('says who revoked it to an orchestrator that notices by %s', async (_, act) => {
    const place = (await PLACES[name]?.()) as Place
    const one = await openTenure(place.url, { holder: 'one' })
    const operator = await openTenure(place.url, { holder: 'ops' })
    const orchestrator = await claimWorkflow(one, 'order-991', { bus: new LocalBus() })
    await operator.revoke(orchestrator.leaseId, { reason: 'stuck' })
    const ended = await operator.get(orchestrator.leaseId)
    const revokedAtMs = ended?.terminatedAtMs
    const details = { reason: 'revoked', revokedBy: 'ops', revokedFor: 'stuck', revokedAtMs }
    await expect(act(orchestrator)).rejects.toMatchObject({ code: 'LEASE_LOST', details })
    expect(orchestrator.signal.reason).toMatchObject({ code: 'LEASE_LOST', details })
    await Promise.all([one.close(), operator.close()])
    await place.remove()
  })
})

describe('on PostgreSQL', () => {
  it('the state is the last one, also while the ledger ends before it because of an older commit', async () => {
    await using place = await freshDatabase()
    await using one = await openTenure(place.url, { holder: 'one' })
    await using two = await openTenure(place.url, { holder: 'two' })
    const slow = new pg.Client({ connectionString: place.url })
    await slow.connect()
    const bus = new LocalBus()
    const first = await claimWorkflow(one, 'w', { bus })
    await first.advance('paid')
    await slow.query('BEGIN')
    await slow.query('SELECT tenure.announce()')
    await first.advance('shipped')
    await first.complete()
    const claiming = claimWorkflow(two, 'w', { bus })
    while ((await one.inspect('workflow:w')).leases.length === 0);
    await slow.query('COMMIT')
    await slow.end()
    expect((await claiming).state).toBe('shipped')
  })
})
