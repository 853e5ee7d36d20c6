import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { EntryQuery, Found, Store } from '../../src/store-port/store.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { FaultyStore, type StoreCall } from '../../src/testing/faulty-store.ts'
import { compareStores, runDifferential, type OpenStore } from './differential.ts'
import { ReferenceBackend } from '../../src/testing/reference-backend.ts'
import { ServerTicks } from './server-ticks.ts'

const memory: OpenStore = (ticks) => Promise.resolve(new MemoryStore({ ticks }))

describe('a differential run', () => {
  it('of a store against itself finds no difference, and everything comes up', async () => {
    const { steps, outcomes } = await runDifferential(17, memory, memory)
    expect(steps).toBeGreaterThanOrEqual(800)
    expect(outcomes.get('acquire granted')).toBeGreaterThan(20)
  })

  it('finds a store that forgets a single entry once', async () => {
    const forgetful: OpenStore = async (ticks) => {
      const store = await memory(ticks)
      let entries = 0
      return new Proxy(store, {
        get: (target, name) => {
          if (name !== 'find') return bound(target, name)
          return async (query: EntryQuery): Promise<Found> => {
            const answer = await target.find(query)
            const isForgotten = entries < 100 && entries + answer.entries.length >= 100
            entries += answer.entries.length
            return isForgotten ? { ...answer, entries: answer.entries.slice(1) } : answer
          }
        },
      })
    }
    await expect(runDifferential(20, memory, forgetful)).rejects.toThrow(/^seed 20, .* differs/)
  })

  it('finds a store whose answer is lost once', async () => {
    const lossy: OpenStore = async (ticks) => {
      const store = await memory(ticks)
      let isLost = false
      const weather = ({ method, number }: StoreCall) => {
        if (isLost || method !== 'transact' || number < 200) return undefined
        isLost = true
        return { fault: 'lost_answer' } as const
      }
      return new FaultyStore({ store, weather })
    }
    await expect(runDifferential(17, memory, lossy)).rejects.toThrow(/differs/)
  })
})

describe('a store that decides before it asks and memory', () => {
  it.each([3, 20])('answer alike at every step (seed %i)', async (seed) => {
    const [here, there] = [new ServerTicks(), new ServerTicks()]
    const backend = there.drive(new ReferenceBackend({ ticks: there }))
    const optimistic = await OptimisticStore.open(backend, systemRuntime, there.time)
    const sides = [
      { store: new MemoryStore({ ticks: here.source }), ticks: here },
      { store: optimistic, ticks: there },
    ] as const
    await compareStores(seed, sides, { oneClock: true })
  })
})

describe('memory and SQLite', () => {
  let directory: string

  beforeEach(() => {
    directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-differential-'))
  })

  afterEach(() => {
    fs.rmSync(directory, { recursive: true })
  })

  // Seeds whose scripts come to everything soon.
  it.each([17, 20])('answer alike at every step (seed %i)', async (seed) => {
    const sqlite: OpenStore = (ticks) => {
      const file = path.join(directory, 'leases.db')
      return SqliteStore.open({ path: file, ticks, synchronous: 'normal' })
    }
    await runDifferential(seed, memory, sqlite)
  })
})

function bound(store: Store, name: string | symbol): unknown {
  const member: unknown = Reflect.get(store, name)
  return typeof member === 'function' ? member.bind(store) : member
}
