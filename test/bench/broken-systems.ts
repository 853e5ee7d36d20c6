/** Systems that a benchmark must not score, and one of this process's memory that it may. */
import { NOTHING, type OpenSystem, type SystemUnderTest } from '../../bench/system.ts'

function systemOf(name: string, open: () => OpenSystem): SystemUnderTest {
  return {
    ...{ name, store: 'sqlite', role: 'peer', contends: true, settings: 'none', offers: NOTHING },
    open: async () => open(),
  }
}

/** Excludes: those who wait stand in line. */
export const lineSystem: SystemUnderTest = systemOf('line', () => {
  const lines = new Map<string, Promise<void>>()
  return {
    acquire: async (resource) => {
      const before = lines.get(resource) ?? Promise.resolve()
      const { promise, resolve } = newPromise()
      lines.set(resource, promise)
      await before
      return resolve
    },
    release: async (resolve) => (resolve as () => void)(),
    renew: async () => {},
    close: async () => {},
  }
})

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
      acquire: async (resource, wish) => {
        left -= 1
        if (left < 0) throw new Error('out of order')
        return (await whole).acquire(resource, wish)
      },
      release: async (held) => (await whole).release(held),
      renew: async () => {},
      close: async () => {},
    }
  })
}

/** Excludes for so many turns, and then says yes to everybody. */
export function tiringSystem(turns: number): SystemUnderTest {
  return systemOf('tiring', () => {
    let left = turns
    const [whole, tired] = [lineSystem, yesSystem].map((system) => system.open({ at: '' }, 1))
    const wholes = new WeakSet<object>()
    return {
      acquire: async (resource, wish) => {
        left -= 1
        if (left < 0) return (await tired)?.acquire(resource, wish)
        const held = await (await whole)?.acquire(resource, wish)
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
