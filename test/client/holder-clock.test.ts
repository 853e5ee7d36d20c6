import { describe, expect, it } from 'vitest'
import { HolderClock } from '../../src/client/holder-clock.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

function newClock(runtime: FakeRuntime): HolderClock {
  return new HolderClock(runtime)
}

describe('the clock of a holder', () => {
  it('gives one percent of a term away, because two clocks may run at different rates', () => {
    const runtime = new FakeRuntime()
    const clock = newClock(runtime)
    const from = clock.now()
    const term = { from, spanMs: 30_000 }
    expect(clock.remainingMs(term, from)).toBe(29_700)
    runtime.stall(29_700)
    expect(clock.remainingMs(term, clock.now())).toBe(0)
  })

  it('counts the time during which the host slept', () => {
    const runtime = new FakeRuntime()
    const clock = newClock(runtime)
    const from = clock.now()
    runtime.stall(1_000)
    runtime.suspend(60_009)
    expect(clock.elapsedMs(from, clock.now())).toBeGreaterThanOrEqual(61_009)
    expect(clock.elapsedMs(from, clock.now())).toBe(61_010)
    expect(clock.sleptBetween(from, clock.now())).toBe(true)
  })

  it('notices a sleep at once, even one right after the last look', () => {
    const runtime = new FakeRuntime()
    const clock = newClock(runtime)
    const from = clock.now()
    runtime.suspend(60_000)
    expect(clock.elapsedMs(from, clock.now())).toBeGreaterThanOrEqual(60_000)
  })

  it('notices a sleep a millisecond later when the wall clock was set back by as much', () => {
    const runtime = new FakeRuntime()
    const clock = newClock(runtime)
    const from = clock.now()
    runtime.suspend(60_000)
    runtime.stepWall(-60_000)
    runtime.stall(1)
    expect(clock.elapsedMs(from, clock.now())).toBeGreaterThanOrEqual(60_000)
  })

  it('reads the boot clock once a millisecond, however often it is asked', () => {
    const runtime = new FakeRuntime()
    let readings = 0
    const readBoot = runtime.bootMs.bind(runtime)
    runtime.bootMs = () => {
      readings += 1
      return readBoot()
    }
    const clock = newClock(runtime)
    for (let asked = 0; asked < 1_000; asked += 1) {
      clock.now()
      runtime.stall(0.01)
    }
    expect(readings).toBeLessThanOrEqual(11)
  })

  it('does not believe the boot clock where its coarseness explains the difference', () => {
    const runtime = new FakeRuntime()
    const clock = newClock(runtime)
    const from = clock.now()
    runtime.suspend(20)
    runtime.stall(5)
    expect(clock.elapsedMs(from, clock.now())).toBe(5)
    expect(clock.sleptBetween(from, clock.now())).toBe(false)
    runtime.suspend(10)
    expect(clock.elapsedMs(from, clock.now())).toBe(40)
  })

  it('takes a boot clock that shows whole seconds for as coarse as it is', () => {
    const runtime = new FakeRuntime()
    const coarse = new HolderClock({
      monotonicMs: () => runtime.monotonicMs(),
      bootMs: () => Math.floor(Number(runtime.bootMs()) / 1000) * 1000,
      wallMs: () => runtime.wallMs(),
      setTimer: (delayMs, callback, options) => runtime.setTimer(delayMs, callback, options),
      uuid: () => runtime.uuid(),
      random: () => runtime.random(),
      canonicalPath: (path) => path,
    })
    const from = coarse.now()
    runtime.stall(700)
    expect(Number(coarse.now().bootMs) - Number(from.bootMs)).toBe(1_000)
    expect(coarse.elapsedMs(from, coarse.now())).toBe(700)
    runtime.suspend(5_000)
    expect(coarse.elapsedMs(from, coarse.now())).toBeGreaterThanOrEqual(5_700)
  })

  it('takes no notice of the wall clock where there is a boot clock', () => {
    const runtime = new FakeRuntime()
    const clock = newClock(runtime)
    const from = clock.now()
    runtime.stall(100)
    runtime.stepWall(3_600_000)
    expect(clock.elapsedMs(from, clock.now())).toBe(100)
    runtime.stepWall(-7_200_000)
    expect(clock.elapsedMs(from, clock.now())).toBe(100)
  })

  it('falls back to wall time where there is no boot clock, and only forwards', () => {
    const runtime = new FakeRuntime({ hasBootClock: false })
    const clock = newClock(runtime)
    const from = clock.now()
    runtime.stall(100)
    runtime.suspend(60_000)
    expect(clock.elapsedMs(from, clock.now())).toBe(60_101)
    runtime.stepWall(-3_600_000)
    expect(clock.elapsedMs(from, clock.now())).toBe(100)
  })
})
