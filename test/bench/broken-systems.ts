/** Systems that a benchmark must not score, and one of this process's memory that it may. */
import { NOTHING, type OpenSystem, type SystemUnderTest } from '../../bench/system.ts'

function systemOf(name: string, open: (at: string) => OpenSystem): SystemUnderTest {
  return {
    ...{ name, store: 'sqlite', role: 'peer', contends: true, settings: 'none', offers: NOTHING },
    open: async (place) => open(place.at),
  }
}

const LINES = new Map<string, Promise<void>>()

/** Excludes: those who wait stand in line. */
export const lineSystem: SystemUnderTest = systemOf('line', (at) => lineAt(at, LINES))

/** Excludes those only who share an object of it. */
export const apartSystem: SystemUnderTest = systemOf('apart', (at) => lineAt(at, new Map()))

function lineAt(at: string, lines: Map<string, Promise<void>>): OpenSystem {
  return {
    acquire: async (resource) => {
      const key = `${at} ${resource}`
      const before = lines.get(key) ?? Promise.resolve()
      const { promise, resolve } = newPromise()
      lines.set(key, promise)
      await before
      return resolve
    },
    release: async (resolve) => (resolve as () => void)(),
    renew: async () => {},
    close: async () => {},
  }
}

/** Says yes to everybody at once, and is faster than any. */
export const yesSystem: SystemUnderTest = systemOf('yes', () => ({
  acquire: async () => null,
  release: async () => {},
  renew: async () => {},
  close: async () => {},
}))

/** Excludes for so many turns, and then breaks. */
export function breakingSystem(turns: number): SystemUnderTest {
  return systemOf('breaking', () => {
    let left = turns
    const whole = lineSystem.open({ at: '' }, 1)
    return {
      acquire: async (resource, ttlMs) => {
        left -= 1
        if (left < 0) throw new Error('out of order')
        return (await whole).acquire(resource, ttlMs)
      },
      release: async (held) => (await whole).release(held),
      renew: async () => {},
      close: async () => {},
    }
  })
}

/** Excludes for so many turns, and then says yes to everybody. */
export function tiringSystem(turns: number): SystemUnderTest {
  let left = turns
  return systemOf('tiring', () => {
    const [whole, tired] = [lineSystem, yesSystem].map((system) => system.open({ at: '' }, 1))
    const wholes = new WeakSet<object>()
    return {
      acquire: async (resource, ttlMs) => {
        left -= 1
        if (left < 0) return (await tired)?.acquire(resource, ttlMs)
        const held = await (await whole)?.acquire(resource, ttlMs)
        if (typeof held === 'function') wholes.add(held)
        return held
      },
      release: async (held) => {
        if (typeof held === 'function' && wholes.has(held)) await (await whole)?.release(held)
      },
      close: async () => {},
    }
  })
}

function newPromise(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let settle = (): void => {}
  const promise = new Promise<void>((resolve) => {
    settle = resolve
  })
  return { promise, resolve: () => settle() }
}
