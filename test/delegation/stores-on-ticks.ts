/** An empty store of every kind on a clock that the test moves, and a look at what it commits. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import type { LeaseEvent } from '../../src/core/event.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { openRedisBackend } from '../../src/store/redis/redis-store.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store-port/store.ts'
import { ManualTicks, type TestClock } from '../../src/testing/fake-runtime.ts'
import { freshDatabase, freshRedis } from '../servers/shared-servers.ts'
import { openOnTicks } from '../store/postgres/postgres-stage.ts'
import { ServerTicks } from '../store/server-ticks.ts'

export const STORES_ON_TICKS = ['memory', 'sqlite', 'redis', 'postgres'] as const

export interface StoreOnTicks {
  readonly store: Store
  readonly clock: TestClock
}

type Kind = (typeof STORES_ON_TICKS)[number]

const OPEN: Readonly<Record<Kind, () => Promise<StoreOnTicks>>> = {
  memory: async () => {
    const ticks = new ManualTicks()
    return { store: new MemoryStore({ ticks }), clock: ticks }
  },
  sqlite: async () => {
    const ticks = new ManualTicks()
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-ticks-'))
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
    const store = await SqliteStore.open({ path: path.join(directory, 'leases.db'), ticks })
    return { store, clock: ticks }
  },
  redis: async () => {
    const place = await freshRedis()
    onTestFinished(async () => place.remove())
    const clock = new ServerTicks()
    const namespace = 'on-ticks'
    const backend = await openRedisBackend({ url: place.url, namespace, nowUs: clock.nowUs })
    const store = await OptimisticStore.open(clock.drive(backend), systemRuntime, clock.time)
    return { store, clock }
  },
  postgres: async () => {
    const place = await freshDatabase()
    onTestFinished(async () => place.remove())
    const clock = new ServerTicks()
    const store = await openOnTicks(clock, { url: place.url, namespace: 'on-ticks' })
    return { store, clock }
  },
}

export async function openOnTicksOf(kind: Kind): Promise<StoreOnTicks> {
  const opened = await OPEN[kind]()
  onTestFinished(async () => opened.store.close())
  return opened
}

export interface Watched {
  readonly store: Store
  /** What was committed together, commit by commit, as `type holder`. */
  readonly commits: (readonly string[])[]
}

/** A decision may be made more than once; only the last one was committed. */
export function watchCommits(store: Store): Watched {
  const commits: (readonly string[])[] = []
  const transact: Store['transact'] = async (readSets, decide) => {
    let events: readonly LeaseEvent[] = []
    const noting: typeof decide = (views, now) => {
      const ruling = decide(views, now)
      events = ruling.commit.events
      return ruling
    }
    const outcome = await store.transact(readSets, noting)
    if (events.length > 0) commits.push(events.map(({ type, holder }) => `${type} ${holder}`))
    return outcome
  }
  const watched = new Proxy(store, {
    get: (target, name) => {
      if (name === 'transact') return transact
      const member: unknown = Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
  return { store: watched, commits }
}
