import { afterAll, beforeAll, describe, it } from 'vitest'
import { MemoryStore } from '../../../src/store/memory/memory-store.ts'
import type { OptimisticStore } from '../../../src/store/optimistic/optimistic-store.ts'
import { storeConformance } from '../../../src/testing/index.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'
import { compareStores } from '../differential.ts'
import { ServerTicks } from '../server-ticks.ts'
import { freshNamespace, openOnTicks } from './postgres-stage.ts'

let place: Place

beforeAll(async () => {
  place = await freshDatabase()
})

afterAll(() => place.remove())

storeConformance(
  { describe, it, skip: it.skip },
  {
    name: 'postgres',
    without: {
      wall: 'the server has one clock for everything',
      domains: 'the server has one clock',
    },
    open: async () => {
      const ticks = new ServerTicks()
      const namespace = freshNamespace()
      const opened: OptimisticStore[] = []
      const open = async (): Promise<OptimisticStore> => {
        const store = await openOnTicks(ticks, { url: place.url, namespace })
        opened.push(store)
        return store
      }
      const closeAll = async (): Promise<void> => {
        await Promise.all(opened.map((store) => store.close()))
      }
      const store = await open()
      const reopen = async (): Promise<OptimisticStore> => {
        await closeAll()
        return open()
      }
      return { store, clock: ticks, reopen, openAnother: open, close: closeAll }
    },
  },
)

describe('memory and PostgreSQL', () => {
  it.each([3])('answer alike at every step (seed %i)', { timeout: 120_000 }, async (seed) => {
    const [here, there] = [new ServerTicks(), new ServerTicks()]
    const source = { ...here.source, domain: 'postgres' }
    const options = { url: place.url, namespace: freshNamespace() }
    const sides = [
      { store: new MemoryStore({ ticks: source }), ticks: here },
      { store: await openOnTicks(there, options), ticks: there },
    ] as const
    await compareStores(seed, sides, { oneClock: true })
  })
})
