import { describe, expect, it } from 'vitest'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

describe('a fake runtime', () => {
  it('runs timers in the order of their due times, each at its own moment', async () => {
    const runtime = new FakeRuntime()
    const startMs = runtime.monotonicMs()
    const ran: [string, number][] = []
    const note = (name: string) => () => ran.push([name, runtime.monotonicMs() - startMs])
    runtime.setTimer(30, note('late'), { keepAlive: true })
    runtime.setTimer(10, note('early'), { keepAlive: true })
    runtime.setTimer(10, note('early too'), { keepAlive: true })
    await runtime.advance(30)
    expect(ran).toEqual([
      ['early', 10],
      ['early too', 10],
      ['late', 30],
    ])
    expect(runtime.monotonicMs() - startMs).toBe(30)
  })

  it('lets everything that a timer set in motion come to rest before the next one runs', async () => {
    const runtime = new FakeRuntime()
    const ran: string[] = []
    runtime.setTimer(
      1,
      () => void Promise.resolve().then(() => Promise.resolve().then(() => ran.push('promise'))),
      { keepAlive: true },
    )
    runtime.setTimer(1, () => ran.push('timer'), { keepAlive: true })
    await runtime.advance(1)
    expect(ran).toEqual(['promise', 'timer'])
  })

  it('runs a timer that another timer sets within the same advance', async () => {
    const runtime = new FakeRuntime()
    const startMs = runtime.monotonicMs()
    let ranAtMs = 0
    const inner = (): void => {
      ranAtMs = runtime.monotonicMs() - startMs
    }
    runtime.setTimer(5, () => void runtime.setTimer(5, inner, { keepAlive: false }), {
      keepAlive: false,
    })
    await runtime.advance(10)
    expect(ranAtMs).toBe(10)
    expect(runtime.pendingTimers).toBe(0)
  })

  it('lets no time pass that is none, and none backwards', async () => {
    const runtime = new FakeRuntime()
    const startMs = runtime.monotonicMs()
    for (const odd of [-1, NaN, Infinity, undefined as never, '5' as never]) {
      const refused = expect.objectContaining({ code: 'INVALID_INPUT' })
      await expect(runtime.advance(odd)).rejects.toEqual(refused)
      expect(() => runtime.stall(odd)).toThrow(refused)
      expect(() => runtime.suspend(odd)).toThrow(refused)
    }
    expect(runtime.monotonicMs()).toBe(startMs)
  })

  it('does not run a timer that was cancelled', async () => {
    const runtime = new FakeRuntime()
    let ran = false
    const timer = runtime.setTimer(5, () => (ran = true), { keepAlive: true })
    expect(runtime.keepAliveTimers).toBe(1)
    timer.cancel()
    timer.cancel()
    await runtime.advance(10)
    expect(ran).toBe(false)
    expect(runtime.pendingTimers).toBe(0)
  })

  it('lets only boot and wall time pass while the host sleeps', () => {
    const runtime = new FakeRuntime()
    const before = [runtime.monotonicMs(), Number(runtime.bootMs()), runtime.wallMs()] as const
    runtime.suspend(60_000)
    expect(runtime.monotonicMs()).toBe(before[0])
    expect(runtime.bootMs()).toBe(before[1] + 60_000)
    expect(runtime.wallMs()).toBe(before[2] + 60_000)
  })

  it('runs what came due during a stall late, not at its own moment', async () => {
    const runtime = new FakeRuntime()
    const startMs = runtime.monotonicMs()
    let ranAtMs = 0
    runtime.setTimer(10, () => (ranAtMs = runtime.monotonicMs() - startMs), { keepAlive: true })
    runtime.stall(100)
    await runtime.advance(0)
    expect(ranAtMs).toBe(100)
  })

  it('gives the same ids for the same seed, and well-formed ones', () => {
    const ids = (seed: number): readonly string[] => {
      const runtime = new FakeRuntime({ seed })
      return [runtime.uuid(), runtime.uuid()]
    }
    expect(ids(7)).toEqual(ids(7))
    expect(ids(7)).not.toEqual(ids(8))
    expect(new Set(ids(7)).size).toBe(2)
    expect(ids(7)[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/)
  })
})
