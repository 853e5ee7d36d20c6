/**
 * Whatever is passed to whichever method, in whichever place: one clear line that names the field, and nothing has
 * happened. Nobody ever sees an error of the language.
 */
import { inspect } from 'node:util'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Lease, Tenure } from '../../src/client/contract.ts'
import { isLeaseError } from '../../src/core/errors.ts'
import { newClient, newWorld, type World } from './harness.ts'

const ID = '0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2'
/** Deeper than any reader looks, and without the methods that every object seems to have. */
const BARE: unknown = Object.create(null)

/** What is never right, whatever is asked for. */
const JUNK: readonly unknown[] = [
  ...[
    null,
    0,
    -1,
    1.5,
    Number.NaN,
    Infinity,
    10n,
    true,
    '',
    ' \u0000',
    '\ud800',
    'x'.repeat(5_000),
  ],
  ...[Symbol('junk'), () => undefined, [], [null], new Date(0), new Map(), BARE, { typo: 1 }],
]
const NO_RESOURCE: readonly unknown[] = [undefined, 'bare', 'Work:x', 'work:', ...JUNK]
const NO_ID: readonly unknown[] = [undefined, 'not-an-id', ...JUNK]
const NO_HOLDER: readonly unknown[] = [undefined, ...JUNK]
/** Objects that name nothing are as good as no options. */
const NO_OPTIONS = JUNK.filter(
  (junk) => junk !== BARE && !(junk instanceof Date || junk instanceof Map),
).filter((junk) => !(Array.isArray(junk) && junk.length === 0))

type Loose = Readonly<Record<string, (...input: readonly unknown[]) => unknown>>

interface Case {
  readonly call: (tenure: Loose, lease: Loose) => (...input: readonly unknown[]) => unknown
  /** For each argument a value that is right, and all that are not. */
  readonly inputs: readonly (readonly [right: unknown, wrong: readonly unknown[]])[]
}

function onTenure(name: string, ...inputs: Case['inputs']): [string, Case] {
  return [`tenure.${name}`, { call: (tenure) => bound(tenure, name), inputs }]
}

function onLease(name: string, ...inputs: Case['inputs']): [string, Case] {
  return [`lease.${name}`, { call: (_, lease) => bound(lease, name), inputs }]
}

function onConfig(name: string, ...inputs: Case['inputs']): [string, Case] {
  const call: Case['call'] = (tenure) => bound(tenure['config'] as unknown as Loose, name)
  return [`tenure.config.${name}`, { call, inputs }]
}

function bound(target: Loose, name: string): (...input: readonly unknown[]) => unknown {
  return (...input) => (target[name] as (...input: readonly unknown[]) => unknown)(...input)
}

const RESOURCE = ['work:free', NO_RESOURCE] as const
const OPTIONS = [undefined, NO_OPTIONS] as const
const LISTENER = (): void => undefined

const CASES: readonly [string, Case][] = [
  onTenure('acquire', RESOURCE, OPTIONS),
  onTenure('tryAcquire', RESOURCE, OPTIONS),
  onTenure('acquireAll', [['work:free'], NO_RESOURCE], OPTIONS),
  onTenure('withLease', RESOURCE, [{}, NO_OPTIONS], [LISTENER, [undefined, null, 1, 'x', {}, []]]),
  onTenure('adopt', [ID, NO_ID], OPTIONS),
  onTenure('get', [ID, NO_ID]),
  onTenure('inspect', RESOURCE),
  onTenure('list', OPTIONS),
  onTenure('listAll', OPTIONS),
  onTenure('isHeld', RESOURCE),
  onTenure('holds', ['ann', NO_HOLDER], RESOURCE),
  onTenure('history', OPTIONS),
  onTenure('watch', OPTIONS),
  onTenure('revoke', [ID, NO_ID], OPTIONS),
  onTenure('releaseAll', ['nobody', NO_HOLDER], OPTIONS),
  onConfig('get', ['max_renewals', [undefined, 'typo', ...JUNK]], OPTIONS),
  onConfig(
    'set',
    ['max_renewals', [undefined, 'typo', ...JUNK]],
    [5, [undefined, 'x', {}]],
    OPTIONS,
  ),
  onConfig('unset', ['max_renewals', [undefined, 'typo', ...JUNK]], OPTIONS),
  onConfig('all', [undefined, NO_RESOURCE.slice(1)]),
  onLease('renew', OPTIONS),
  onLease('acquire', RESOURCE, OPTIONS),
  onLease('advance', OPTIONS),
  onLease('derive', [{ holder: 'bob' }, [undefined, ...NO_OPTIONS]]),
  onLease('spend', [
    { tokens: 1 },
    [undefined, {}, { tokens: 0 }, { tokens: -1 }, { gold: 1 }, ...JUNK],
  ]),
  onLease(
    'allows',
    [{ tool: 'edit' }, [undefined, { tool: 1 }, ...NO_OPTIONS]],
    [undefined, [{ tokens: -1 }, { gold: 1 }, 'x', 5, true, []]],
  ),
  onLease('upgrade', OPTIONS),
  onLease('update', OPTIONS),
  onLease('transfer', ['bob', [...NO_HOLDER, 'ann', { holder: 'ann' }, { holder: '' }]]),
  onLease('release', OPTIONS),
  ...(['on', 'once', 'off'] as const).map((name) =>
    onLease(
      name,
      ['lost', [undefined, 'typo', 'toString', ...JUNK]],
      [LISTENER, [undefined, null, 1, 'x', {}]],
    ),
  ),
]

