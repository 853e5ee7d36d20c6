/** A store is rebuilt from a ledger by ordinary commits that tell much at once of what happened elsewhere. */
import assert from 'node:assert/strict'
import { NOTHING } from '../../core/commit.ts'
import type { LeaseEvent } from '../../core/event.ts'
import { evolve, type Entries } from '../../core/evolve.ts'
import { parseResource } from '../../core/resource.ts'
import { restoreSteps } from '../../core/restore.ts'
import type { Behaviour } from './harness.ts'
import { everyType } from './history.ts'
import type { Stage } from './stage.ts'

const WORKFLOW = parseResource('workflow:w')
const TREE = parseResource('file:/a')

export const restoreBehaviours: readonly Behaviour[] = [
  {
    name: 'an empty store becomes, in one commit, the one that a ledger tells of',
    async run(stage) {
      const events = await eventfulLife(stage)
      const empty = await stage.elsewhere()
      assert.equal(await restore(empty, events, events.length), 'done')
      await isRebuilt(empty, events)
    },
  },
  {
    name: 'or in several, each of which goes on with the entries of the last',
    async run(stage) {
      const events = await eventfulLife(stage)
      const empty = await stage.elsewhere()
      assert.equal(await restore(empty, events, 4), 'done')
      await isRebuilt(empty, events)
    },
  },
  {
    name: 'a rebuilt store goes on where the other stopped: epochs, fences and requests',
    async run(stage) {
      const events = await eventfulLife(stage)
      const empty = await stage.elsewhere()
      await restore(empty, events, events.length)
      const highest = Math.max(
        ...events.map((e) => (e.type === 'lease.issued' ? e.lease.fence : 0)),
      )
      const { epoch } = await empty.look({ resource: WORKFLOW })
      assert.equal(epoch, 1)
      const request = { leaseId: stage.id(), resource: parseResource('file:/b'), holder: 'new' }
      const lease = await empty.grant(request)
      assert(lease.fence > highest, `${lease.fence} must be above ${highest}`)
      const done = events.findLast(({ requestId }) => requestId !== null)
      assert(done !== undefined)
      const { leaseId, resource, requestId, type } = done
      const { prior } = await empty.look({ leaseId, resource, requestId })
      assert.deepEqual([prior?.leaseId, prior?.type], [leaseId, type])
    },
  },
  {
    name: 'a store that has something of it already is left as it is',
    async run(stage) {
      const events = await eventfulLife(stage)
      const other = await stage.elsewhere()
      await other.grant({ resource: TREE, holder: 'first' })
      const before = await other.entries()
      assert.equal(await restore(other, events, events.length), 'refused')
      assert.deepEqual(await other.entries(), before)
      assert.equal((await other.events()).length, 1)
    },
  },
]

async function eventfulLife(stage: Stage): Promise<readonly LeaseEvent[]> {
  await everyType(stage)
  await stage.grant({ resource: TREE, extent: 'subtree', holder: 'gil' })
  await stage.queue({ resource: parseResource('file:/a/b'), holder: 'hal' })
  return stage.events()
}

async function restore(
  { store }: Stage,
  events: readonly LeaseEvent[],
  stepEvents: number,
): Promise<'done' | 'refused'> {
  for (const { readSets, commit } of restoreSteps(events, stepEvents)) {
    const isDone = await store.transact(readSets, (views) => {
      const whole = commit(views)
      return { outcome: whole !== null, commit: whole ?? NOTHING, validUntilUs: null }
    })
    if (!isDone) return 'refused'
  }
  return 'done'
}

async function isRebuilt(stage: Stage, events: readonly LeaseEvent[]): Promise<void> {
  assert.deepEqual(await stage.events(), events)
  let folded: Entries = new Map()
  for (const event of events) folded = evolve(folded, event)
  const entries = await stage.entries()
  assert.equal(entries.length, folded.size)
  assert.deepEqual(new Map(entries.map((entry) => [entry.id, entry])), folded)
}
