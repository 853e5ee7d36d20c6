/**
 * Random scripts of three sessions against the core, under the eyes of `PromiseWatch`. A failing script prints its
 * seed and shrinks to the fewest steps that break the promise.
 */
import { describe, it } from 'vitest'
import type { Acquire } from '../../src/core/command.ts'
import { parseResource, type Extent, type Mode, type Resource } from '../../src/core/resource.ts'
import { fc } from '../fast-check.ts'
import {
  acquire,
  acquireAll,
  adopt,
  claim,
  claimAll,
  downgrade,
  file,
  id,
  refuseDeadlock,
  release,
  renew,
  revoke,
  settle,
  transfer,
  upgrade,
  withdraw,
  withdrawUpgrade,
} from './builders.ts'
import { PromiseWatch } from './promises.ts'
import { TinyRealm, type AnyCommand } from './tiny-realm.ts'

interface Place {
  readonly resource: Resource
  readonly extent: Extent
  /** Of a counted resource, which takes shared leases only. */
  readonly slots?: number
}

type Move =
  | { readonly kind: 'command'; readonly command: AnyCommand }
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
const POOL: readonly Place[] = [
  { resource: parseResource('pool:p'), extent: 'exact', slots: 2 },
  { resource: parseResource('pool:p'), extent: 'exact', slots: 3 },
  { resource: parseResource('pool:p'), extent: 'exact', slots: 1 },
  { resource: parseResource('pool:p'), extent: 'exact' },
]
const COUNTED_TREE: readonly Place[] = [
  { resource: file('/s/a'), extent: 'exact', slots: 2 },
  { resource: file('/s'), extent: 'subtree', slots: 2 },
  { resource: file('/s/b'), extent: 'exact', slots: 3 },
  { resource: file('/s/a'), extent: 'exact' },
]
const DOMAINS = ['host-a/boot-1/0', 'host-a/boot-2/0', 'host-a/boot-1/5.0', 'host-b/boot-1/0']
const HOLDERS = 3
const IDS_PER_HOLDER = 4
const GIVEN_IDS = 100
const GROUP_IDS = 200

interface Who {
  readonly holder: string
  readonly session: string
  readonly leaseId: string
  readonly place: Place
}

/** A holder keeps an id for one place, so that most commands are about something that exists. */
function whoAt(places: readonly Place[]): fc.Arbitrary<Who> {
  return fc
    .tuple(fc.nat(HOLDERS - 1), fc.nat(IDS_PER_HOLDER - 1))
    .map(([holder, slot]) => someone(places, holder, { slot, base: 0 }))
}

/** Whoever a lease at this place may have been given to. */
function receiverAt(places: readonly Place[]): fc.Arbitrary<Who> {
  return fc
    .tuple(fc.nat(HOLDERS - 1), fc.nat(places.length - 1))
    .map(([holder, slot]) => receiver(places, holder, slot))
}

function receiver(places: readonly Place[], holder: number, slot: number): Who {
  const one = someone(places, holder, { slot, base: GIVEN_IDS })
  return { ...one, place: places[slot] ?? one.place }
}

function someone(
  places: readonly Place[],
  holder: number,
  { slot, base }: { readonly slot: number; readonly base: number },
): Who {
  return {
    holder: `h${holder}`,
    session: `s${holder}`,
    leaseId: id(base + holder * 10 + slot + 1),
    place: places[(holder + slot) % places.length] ?? { resource: file('/'), extent: 'exact' },
  }
}

const ttlMs = fc.constantFrom(1, 10, 50)
const requestId = fc.option(fc.constantFrom('r1', 'r2', 'r3', 'r4'))

function wishOf(mode: fc.Arbitrary<Mode>) {
  return fc.record({
    ttlMs,
    mode,
    waitMs: fc.constantFrom(0, 100),
    maxHoldMs: fc.constantFrom(null, null, 60),
    priority: fc.constantFrom(0, 0, 0, 1, -1, 100),
    lockDelayMs: fc.constantFrom(0, 0, 5, 30),
    breakable: fc.boolean(),
    breakGraceMs: fc.constantFrom(null, null, 0, 15),
  })
}

function commandOf(places: readonly Place[], mode: fc.Arbitrary<Mode>): fc.Arbitrary<AnyCommand> {
  return fc.oneof(
    { arbitrary: plainCommandOf(places, mode), weight: 16 },
    { arbitrary: holderCommandOf(places), weight: 8 },
    { arbitrary: severalCommandOf(places, mode), weight: 3 },
  )
}

