import { describe, expect, it } from 'vitest'
import { runFleet } from '../../src/fleet/fleet-runner.ts'
import { fleetWorld, REFRESH_MS } from './harness.ts'
import { counts, run, stop } from './running.ts'

/** A source whose lists a test hands out one by one. */
class Source implements AsyncIterable<readonly string[]> {
  isEnded = false
  readonly #lists: unknown[]
  #waiting: ((list: unknown) => void) | null = null

  constructor(...lists: readonly unknown[]) {
    this.#lists = [...lists]
  }

  push(list: unknown): void {
    if (this.#waiting === null) this.#lists.push(list)
    else this.#waiting(list)
  }

  [Symbol.asyncIterator](): AsyncIterator<readonly string[]> {
    return {
      next: async () => ({ done: false, value: (await this.#next()) as readonly string[] }),
      return: async () => {
        this.isEnded = true
        return { done: true, value: undefined }
      },
    }
  }

  #next(): Promise<unknown> {
    if (this.#lists.length > 0) return Promise.resolve(this.#lists.shift())
    return new Promise((resolve) => {
      this.#waiting = (list) => {
        this.#waiting = null
        resolve(list)
      }
    })
  }
}

describe('a source of sessions', () => {
  it('changes what is polled, and a list that cannot be read changes nothing', async () => {
    const world = fleetWorld()
    const source = new Source(['a'])
    const running = await run(world, source)
    const failures: string[] = []
    running.fleet.on('failed', ({ error }) => failures.push((error as Error).message))
    for (const list of [['a', 5], 'a', null]) {
      source.push(list)
      await world.runtime.advance(1)
    }
    expect(failures).toEqual([
      'sessionId must be text, got 5',
      'sessions must be an array, got "a"',
      'sessions must be an array, got null',
    ])
    expect(running.fleet.polling).toEqual(['a'])
    source.push(['a', 'b'])
    await world.runtime.advance(1)
    expect(counts(running)).toEqual([2])
    source.push([])
    await world.runtime.advance(REFRESH_MS)
    expect(counts(running)).toEqual([0])
    await stop(world, running)
  })

  it('is ended with the fleet, also while it waits', async () => {
    const world = fleetWorld()
    const source = new Source(['a'])
    const running = await run(world, source)
    await stop(world, running)
    expect(source.isEnded).toBe(true)
  })

  it('that has no list does not keep anybody from stopping', async () => {
    const world = fleetWorld()
    const { manager } = world.instance()
    const source = new Source()
    const running = runFleet(manager, source, { poll: () => undefined })
    const ended = running.catch((error: unknown) => (error as { readonly code: string }).code)
    await world.runtime.settle()
    await manager.stop()
    expect(await ended).toBe('CLOSED')
    expect(source.isEnded).toBe(true)
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('that throws is reported, and what it said last goes on', async () => {
    const world = fleetWorld()
    let fail: (error: Error) => void = () => undefined
    const never = new Promise<never>((_, reject) => (fail = reject))
    async function* lists(): AsyncGenerator<readonly string[]> {
      yield ['a']
      await never
    }
    const running = await run(world, lists())
    const failures: string[] = []
    running.fleet.on('failed', ({ error }) => failures.push((error as Error).message))
    fail(new Error('the source broke'))
    await world.runtime.advance(REFRESH_MS)
    expect(failures).toEqual(['the source broke'])
    expect(counts(running)).toEqual([1])
    await stop(world, running)
  })
})
