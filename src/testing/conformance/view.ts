/** What a decision is shown: its own entry, the live ones it touches, and the facts around them. */
import assert from 'node:assert/strict'
import { overlap, parseResource, type Extent, type Resource } from '../../core/resource.ts'
import type { Behaviour } from './harness.ts'
import { OTHER, TTL_MS, WORK, type Stage } from './stage.ts'

const EXTENTS: readonly Extent[] = ['exact', 'subtree']

/** Names that a careless query would mix up. */
const PATHS: readonly string[] = [
  ...['/', '/src', '/src/a.ts', '/src/deep/b.ts', '/src_backup', '/src_backup/a.ts', '/srcs'],
  ...['/src-1', '/src.d', '/src0', '/SRC', '/SRC/a.ts', '/s%', '/s%/a', '/s_c', '/s_c/a', '/s*'],
  ...[
    '/s*/a',
    '/s?',
    "/it's",
    "/it's/a",
    '/"q"',
    '/"q"/a',
    '/[s]',
    '/[s]/a',
    '/\\s',
    '/😀',
    '/😀/a',
  ],
  ...['/é', '/é/a', '/\u{10ffff}', '/a b', '/a b/c', '/src/\u{10ffff}', '/src/ ', '/-- x'],
]

export const viewBehaviours: readonly Behaviour[] = [
  {
    name: 'a flat resource is seen with its own live entries and no other',
    async run(stage) {
      const lease = await stage.grant()
      const { leaseId } = await stage.queue({ holder: 'bob' })
      await stage.grant({ resource: OTHER })
      assert.deepEqual(await seen(stage, WORK, 'exact'), [lease.id, leaseId])
    },
  },
  {
    name: 'ended entries of others are not seen',
    async run(stage) {
      await stage.release(await stage.grant())
      await stage.grant()
      await stage.run(stage.acquire({ holder: 'refused' }))
      assert.equal((await stage.look({ resource: WORK })).entries.size, 1)
    },
  },
  {
    name: 'entries that are over but not settled are seen, because only the core may say so',
    async run(stage) {
      const lease = await stage.grant()
      stage.clock.pass(TTL_MS * 10)
      assert.deepEqual(await seen(stage, WORK, 'exact'), [lease.id])
    },
  },
  {
    name: 'the own entry is seen in whatever state it is',
    async run(stage) {
      const lease = await stage.grant()
      await stage.release(lease)
      const view = await stage.look({ resource: WORK, leaseId: lease.id })
      assert.equal(view.entries.get(lease.id)?.state, 'released')
    },
  },
  {
    name: 'the own entry is seen on whatever resource it is',
    async run(stage) {
      const lease = await stage.grant()
      const view = await stage.look({ resource: OTHER, leaseId: lease.id })
      assert.equal(view.entries.get(lease.id)?.resource, WORK)
    },
  },
  {
    name: 'a command that depends on its own entry alone is shown it, live or ended',
    async run(stage) {
      const lease = await stage.grant()
      const readSet = { resource: WORK, leaseId: lease.id, depth: 'entry' } as const
      assert.deepEqual((await stage.look(readSet)).entries.get(lease.id), lease)
      await stage.release(lease)
      assert.equal((await stage.look(readSet)).entries.get(lease.id)?.state, 'released')
    },
  },
  {
    name: 'in a tree, exactly the overlapping entries are seen, however awkward the names',
    async run(stage) {
      await stage.configure('max_renewals', '0')
      for (const extent of EXTENTS) await sees(stage, extent)
    },
  },
  {
    name: 'a subtree sees what lies below it and never a neighbour with the same beginning',
    async run(stage) {
      const below = await stage.grant({ resource: file('/src/a.ts') })
      await stage.grant({ resource: file('/src_backup/a.ts') })
      await stage.grant({ resource: file('/src.d') })
      assert.deepEqual(await seen(stage, file('/src'), 'subtree'), [below.id])
      assert.deepEqual(await seen(stage, file('/src'), 'exact'), [])
    },
  },
  {
    name: 'the highest fence is known, also after its lease has ended',
    async run(stage) {
      const lease = await stage.grant()
      await stage.release(lease)
      const view = await stage.look({ resource: WORK })
      assert(view.lastFence >= lease.fence)
    },
  },
  {
    name: 'a fence that was only offered counts as given',
    async run(stage) {
      const lease = await stage.grant()
      await stage.queue({ holder: 'bob' })
      await stage.release(lease)
      const offered = (await stage.events()).at(-1)
      assert(offered?.type === 'lease.offered')
      assert((await stage.look({ resource: WORK })).lastFence >= offered.fence)
    },
  },
  {
    name: 'the tickets of a flat resource are counted apart from those of another',
    async run(stage) {
      await stage.grant()
      await stage.queue({ holder: 'bob' })
      await stage.queue({ holder: 'cyd' })
      assert.equal((await stage.look({ resource: WORK })).ticketCount, 2)
      assert.equal((await stage.look({ resource: OTHER })).ticketCount, 0)
    },
  },
  {
    name: 'the tickets of a tree are counted together, and no longer when they have ended',
    async run(stage) {
      for (const path of ['/a', '/b']) {
        await stage.grant({ resource: file(path) })
        await stage.queue({ resource: file(path), holder: 'bob' })
      }
      assert.equal((await stage.look({ resource: file('/elsewhere') })).ticketCount, 2)
      const queued = (await stage.entries()).find((entry) => entry.state === 'pending')
      assert(queued !== undefined)
      const { id: leaseId, resource, extent, holder, session } = queued
      const why = 'aborted'
      await stage.run({ kind: 'withdraw', leaseId, resource, extent, holder, session, why })
      assert.equal((await stage.look({ resource: file('/elsewhere') })).ticketCount, 1)
    },
  },
]

function file(path: string): Resource {
  return parseResource(`file:${path}`)
}

async function seen(stage: Stage, resource: Resource, extent: Extent): Promise<readonly string[]> {
  return [...(await stage.look({ resource, extent })).entries.keys()].toSorted()
}

/** Puts a shared lease on every path, then looks from every path, exact and subtree. */
async function sees(stage: Stage, extent: Extent): Promise<void> {
  const leases = await Promise.all(
    PATHS.map((path) => stage.grant({ resource: file(path), extent, mode: 'shared' })),
  )
  for (const path of PATHS) {
    for (const look of EXTENTS) {
      const reach = { resource: file(path), extent: look }
      const expected = leases.filter((lease) => overlap(lease, reach)).map((lease) => lease.id)
      const got = await seen(stage, reach.resource, look)
      assert.deepEqual(got, expected.toSorted(), `${look} ${path} among ${extent} leases`)
    }
  }
  for (const lease of leases) await stage.release(lease)
}
