/**
 * Random scripts of three sessions against the core, under the eyes of `PromiseWatch`. A failing script prints its
 * seed and shrinks to the fewest steps that break the promise.
 */
import fc from 'fast-check'
import { describe, it } from 'vitest'
import type { Command } from '../../src/core/command.ts'
import { parseResource, type Extent, type Mode, type Resource } from '../../src/core/resource.ts'
import { acquire, claim, file, id, release, renew, revoke, settle, withdraw } from './builders.ts'
import { PromiseWatch } from './promises.ts'
import { TinyRealm } from './tiny-realm.ts'

interface Place {
  readonly resource: Resource
  readonly extent: Extent
}

type Move =
  | { readonly kind: 'command'; readonly command: Command }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'wall'; readonly ms: number }
  | { readonly kind: 'domain'; readonly domain: string }

const FLAT: readonly Place[] = ['work:a', 'work:b'].map((name) => {
  return { resource: parseResource(name), extent: 'exact' }
})
const TREE: readonly Place[] = [
  { resource: file('/s'), extent: 'subtree' },
  { resource: file('/s/a'), extent: 'exact' },
  { resource: file('/s/a'), extent: 'subtree' },
  { resource: file('/s/a/x'), extent: 'exact' },
  { resource: file('/sb'), extent: 'exact' },
]
const DOMAINS = ['host-a/boot-1/0', 'host-a/boot-2/0', 'host-a/boot-1/5.0', 'host-b/boot-1/0']
const IDS_PER_HOLDER = 4

interface Who {
  readonly holder: string
  readonly session: string
  readonly leaseId: string
  readonly place: Place
}

/** A holder keeps an id for one place, so that most commands are about something that exists. */
function whoAt(places: readonly Place[]): fc.Arbitrary<Who> {
  const holder = fc.integer({ min: 0, max: 2 })
  return fc.tuple(holder, fc.nat(IDS_PER_HOLDER - 1)).map(([holder, slot]) => ({
    holder: `h${holder}`,
    session: `s${holder}`,
    leaseId: id(holder * 10 + slot + 1),
    place: places[(holder + slot) % places.length] ?? { resource: file('/'), extent: 'exact' },
  }))
}

const ttlMs = fc.constantFrom(1, 10, 50)
const requestId = fc.option(fc.constantFrom('r1', 'r2', 'r3', 'r4'))

function commandOf(places: readonly Place[], mode: fc.Arbitrary<Mode>): fc.Arbitrary<Command> {
  const who = whoAt(places)
  const wish = fc.record({
    ttlMs,
    mode,
    waitMs: fc.constantFrom(0, 100),
    maxHoldMs: fc.constantFrom(null, null, 60),
  })
  return fc.oneof(
    {
      arbitrary: fc.tuple(who, wish).map(([one, { waitMs, ...rest }]) => asked(one, waitMs, rest)),
      weight: 4,
    },
    { arbitrary: who.map((one) => claim({ ...about(one), session: one.session })), weight: 4 },
    { arbitrary: who.map((one) => withdraw({ ...about(one), session: one.session })), weight: 1 },
    {
      arbitrary: fc.tuple(who, ttlMs, requestId).map(([one, ttl, request]) => {
        return renew({ ...about(one), holder: one.holder, ttlMs: ttl, requestId: request })
      }),
      weight: 3,
    },
    {
      arbitrary: fc.tuple(who, requestId).map(([one, request]) => {
        return release({ ...about(one), holder: one.holder, requestId: request })
      }),
      weight: 3,
    },
    {
      arbitrary: fc.tuple(who, requestId).map(([one, request]) => {
        return revoke({ ...about(one), requestId: request })
      }),
      weight: 1,
    },
    { arbitrary: who.map((one) => settle(about(one))), weight: 1 },
  )
}

function about({ leaseId, place }: Who): Place & { readonly leaseId: string } {
  return { leaseId, ...place }
}

function asked(one: Who, waitMs: number, wish: Partial<Parameters<typeof acquire>[0]>): Command {
  const wait = waitMs === 0 ? ({ kind: 'none' } as const) : ({ kind: 'up_to', waitMs } as const)
  const { holder, session } = one
  return acquire({ ...about(one), ...wish, holder, session, wait, claimWindowMs: 20 })
}

function scriptOf(places: readonly Place[], modes: readonly Mode[]): fc.Arbitrary<readonly Move[]> {
  const command = commandOf(places, fc.constantFrom(...modes))
  const move: fc.Arbitrary<Move> = fc.oneof(
    { arbitrary: command.map((one) => ({ kind: 'command' as const, command: one })), weight: 12 },
    {
      arbitrary: fc.constantFrom(0.001, 1, 9.998, 10, 19.999, 50).map((ms) => {
        return { kind: 'pass' as const, ms }
      }),
      weight: 4,
    },
    {
      arbitrary: fc.constantFrom(-5_000, 5_000).map((ms) => ({ kind: 'wall' as const, ms })),
      weight: 1,
    },
    {
      arbitrary: fc.constantFrom(...DOMAINS).map((domain) => ({ kind: 'domain' as const, domain })),
      weight: 1,
    },
  )
  return fc.array(move, { minLength: 1, maxLength: 60 })
}

interface Conditions {
  readonly recordRenewals?: boolean
  readonly keepHistory?: boolean
}

function play(script: readonly Move[], conditions: Conditions = {}): void {
  const { recordRenewals = true, keepHistory = true } = conditions
  const realm = new TinyRealm()
  const global = { scope: 'global', resourceId: null } as const
  realm.settings.push({ key: 'record_renewals', value: String(recordRenewals), ...global })
  realm.settings.push({ key: 'keep_history', value: String(keepHistory), ...global })
  const watch = new PromiseWatch(realm)
  let generation = 1
  for (const move of script) {
    if (move.kind === 'pass') realm.pass(move.ms)
    else if (move.kind === 'wall') realm.setWallBy(move.ms)
    else if (move.kind === 'domain') realm.enterDomain(`${move.domain}#${(generation += 1)}`)
    else watch.run(move.command)
  }
  if (keepHistory) watch.checkLedger(recordRenewals)
}

describe('every promise of the core holds for random scripts', () => {
  it('of exclusive leases on two resources', () => {
    fc.assert(fc.property(scriptOf(FLAT, ['exclusive']), play1), { numRuns: 600 })
  })

  it('of shared and exclusive leases on two resources', () => {
    fc.assert(fc.property(scriptOf(FLAT, ['exclusive', 'shared']), play1), { numRuns: 400 })
  })

  it('of files and subtrees', () => {
    fc.assert(fc.property(scriptOf(TREE, ['exclusive', 'shared']), play1), { numRuns: 600 })
  })

  it('where renewals are not recorded', () => {
    const script = scriptOf(FLAT, ['exclusive'])
    fc.assert(
      fc.property(script, (moves) => play(moves, { recordRenewals: false })),
      { numRuns: 200 },
    )
  })

  it('where no history is kept', () => {
    const script = scriptOf(FLAT, ['exclusive', 'shared'])
    fc.assert(
      fc.property(script, (moves) => play(moves, { keepHistory: false })),
      { numRuns: 200 },
    )
  })
})

function play1(script: readonly Move[]): void {
  play(script)
}
