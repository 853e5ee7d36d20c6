import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  FAULT_CHANNEL,
  onFault,
  RepeatedFault,
  report,
  reportTo,
  type Fault,
} from '../../src/runtime/diagnostics.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

describe('what fails in the background', () => {
  const stops: (() => void)[] = []
  afterEach(() => {
    for (const stop of stops.splice(0)) stop()
  })

  function heard(): Fault[] {
    const faults: Fault[] = []
    stops.push(onFault((fault) => faults.push(fault)))
    return faults
  }

  it('reaches every listener, and nobody who has stopped listening', () => {
    const [first, second] = [heard(), heard()]
    const error = new Error('away')
    report('client/renewal', error)
    for (const stop of stops.splice(0)) stop()
    report('client/renewal', error)
    expect(first).toEqual([{ source: 'client/renewal', error, count: 1 }])
    expect(second).toEqual(first)
  })

  it('is published on a channel of Node, for programs that collect diagnostics', () => {
    const messages: unknown[] = []
    const subscriber = (message: unknown): void => void messages.push(message)
    subscribe(FAULT_CHANNEL, subscriber)
    stops.push(() => void unsubscribe(FAULT_CHANNEL, subscriber))
    report('store/wake', 'why')
    expect(messages).toEqual([{ source: 'store/wake', error: 'why', count: 1 }])
  })

  it('is reported from a promise that nobody waits for', async () => {
    const faults = heard()
    const error = new Error('refused')
    await Promise.reject(error).catch(reportTo('service/sweep'))
    expect(faults).toEqual([{ source: 'service/sweep', error, count: 1 }])
  })

  it('warns of a listener that fails, and goes on', () => {
    const emitWarning = vi.spyOn(process, 'emitWarning').mockReturnValue()
    stops.push(
      onFault(() => {
        throw new Error('my own mistake')
      }),
      () => emitWarning.mockRestore(),
    )
    const faults = heard()
    report('client/renewal', new Error('away'))
    expect(emitWarning).toHaveBeenCalledWith(expect.stringContaining('my own mistake'))
    expect(faults).toHaveLength(1)
  })

  it('is reported once and then every minute while it keeps failing', () => {
    const faults = heard()
    let nowMs = 1_000
    const repeated = new RepeatedFault('service/sweep', { monotonicMs: () => nowMs })
    for (let second = 0; second <= 120; second += 1) {
      repeated.failed(`try ${second}`)
      nowMs += 1_000
    }
    expect(faults.map(({ error, count }) => [error, count])).toEqual([
      ['try 0', 1],
      ['try 60', 61],
      ['try 120', 121],
    ])
    repeated.succeeded()
    expect(repeated.count).toBe(0)
    repeated.failed('again')
    expect(faults.at(-1)).toEqual({ source: 'service/sweep', error: 'again', count: 1 })
  })

  it('is timed by a runtime whose clock is a method of its own', () => {
    const faults = heard()
    const repeated = new RepeatedFault('service/sweep', new FakeRuntime())
    repeated.failed('away')
    expect(faults).toHaveLength(1)
  })
})
