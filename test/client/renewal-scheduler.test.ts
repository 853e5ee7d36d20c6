import { describe, expect, it } from 'vitest'
import { HolderClock, type Moment } from '../../src/client/holder-clock.ts'
import {
  RenewalScheduler,
  ScheduledTask,
  type DueWindow,
  type Runnable,
} from '../../src/client/renewal-scheduler.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

interface Stage {
  readonly runtime: FakeRuntime
  readonly scheduler: RenewalScheduler
  readonly startMs: number
  readonly ran: [string, number][]
  readonly add: (
    name: string,
    window: DueWindow,
    next?: (now: Moment) => DueWindow | null,
  ) => ScheduledTask
}

/** Times are counted from the start of the test. */
function newStage(keepAlive = false): Stage {
  const runtime = new FakeRuntime()
  const clock = new HolderClock(runtime)
  const scheduler = new RenewalScheduler({ runtime, clock, keepAlive })
  const startMs = runtime.monotonicMs()
  const ran: [string, number][] = []
  const add: Stage['add'] = (name, { dueMs, earliestMs }, next = () => null) => {
    const item: Runnable = {
      runDue: (now) => {
        ran.push([name, now.monotonicMs - startMs])
        return next(now)
      },
    }
    const task = new ScheduledTask(item)
    scheduler.schedule(task, { dueMs: startMs + dueMs, earliestMs: startMs + earliestMs })
    return task
  }
  return { runtime, scheduler, startMs, ran, add }
}

describe('the renewal scheduler', () => {
  it('runs a task when it is due, not before', async () => {
    const { runtime, ran, add } = newStage()
    add('a', { earliestMs: 200, dueMs: 300 })
    await runtime.advance(299)
    expect(ran).toEqual([])
    await runtime.advance(1)
    expect(ran).toEqual([['a', 300]])
  })

  it('runs all that may when the first must, in one macrotask', async () => {
    const { runtime, ran, add } = newStage()
    add('first', { earliestMs: 200, dueMs: 300 })
    add('close', { earliestMs: 290, dueMs: 390 })
    add('far', { earliestMs: 301, dueMs: 401 })
    await runtime.advance(300)
    expect(ran).toEqual([
      ['first', 300],
      ['close', 300],
    ])
    await runtime.advance(200)
    expect(ran[2]).toEqual(['far', 401])
  })

  it('runs again when the task says so, and never again when it says never', async () => {
    const { runtime, scheduler, startMs, ran, add } = newStage()
    let round = 0
    add('a', { earliestMs: 100, dueMs: 100 }, () => {
      round += 1
      return round === 1 ? { earliestMs: startMs + 250, dueMs: startMs + 250 } : null
    })
    await runtime.advance(10_000)
    expect(ran).toEqual([
      ['a', 100],
      ['a', 250],
    ])
    expect(scheduler.size).toBe(0)
    expect(runtime.pendingTimers).toBe(0)
  })

  it('keeps one timer for ten thousand tasks, and none for none', async () => {
    const { runtime, scheduler, ran, add } = newStage()
    const items = Array.from({ length: 10_000 }, (_, index) =>
      add(`item ${index}`, { earliestMs: 500 + index, dueMs: 900 + index }),
    )
    expect(runtime.pendingTimers).toBe(1)
    for (const item of items.slice(0, 9_999)) scheduler.forget(item)
    await runtime.advance(20_000)
    expect(ran).toEqual([['item 9999', 10_899]])
    expect(runtime.pendingTimers).toBe(0)
  })

  it('runs as many at once as a store commits at once, and the others right after', async () => {
    const { runtime, ran, add } = newStage()
    for (let index = 0; index < 1_200; index += 1) {
      add(`item ${index}`, { earliestMs: 500, dueMs: index === 0 ? 900 : 2_000 })
    }
    await runtime.advance(910)
    const countAt = (atMs: number): number => ran.filter((one) => one[1] === atMs).length
    expect([countAt(900), countAt(901), countAt(902)]).toEqual([500, 500, 200])
    expect(runtime.pendingTimers).toBe(0)
  })

  it('arms its timer anew when something that is due sooner comes', async () => {
    const { runtime, ran, add } = newStage()
    add('late', { earliestMs: 900, dueMs: 900 })
    add('soon', { earliestMs: 50, dueMs: 50 })
    await runtime.advance(50)
    expect(ran).toEqual([['soon', 50]])
  })

  it('runs everything within a second after the host woke up', async () => {
    const { runtime, ran, add } = newStage()
    add('a', { earliestMs: 600_000, dueMs: 600_000 })
    add('b', { earliestMs: 900_000, dueMs: 900_000 })
    await runtime.advance(5_000)
    runtime.suspend(3_600_000)
    await runtime.advance(1_000)
    expect(ran.map(([name]) => name)).toEqual(['a', 'b'])
  })

  it('leaves tasks that are not due alone while the watchdog ticks', async () => {
    const { runtime, ran, add } = newStage()
    add('a', { earliestMs: 1_500, dueMs: 6_000 })
    await runtime.advance(5_999)
    expect(ran).toEqual([])
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
    const { runtime, scheduler, ran, add } = newStage()
    add('before', { earliestMs: 10, dueMs: 10 })
    scheduler.close()
    add('after', { earliestMs: 10, dueMs: 10 })
    await runtime.advance(100)
    expect(ran).toEqual([])
    expect(runtime.pendingTimers).toBe(0)
  })

  it('never runs again what was forgotten, not even when its own window asks for it', async () => {
    const { runtime, scheduler, ran, add, startMs } = newStage()
    const again = { earliestMs: startMs + 200, dueMs: startMs + 200 }
    const task: ScheduledTask = add('a', { earliestMs: 100, dueMs: 100 }, () => {
      scheduler.forget(task)
      return again
    })
    await runtime.advance(100)
    scheduler.schedule(task, again)
    await runtime.advance(1_000)
    expect(ran).toEqual([['a', 100]])
    expect(scheduler.size).toBe(0)
  })
})
