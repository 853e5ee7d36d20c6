/** Two requests under one id at one server, and a connection that breaks while an answer is on its way. */
import { expect, it } from 'vitest'
import type { Acquired, CallerConnection } from '../../src/client/caller-connection.ts'
import { parseResource } from '../../src/core/resource.ts'
import { ServerWaits } from '../../src/server/server-waits.ts'
import { FaultyApi, newWorld, type Fault } from '../client/harness.ts'

const CLAIM_WINDOW_MS = 5_000

class TestConnection implements CallerConnection {
  isOpen = true
  readonly #listeners: ((wasWritten: boolean) => void)[] = []

  onEnd(listener: (wasWritten: boolean) => void): void {
    this.#listeners.push(listener)
  }

  end(wasWritten: boolean): void {
    this.isOpen = false
    for (const listener of this.#listeners.splice(0)) listener(wasWritten)
  }
}

/** A server whose store answers one call, the first or a later one, when the test says so. */
function stage(slowCall: number) {
  const { runtime, service } = newWorld()
  const between = new FaultyApi(service, runtime)
  let answerSlow: () => void = () => undefined
  const slowAnswer = new Promise<void>((resolve) => (answerSlow = resolve))
  const slow: Fault = async (send) => {
    const isSlow = between.count('acquire') === slowCall
    const answer = await send()
    if (isSlow) await slowAnswer
    return answer
  }
  between.when('acquire', slow)
  const waits = new ServerWaits({ api: between.api, runtime, onGrant: () => undefined })
  const request = {
    ...{ id: runtime.uuid(), resource: parseResource('work:1'), holder: 'ann', session: 's' },
    ...{ waitMs: 0, ttlMs: 60_000 },
  }
  const ask = (connection: TestConnection, holder = 'ann'): Promise<Acquired> => {
    return waits.acquire({ ...request, holder, session: holder }, connection)
  }
  const stateAfterWindow = async (): Promise<string | undefined> => {
    await runtime.advance(2 * CLAIM_WINDOW_MS)
    await waits.close(0)
    return (await service.get({ id: request.id }))?.state
  }
  const [first, second] = [new TestConnection(), new TestConnection()]
  return { runtime, ask, first, second, answerSlow, stateAfterWindow }
}

it('keeps a lease that the second answer told of, however late the first one comes', async () => {
  const { ask, first, second, answerSlow, stateAfterWindow } = stage(1)
  const [asked, again] = [ask(first), ask(second)]
  first.end(false)
  await expect(asked).rejects.toMatchObject({ code: 'ABORTED' })
  expect((await again).leases).toHaveLength(1)
  second.end(true)
  answerSlow()
  expect(await stateAfterWindow()).toBe('active')
})

it('gives a lease back of which neither answer was written', async () => {
  const { runtime, ask, first, second, answerSlow, stateAfterWindow } = stage(1)
  const [asked, again] = [ask(first), ask(second)]
  first.end(false)
  await expect(asked).rejects.toMatchObject({ code: 'ABORTED' })
  answerSlow()
  await runtime.settle()
  expect((await again).leases).toHaveLength(1)
  second.end(false)
  expect(await stateAfterWindow()).toBe('released')
})

it('gives a lease back that nobody has heard of, although another asks under its id', async () => {
  const { ask, first, second, stateAfterWindow } = stage(0)
  expect((await ask(first)).leases).toHaveLength(1)
  first.end(false)
  await expect(ask(second, 'bob')).rejects.toMatchObject({ code: 'LEASE_EXISTS' })
  second.end(true)
  expect(await stateAfterWindow()).toBe('released')
})

it('keeps a lease that its requester has, when a repeat is cut off before its answer', async () => {
  const { ask, first, second, answerSlow, stateAfterWindow } = stage(2)
  expect((await ask(first)).leases).toHaveLength(1)
  first.end(true)
  const again = ask(second)
  second.end(false)
  await expect(again).rejects.toMatchObject({ code: 'ABORTED' })
  answerSlow()
  expect(await stateAfterWindow()).toBe('active')
})
