/** Refusals beside the ledger, through the service: how `history` shows them, and what becomes of them when the store fails. */
import { afterEach, describe, expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { HistoryFilter } from '../../src/service/lease-api.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { onOwnFault } from '../runtime/hear-faults.ts'

const WORK = parseResource('work:w')

class CountingStore extends MemoryStore {
  calls = 0
  failing: LeaseError | null = null

  override async countRefusals(
    refusals: Parameters<MemoryStore['countRefusals']>[0],
  ): Promise<void> {
    this.calls += 1
    if (this.failing !== null) throw this.failing
    return super.countRefusals(refusals)
  }
}

function bench() {
  const runtime = new FakeRuntime()
  const store = new CountingStore({ ticks: runtime.ticks })
  const api = new LeaseService({ store, runtime })
  const acquire = async (holder: string): Promise<string> => {
    const id = runtime.uuid()
    const request = { id, resource: WORK, holder, session: holder, waitMs: 0, ttlMs: 600_000 }
    return (await api.acquire(request)).kind
  }
  const told = async (filter: HistoryFilter = {}): Promise<readonly string[]> => {
    return (await api.history(filter)).map(({ event, count }) => {
      return `${event.type.replace('lease.', '')} ${event.holder}${count === undefined ? '' : ` ${count}`}`
    })
  }
  return { runtime, store, api, acquire, told }
}

let stop = (): void => undefined
afterEach(() => stop())

describe('the history', () => {
  it('shows what was refused where it happened last, and how often', async () => {
    const { runtime, acquire, told, api } = bench()
    await acquire('ann')
    await runtime.advance(5)
    expect(await acquire('bob')).toBe('held')
    expect(await acquire('bob')).toBe('held')
    await runtime.advance(5)
    await api.revokeAll({ holder: 'ann', by: 'operator', reason: null })
    expect(await told()).toEqual(['issued ann', 'denied bob 2', 'revoked ann'])
    expect(await told({ newestFirst: true })).toEqual(['revoked ann', 'denied bob 2', 'issued ann'])
    expect(await told({ types: ['lease.denied'] })).toEqual(['denied bob 2'])
    expect(await told({ holder: 'bob' })).toEqual(['denied bob 2'])
    expect(await told({ types: ['lease.issued'] })).toEqual(['issued ann'])
    expect(await told({ refusals: false })).toEqual(['issued ann', 'revoked ann'])
  })

  it('shows each row once in pages, whose last row tells where to go on', async () => {
    const { runtime, acquire, api } = bench()
    for (const holder of ['ann', 'bob', 'cyd', 'eve']) {
      await acquire(holder)
      await runtime.advance(3)
      await acquire('fay')
      await acquire(`${holder}-too`)
      await runtime.advance(3)
      await api.revokeAll({ holder, by: 'operator', reason: null })
    }
    for (const newestFirst of [false, true]) {
      const whole = await api.history({ newestFirst })
      const paged: unknown[] = []
      for (let after: string | undefined; ;) {
        const page = await api.history({ newestFirst, limit: 2, ...(after && { after }) })
        paged.push(...page.map(({ event }) => event))
        if (page.length === 0) break
        after = page.at(-1)?.position
      }
      expect(paged).toEqual(whole.map(({ event }) => event))
    }
  })
})

describe('refusals', () => {
  it('are counted at once, and then at most once a second, in one call for all', async () => {
    const { runtime, store, acquire, told } = bench()
    await acquire('ann')
    for (let n = 0; n < 50; n += 1) await acquire('bob')
    await runtime.settle()
    expect(store.calls).toBe(1)
    await runtime.advance(1_000)
    expect(store.calls).toBe(2)
    expect(await told()).toEqual(['issued ann', 'denied bob 50'])
  })

  it('that could not be counted are reported and tried again; those that may have been are not', async () => {
    const { runtime, store, acquire, told } = bench()
    const faults: string[] = []
    stop = onOwnFault(({ source }) => faults.push(source))
    await acquire('ann')
    store.failing = new LeaseError('STORE_UNAVAILABLE', 'away')
    expect(await acquire('bob')).toBe('held')
    await runtime.advance(2_000)
    expect(faults).toEqual(['service/refusals'])
    store.failing = null
    expect(await told({ holder: 'bob' })).toEqual(['denied bob 1'])
    store.failing = new LeaseError('STORE_OUTCOME_UNKNOWN', 'lost')
    await runtime.advance(2_000)
    await acquire('bob')
    await runtime.advance(2_000)
    store.failing = null
    expect(await told({ holder: 'bob' })).toEqual(['denied bob 1'])
  })

  it('that wait to be counted are counted when the service is closed', async () => {
    const { store, api, acquire } = bench()
    await acquire('ann')
    await acquire('bob')
    await acquire('bob')
    await api.close()
    expect(store.calls).toBe(2)
  })
})
