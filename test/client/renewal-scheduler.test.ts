import { describe, expect, it } from 'vitest'
import { HolderClock, type Moment } from '../../src/client/holder-clock.ts'
import {
  RenewalScheduler,
  Turn,
  type Attended,
  type Attention,
} from '../../src/client/renewal-scheduler.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

interface Stage {
  readonly runtime: FakeRuntime
  readonly scheduler: RenewalScheduler
  readonly startMs: number
  readonly attended: [string, number][]
  readonly add: (
    name: string,
    attention: Attention,
    next?: (now: Moment) => Attention | null,
  ) => Turn
}

/** Times are counted from the start of the test. */
function newStage(keepAlive = false): Stage {
  const runtime = new FakeRuntime()
  const clock = new HolderClock(runtime)
  const scheduler = new RenewalScheduler({ runtime, clock, keepAlive })
  const startMs = runtime.monotonicMs()
  const attended: [string, number][] = []
  const add: Stage['add'] = (name, { dueMs, earliestMs }, next = () => null) => {
    const item: Attended = {
      attend: (now) => {
        attended.push([name, now.monotonicMs - startMs])
        return next(now)
      },
    }
    const turn = new Turn(item)
    scheduler.schedule(turn, { dueMs: startMs + dueMs, earliestMs: startMs + earliestMs })
    return turn
  }
  return { runtime, scheduler, startMs, attended, add }
}

describe('the renewal scheduler', () => {
  it('attends to an item when it is due, not before', async () => {
    const { runtime, attended, add } = newStage()
    add('a', { earliestMs: 200, dueMs: 300 })
    await runtime.advance(299)
    expect(attended).toEqual([])
    await runtime.advance(1)
    expect(attended).toEqual([['a', 300]])
  })

  it('attends to all that may be when the first must be, in one macrotask', async () => {
    const { runtime, attended, add } = newStage()
    add('first', { earliestMs: 200, dueMs: 300 })
    add('close', { earliestMs: 290, dueMs: 390 })
    add('far', { earliestMs: 301, dueMs: 401 })
    await runtime.advance(300)
    expect(attended).toEqual([
      ['first', 300],
      ['close', 300],
    ])
    await runtime.advance(200)
    expect(attended[2]).toEqual(['far', 401])
  })

  it('comes back when the item says so, and never again when it says never', async () => {
    const { runtime, scheduler, startMs, attended, add } = newStage()
    let round = 0
    add('a', { earliestMs: 100, dueMs: 100 }, () => {
      round += 1
      return round === 1 ? { earliestMs: startMs + 250, dueMs: startMs + 250 } : null
    })
    await runtime.advance(10_000)
    expect(attended).toEqual([
      ['a', 100],
      ['a', 250],
    ])
    expect(scheduler.size).toBe(0)
    expect(runtime.pendingTimers).toBe(0)
  })

  it('keeps one timer for ten thousand items, and none for none', async () => {
    const { runtime, scheduler, attended, add } = newStage()
    const items = Array.from({ length: 10_000 }, (_, index) =>
      add(`item ${index}`, { earliestMs: 500 + index, dueMs: 900 + index }),
    )
    expect(runtime.pendingTimers).toBe(1)
    for (const item of items.slice(0, 9_999)) scheduler.forget(item)
    await runtime.advance(20_000)
    expect(attended).toEqual([['item 9999', 10_899]])
    expect(runtime.pendingTimers).toBe(0)
  })

  it('attends to as many at once as a store commits at once, and to the others right after', async () => {
    const { runtime, attended, add } = newStage()
    for (let index = 0; index < 1_200; index += 1) {
      add(`item ${index}`, { earliestMs: 500, dueMs: index === 0 ? 900 : 2_000 })
    }
    await runtime.advance(910)
    const countAt = (atMs: number): number => attended.filter((one) => one[1] === atMs).length
    expect([countAt(900), countAt(901), countAt(902)]).toEqual([500, 500, 200])
    expect(runtime.pendingTimers).toBe(0)
  })

  it('arms its timer anew when something that is due sooner comes', async () => {
    const { runtime, attended, add } = newStage()
    add('late', { earliestMs: 900, dueMs: 900 })
    add('soon', { earliestMs: 50, dueMs: 50 })
    await runtime.advance(50)
    expect(attended).toEqual([['soon', 50]])
  })

  it('attends to everything within a second after the host woke up', async () => {
    const { runtime, attended, add } = newStage()
    add('a', { earliestMs: 600_000, dueMs: 600_000 })
    add('b', { earliestMs: 900_000, dueMs: 900_000 })
    await runtime.advance(5_000)
    runtime.suspend(3_600_000)
    await runtime.advance(1_000)
    expect(attended.map(([name]) => name)).toEqual(['a', 'b'])
  })

  it('leaves items that are not due alone while the watchdog ticks', async () => {
    const { runtime, attended, add } = newStage()
    add('a', { earliestMs: 1_500, dueMs: 6_000 })
    await runtime.advance(5_999)
    expect(attended).toEqual([])
  })

  it('keeps a process alive only when it is told to', () => {
    const holding = newStage(false)
    holding.add('a', { earliestMs: 100, dueMs: 100 })
    expect(holding.runtime.keepAliveTimers).toBe(0)
    const waiting = newStage(true)
    waiting.add('a', { earliestMs: 100, dueMs: 100 })
    expect(waiting.runtime.keepAliveTimers).toBe(1)
  })

  it('does nothing any more after it was closed', async () => {
    const { runtime, scheduler, attended, add } = newStage()
    add('before', { earliestMs: 10, dueMs: 10 })
    scheduler.close()
    add('after', { earliestMs: 10, dueMs: 10 })
    await runtime.advance(100)
    expect(attended).toEqual([])
    expect(runtime.pendingTimers).toBe(0)
  })

  it('never attends again to what was forgotten, not even when its own attention asks for it', async () => {
    const { runtime, scheduler, attended, add, startMs } = newStage()
    const again = { earliestMs: startMs + 200, dueMs: startMs + 200 }
    const turn: Turn = add('a', { earliestMs: 100, dueMs: 100 }, () => {
      scheduler.forget(turn)
      return again
    })
    await runtime.advance(100)
    scheduler.schedule(turn, again)
    await runtime.advance(1_000)
    expect(attended).toEqual([['a', 100]])
    expect(scheduler.size).toBe(0)
  })
})
