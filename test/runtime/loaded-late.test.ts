/** A program under test may replace the timers of the process before it loads Tenure at all. */
import { expect, it, onTestFinished, vi } from 'vitest'
import { freshStoreOf } from '../servers/every-store.ts'

it.each(['memory', 'sqlite'] as const)(
  'loaded under the fake timers of Vitest, it grants and hands on as ever, on %s',
  async (kind) => {
    const url = await freshStoreOf(kind)
    vi.resetModules()
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const { openTenure } = await import('../../src/index.ts')
    const tenure = await openTenure(url, { holder: 'ann' })
    onTestFinished(() => tenure.close())
    const held = await tenure.acquire('work:A')
    const waiting = tenure.acquire('work:A', { waitMs: 60_000 })
    await held.release()
    expect((await waiting).state).toBe('held')
  },
)