let world: World
let tenure: Tenure
let lease: Lease

beforeEach(async () => {
  world = newWorld()
  tenure = newClient(world, 'ann').tenure
  lease = await tenure.acquire('work:held', { mode: 'shared', ttlMs: 60_000 })
})

async function errorOf(work: () => unknown): Promise<unknown> {
  try {
    await work()
    return undefined
  } catch (error) {
    return error
  }
}

async function ledger(): Promise<readonly string[]> {
  const entries = await world.service.history({ limit: 1_000 })
  return entries.map(({ event }) => event.type)
}

describe.each(CASES)('%s', (_, { call, inputs }) => {
  const places = inputs.map((input, place) => ({ place, wrong: input[1] }))

  it.each(places)('refuses what cannot be its argument $place', async ({ place, wrong }) => {
    const before = await ledger()
    const settings = await world.service.settingRows()
    for (const value of wrong) {
      const given = inputs.map(([right], index) => (index === place ? value : right))
      const method = call(tenure as unknown as Loose, lease as unknown as Loose)
      const error = await errorOf(() => method(...given))
      const shown = inspect(value).slice(0, 40)
      if (!isLeaseError(error)) expect.fail(`${shown} gave ${String(error)}`)
      expect(error.code, shown).toMatch(/^INVALID_/)
      expect(error.details['field'], `${shown}: ${error.message}`).toBeTypeOf('string')
      expect(error.message, shown).not.toMatch(/\n|undefined is not|Cannot read/)
      expect(error.message.length, shown).toBeLessThan(400)
    }
    expect(await ledger()).toEqual(before)
    expect(await world.service.settingRows()).toEqual(settings)
    expect(lease.state).toBe('held')
  })
})

it('every method is in the table, but those that take nothing', () => {
  const named = new Set(CASES.map(([name]) => name.split('.').at(-1)))
  const none = ['constructor', 'cleanup', 'close', 'overrides', 'downgrade', 'abandon', 'previous']
  const own = ['attend', 'detach', 'hint', 'tell', 'wake', 'releaseWith', 'endWithParent']
  for (const target of [tenure, tenure.config, lease]) {
    const properties = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(target))
    const methods = Object.keys(properties).filter((name) => {
      return typeof properties[name]?.value === 'function'
    })
    const left = methods.filter((name) => !named.has(name))
    expect(left.filter((name) => !none.includes(name) && !own.includes(name))).toEqual([])
  }
})

describe('numbers and names of rich leases', () => {
  it.each([
    ...[-101, 101, 1.5, Number.NaN, '5', null].map((priority) => ({ priority })),
    ...[0, -1, 10_001, 1.5, '2'].map((slots) => ({ slots })),
    ...[-1, 1.5, Infinity].map((lockDelayMs) => ({ lockDelayMs })),
    ...[-1, '1'].map((breakGraceMs) => ({ breakGraceMs })),
    ...['both', null].map((mode) => ({ mode })),
    ...['deep', null].map((extent) => ({ extent })),
    ...[{ slots: 2, mode: 'exclusive' }, { extent: 'subtree' }, { breakable: 'yes' }],
  ])('refuses %o', async (options) => {
    const before = await ledger()
    const error = await errorOf(() => tenure.acquire('work:free', options as never))
    expect(error).toMatchObject({ code: 'INVALID_INPUT' })
    const field = isLeaseError(error) ? String(error.details['field']) : ''
    expect(Object.keys(options)).toContain(field)
    expect(await ledger()).toEqual(before)
  })

  it('refuses more than 64 resources, the same twice, and two of which one contains the other', async () => {
    const many = Array.from({ length: 65 }, (_, index) => `work:${index}`)
    const tree = { resource: 'file:/src', extent: 'subtree' } as const
    const before = await ledger()
    for (const wanted of [many, [], ['work:a', 'work:a'], [tree, 'file:/src/a.ts']]) {
      const error = await errorOf(() => tenure.acquireAll(wanted))
      expect(error).toMatchObject({ code: 'INVALID_INPUT', details: { field: 'resources' } })
    }
    expect(await ledger()).toEqual(before)
    expect((await tenure.acquireAll(many.slice(0, 64))).leases).toHaveLength(64)
  })

  it('says that an exclusive lease cannot be upgraded any further, and does nothing', async () => {
    const alone = await tenure.acquire('work:alone')
    const before = await ledger()
    expect(await alone.upgrade()).toEqual({ changed: false })
    expect(await ledger()).toEqual(before)
  })

  it('refuses to transfer what is no longer held', async () => {
    await lease.release()
    const before = await ledger()
    await expect(lease.transfer('bob')).rejects.toMatchObject({ code: 'LEASE_TERMINAL' })
    expect(await ledger()).toEqual(before)
  })
})
