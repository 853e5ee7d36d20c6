/** The suite needs no particular test runner, passes a store that keeps the contract, and finds one that does not. */
import { describe, expect, it } from 'vitest'
import type { Commit } from '../../src/core/commit.ts'
import type { Now } from '../../src/core/time.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import type { Decide, Store } from '../../src/store-port/store.ts'
import type { StoreHarness } from '../../src/testing/conformance/harness.ts'
import { storeConformance } from '../../src/testing/index.ts'

interface Enrolled {
  readonly name: string
  readonly body: () => Promise<void>
}

function enrol(harness: StoreHarness): { run: readonly Enrolled[]; skipped: readonly string[] } {
  const run: Enrolled[] = []
  const skipped: string[] = []
  const tools = {
    describe: (_name: string, body: () => void) => body(),
    it: (name: string, body: () => Promise<void>) => void run.push({ name, body }),
    skip: (name: string) => void skipped.push(name),
  }
  storeConformance(tools, harness)
  return { run, skipped }
}

function memoryHarness(alter: (store: Store) => Store = (store) => store): StoreHarness {
  const why = 'it ends with its object'
  return {
    name: 'memory',
    without: { reopen: why, openAnother: why },
    open: async (ticks) => {
      const store = alter(new MemoryStore({ ticks }))
      return { store, clock: ticks, close: () => store.close() }
    },
  }
}

/**
 * The names of behaviours that a store does not have. In memory nothing takes time, so a behaviour that has not ended
 * when the event loop comes round waits for a wake-up that will not come.
 */
async function failures(harness: StoreHarness): Promise<readonly string[]> {
  const failed: string[] = []
  for (const { name, body } of enrol(harness).run) {
    const never = new Promise<never>((_, reject) => {
      setImmediate(() => reject(new Error('it never ended')))
    })
    await Promise.race([body(), never]).catch(() => failed.push(name))
  }
  return failed
}

type Spoil = (commit: Commit, now: Now) => Commit

/** A store that commits something else than it was told. */
function spoiled(spoil: Spoil): StoreHarness {
  return memoryHarness((store) => {
    const transact: Store['transact'] = (readSets, decide) => {
      const decideOtherwise: Decide<Awaited<ReturnType<typeof decide>>['outcome']> = (
        views,
        now,
      ) => {
        const ruling = decide(views, now)
        return { ...ruling, commit: spoil(ruling.commit, now) }
      }
      return store.transact(readSets, decideOtherwise)
    }
    return new Proxy(store, {
      get: (target, name) => {
        if (name === 'transact') return transact
        const member: unknown = Reflect.get(target, name)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  })
}

describe('the conformance suite', () => {
  it('runs with any functions that enrol and describe tests', async () => {
    const { run, skipped } = enrol(memoryHarness())
    expect(run.length).toBeGreaterThan(90)
    expect(skipped.every((name) => name.endsWith('(not run: it ends with its object)'))).toBe(true)
    expect(await failures(memoryHarness())).toEqual([])
  })

  it('runs everything where a store gives no reason not to', () => {
    const { skipped } = enrol({ ...memoryHarness(), without: {} })
    expect(skipped).toEqual([])
  })

  it.each<[string, Spoil]>([
    [
      'loses the last event of a commit',
      (commit) => ({ ...commit, events: commit.events.slice(0, -1) }),
    ],
    [
      'loses every second change of a commit',
      (commit) => ({ ...commit, changes: commit.changes.slice(0, 1) }),
    ],
    ['forgets fences', (commit) => ({ ...commit, lastFence: 0 })],
    ['forgets epochs', (commit) => ({ ...commit, epochs: [] })],
    ['forgets requests that are not recorded', (commit) => ({ ...commit, requests: [] })],
    ['wakes nobody', (commit) => ({ ...commit, wakes: [] })],
    [
      'wakes the wrong session',
      (commit) => ({
        ...commit,
        wakes: commit.wakes.map((wake) => ({ ...wake, session: 'other' })),
      }),
    ],
    [
      'keeps entries that it was told to remove',
      (commit) => ({
        ...commit,
        changes: commit.changes.filter((change) => change.after !== null),
      }),
    ],
  ])('finds a store that %s', async (_, spoil) => {
    expect(await failures(spoiled(spoil))).not.toEqual([])
  })
})
