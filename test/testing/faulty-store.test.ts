import { describe, expect, it } from 'vitest'
import { commitOf, NOTHING } from '../../src/core/commit.ts'
import type { Command } from '../../src/core/command.ts'
import { decide, readSetOf } from '../../src/core/decide.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import type { Store } from '../../src/store-port/store.ts'
import { FaultyStore, type CallWeather, type StoreCall } from '../../src/testing/faulty-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'
import { acquire, id, renew } from '../core/builders.ts'

function stores(weather: (call: StoreCall) => CallWeather | undefined) {
  const real = new MemoryStore({ ticks: new ManualTicks() })
  return { real, faulty: new FaultyStore({ store: real, weather }) }
}

function run(store: Store, command: Command): Promise<string> {
  return store.transact([readSetOf(command)], ([view], now) => {
    if (view === undefined) throw new Error('no view')
    const decision = decide(view, command, now)
    const { outcome, validUntilUs } = decision
    return { outcome: outcome.kind, commit: commitOf(view, decision), validUntilUs }
  })
}

function closedGate(): { readonly passed: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { passed, open: () => open() }
}

const ada = acquire({ leaseId: id(1), holder: 'ada' })

describe('a store behind a bad connection', () => {
  it('is the store itself in good weather', async () => {
    const { real, faulty } = stores(() => undefined)
    expect(await run(faulty, ada)).toBe('granted')
    expect(await faulty.find({ limit: 9 })).toEqual(await real.find({ limit: 9 }))
    expect(await faulty.history({ limit: 9 })).toEqual(await real.history({ limit: 9 }))
    expect(await faulty.end()).toBe(await real.end())
    expect(faulty.description).toBe(real.description)
  })

  it('says that nothing was committed when the request is lost, and it is true', async () => {
    const { real, faulty } = stores(() => ({ fault: 'lost_request' }))
    await expect(run(faulty, ada)).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      effect: 'none',
    })
    expect((await real.find({ limit: 9 })).entries).toEqual([])
  })

  it('says that it may have been committed when the answer is lost, and it was', async () => {
    const { real, faulty } = stores(({ number }) => {
      return number === 0 ? { fault: 'lost_answer' } : undefined
    })
    await expect(run(faulty, ada)).rejects.toMatchObject({
      code: 'STORE_OUTCOME_UNKNOWN',
      effect: 'unknown',
    })
    expect((await real.find({ limit: 9 })).entries).toMatchObject([{ id: id(1), state: 'active' }])
    expect(await run(faulty, ada)).toBe('granted')
    expect(await real.history({ limit: 9 })).toHaveLength(1)
  })

  it('has nothing unknown about a question whose answer is lost', async () => {
    const { faulty } = stores(() => ({ fault: 'lost_answer' }))
    await expect(faulty.find({ limit: 1 })).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })

  it('leaves it open whether refusals were counted when the answer is lost', async () => {
    const { real, faulty } = stores(({ method }) => {
      return method === 'countRefusals' ? { fault: 'lost_answer' } : undefined
    })
    await run(real, ada)
    const command = acquire({ leaseId: id(2), holder: 'bob' })
    const event = await real.transact([readSetOf(command)], ([view], now) => {
      if (view === undefined) throw new Error('no view')
      const { refusals } = decide(view, command, now)
      return { outcome: refusals[0], commit: NOTHING, validUntilUs: null }
    })
    if (event === undefined) throw new Error('it was not refused')
    const counting = faulty.countRefusals([{ event, count: 1 }])
    await expect(counting).rejects.toMatchObject({ effect: 'unknown' })
    expect(await real.refusals({ limit: 9 })).toMatchObject([{ count: 1 }])
  })

  it('delivers twice what has one effect', async () => {
    const { real, faulty } = stores(() => ({ fault: 'delivered_twice' }))
    expect(await run(faulty, ada)).toBe('granted')
    expect(await run(faulty, renew({ requestId: id(9) }))).toBe('renewed')
    expect((await real.find({ limit: 9 })).entries).toMatchObject([{ renewals: 1 }])
    expect(await real.history({ limit: 9 })).toHaveLength(2)
  })

  it('lets a call be late on its way there', async () => {
    const gate = closedGate()
    const { real, faulty } = stores(({ number }) => (number === 0 ? { before: gate.passed } : {}))
    const late = run(faulty, ada)
    expect(await run(real, acquire({ leaseId: id(2), holder: 'bob' }))).toBe('granted')
    gate.open()
    expect(await late).toBe('held')
  })

  it('lets an answer be late on its way back', async () => {
    const gate = closedGate()
    const { real, faulty } = stores(() => ({ after: gate.passed }))
    let answered = false
    const late = run(faulty, ada).then((kind) => {
      answered = true
      return kind
    })
    expect(await run(real, acquire({ leaseId: id(2), holder: 'bob' }))).toBe('held')
    expect(answered).toBe(false)
    gate.open()
    expect(await late).toBe('granted')
  })

  it('asks for the weather of each call by its number and name', async () => {
    const calls: StoreCall[] = []
    const { faulty } = stores((call) => void calls.push(call))
    await faulty.settings()
    await run(faulty, ada)
    await faulty.end()
    expect(calls).toEqual([
      { method: 'settings', number: 0 },
      { method: 'transact', number: 1 },
      { method: 'end', number: 2 },
    ])
  })

  it('passes on what never fails: following and closing', async () => {
    const { real, faulty } = stores(() => ({ fault: 'lost_request' }))
    let grown = 0
    const unfollow = faulty.follow(() => void (grown += 1))
    await run(real, ada)
    await Promise.resolve()
    unfollow()
    expect(grown).toBe(1)
    await faulty.close()
    await expect(real.end()).rejects.toMatchObject({ code: 'CLOSED' })
  })
})
