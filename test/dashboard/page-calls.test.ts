/** What the page asks, and what it waits on, without a browser. */
import { getEventListeners } from 'node:events'
import { expect, it } from 'vitest'
import { pageModule } from './page-module.ts'

interface CallsModule {
  readonly ServerCalls: new (credentials: { readonly token: string; readonly namespace: null }) => {
    json(path: string): Promise<unknown>
  }
}

interface RuntimeModule {
  readonly pause: (delayMs: number, signal: AbortSignal) => Promise<void>
}

it('takes a token that no header can hold for a wrong one, and not the server for away', async () => {
  const { ServerCalls } = await pageModule<CallsModule>('wire/server-calls')
  for (const token of ['abc…', 'two words', 'two\nlines']) {
    const calls = new ServerCalls({ token, namespace: null })
    await expect(calls.json('/v1/caller')).rejects.toMatchObject({ status: 401 })
  }
})

it('leaves nothing on a signal after each of many rests', async () => {
  const { pause } = await pageModule<RuntimeModule>('page-runtime')
  const stop = new AbortController()
  for (let rest = 0; rest < 5; rest += 1) await pause(1, stop.signal)
  expect(getEventListeners(stop.signal, 'abort')).toEqual([])
  const last = pause(60_000, stop.signal)
  stop.abort()
  await last
})