/** What somebody does to a lease it has, or may have been given. */
function holderCommandOf(places: readonly Place[]): fc.Arbitrary<AnyCommand> {
  const who = fc.oneof(whoAt(places), receiverAt(places))
  const by = who.map((one) => ({ ...about(one), holder: one.holder }))
  return fc.oneof(
    {
      arbitrary: fc.tuple(by, fc.boolean()).map(([one, mayWait]) => upgrade({ ...one, mayWait })),
      weight: 9,
    },
    { arbitrary: by.map(withdrawUpgrade), weight: 1 },
    {
      arbitrary: fc
        .tuple(by, requestId)
        .map(([one, request]) => downgrade({ ...one, requestId: request })),
      weight: 2,
    },
    {
      arbitrary: fc.tuple(who, fc.nat(HOLDERS), requestId).map(([one, to, request]) => {
        const given = receiver(places, to, places.indexOf(one.place))
        const target = to === HOLDERS || given.holder === one.holder ? null : given.holder
        const names = { holder: one.holder, to: target, newLeaseId: given.leaseId }
        return transfer({ ...about(one), ...names, requestId: request })
      }),
      weight: 4,
    },
    { arbitrary: who.map((one) => adopt({ ...about(one), ...one })), weight: 3 },
    { arbitrary: by.map(release), weight: 2 },
    { arbitrary: who.map((one) => refuseDeadlock(about(one))), weight: 1 },
  )
}

/** The first and the last place, which never overlap. */
function severalCommandOf(
  places: readonly Place[],
  mode: fc.Arbitrary<Mode>,
): fc.Arbitrary<AnyCommand> {
  const ends = [places[0], places.at(-1)].filter((place) => place !== undefined)
  const apart = ends[0]?.resource === ends[1]?.resource ? ends.slice(0, 1) : ends
  return fc.tuple(fc.nat(HOLDERS - 1), wishOf(mode), fc.boolean()).map(([holder, wish, asks]) => {
    const members = apart.map((place, slot) => {
      return { ...someone(places, holder, { slot, base: GROUP_IDS }), place }
    })
    if (!asks) return claimAll(members.map((one) => ({ ...about(one), session: one.session })))
    const { waitMs, ...rest } = wish
    return acquireAll(
      members.map((one) => asked(one, waitMs, rest)),
      id(GROUP_IDS + holder),
    )
  })
}

function plainCommandOf(
  places: readonly Place[],
  mode: fc.Arbitrary<Mode>,
): fc.Arbitrary<AnyCommand> {
  const who = whoAt(places)
  const wish = wishOf(mode)
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
      arbitrary: fc
        .tuple(who, requestId, fc.constantFrom(0, 0, 15))
        .map(([one, request, graceMs]) => revoke({ ...about(one), requestId: request, graceMs })),
      weight: 1,
    },
    { arbitrary: who.map((one) => settle(about(one))), weight: 1 },
  )
}

function about({ leaseId, place: { resource, extent } }: Who): Omit<Place, 'slots'> & {
  readonly leaseId: string
} {
  return { leaseId, resource, extent }
}

function asked(one: Who, waitMs: number, wish: Partial<Acquire>): Acquire {
  const { slots = null } = one.place
  const wait = waitMs === 0 ? ({ kind: 'none' } as const) : ({ kind: 'up_to', waitMs } as const)
  const { holder, session } = one
  const sharing = slots === null ? {} : ({ slots, mode: 'shared' } as const)
  return acquire({ ...about(one), ...wish, ...sharing, holder, session, wait, claimWindowMs: 20 })
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
  return fc.array(move, { minLength: 1, maxLength: 60, size: 'max' })
}

interface Conditions {
  readonly recordRenewals?: boolean
  readonly keepHistory?: boolean
}

/** Whoever refuses a ticket for a cycle has just looked at it. */
function seenNow(realm: TinyRealm, command: AnyCommand): AnyCommand {
  if (command.kind !== 'refuse_deadlock') return command
  const entry = realm.entries.get(command.leaseId)
  return entry?.kind === 'ticket' ? { ...command, orderUs: entry.orderUs } : command
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
    else watch.run(seenNow(realm, move.command))
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

  it('of counted resources', () => {
    fc.assert(fc.property(scriptOf(POOL, ['exclusive', 'shared']), play1), { numRuns: 400 })
  })

  it('of counted resources in a tree', () => {
    fc.assert(fc.property(scriptOf(COUNTED_TREE, ['exclusive', 'shared']), play1), { numRuns: 300 })
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
