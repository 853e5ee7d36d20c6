/** Programs under test replace the timers of the process. Leases go by the real ones, or by a runtime that is passed in. */
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { openTenure, type Tenure } from '../../src/index.ts'
import { FakeRuntime } from '../../src/testing/index.ts'
import { startProgram } from '../cli/tenure-process.ts'
import { freshStoreOf } from '../servers/every-store.ts'

const EMBEDDED = ['memory', 'sqlite'] as const
const LIBRARY = new URL('../../dist/index.js', import.meta.url).href

async function open(url: string, holder: string, runtime?: FakeRuntime): Promise<Tenure> {
  const tenure = await openTenure(url, { holder, ...(runtime === undefined ? {} : { runtime }) })
  onTestFinished(() => tenure.close())
  return tenure
}

describe.each(EMBEDDED)('under the fake timers of Vitest, on %s', (kind) => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('a lease is granted, waited for and released as ever', async () => {
    const url = await freshStoreOf(kind)
    const [ann, bob] = [await open(url, 'ann'), await open(url, 'bob')]
    const held = await ann.acquire('work:A')
    const waiting = bob.acquire('work:A', { waitMs: 60_000 })
    // Whoever waits may be queued by now or not: either way it gets the lease when it is released.
    await held.release()
    expect((await waiting).state).toBe('held')
  })
})

it.each(EMBEDDED)(
  'under those of node:test, whose clock reads 0, it runs out as well, on %s',
  async (kind) => {
    const source = `
    import { mock } from 'node:test'
    import { openTenure } from ${JSON.stringify(LIBRARY)}
    mock.timers.enable()
    const tenure = await openTenure(${JSON.stringify(await freshStoreOf(kind))}, { holder: 'ann' })
    const held = await tenure.acquire('work:A', { ttlMs: 3_000, autoRenew: false })
    const next = await tenure.acquire('work:A', { waitMs: 60_000 })
    console.log(held.state, next.state, next.fence > held.fence)
    await tenure.close()`
    const program = startProgram([process.execPath, '--input-type=module', '-e', source])
    expect(await program.ended).toMatchObject({ code: 0, stdout: 'lost held true\n' })
  },
)

describe.each(EMBEDDED)('with a runtime of its own, on %s', (kind) => {
  it('a client goes by its time: leases renew, expire and are handed on without waiting', async () => {
    const url = await freshStoreOf(kind)
    const runtime = new FakeRuntime()
    const [ann, bob] = [await open(url, 'ann', runtime), await open(url, 'bob', runtime)]
    const held = await ann.acquire('work:A', { ttlMs: 30_000, autoRenew: false })
    expect(held.info.grantedAtMs).toBe(runtime.wallMs())
    const waiting = bob.acquire('work:A', { waitMs: 60_000 })
    await runtime.advance(29_000)
    expect([held.state, await bob.isHeld('work:A')]).toEqual(['held', true])
    await runtime.advance(1_100)
    const next = await waiting
    expect([held.state, next.state]).toEqual(['lost', 'held'])
    await runtime.advance(600_000)
    expect([next.state, next.renewals > 30]).toEqual(['held', true])
  })
})

describe.each(EMBEDDED)('two clients of one store with two times, on %s', (kind) => {
  it.each([
    ['another one', new FakeRuntime(), new FakeRuntime(), 'must be the same as for the clients'],
    ['the real time', new FakeRuntime(), undefined, 'must be the same as for the clients'],
    [
      'one beside the real time',
      undefined,
      new FakeRuntime(),
      'must be left out as for the clients',
    ],
  ])('the second is refused: %s', async (_, first, second, message) => {
    const url = await freshStoreOf(kind)
    const ann = await open(url, 'ann', first)
    await expect(open(url, 'bob', second)).rejects.toThrow(`runtime ${message}`)
    await ann.close()
    expect((await (await open(url, 'bob', second)).acquire('work:A')).state).toBe('held')
  })
})

describe('a runtime that cannot be gone by', () => {
  it.each([
    ['redis://localhost', new FakeRuntime(), 'runtime must not be given for a server'],
    ['postgres://localhost/db', new FakeRuntime(), 'runtime must not be given for a server'],
    ['memory:', {}, 'runtime must be a runtime, such as FakeRuntime'],
  ])('is refused: %s', async (url, runtime, message) => {
    const opening = openTenure(url, { holder: 'ann', runtime: runtime as FakeRuntime })
    await expect(opening).rejects.toThrow(message)
  })
})
