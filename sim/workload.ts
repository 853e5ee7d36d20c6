/**
 * What processes ask for: which resources there are, and with which options they are asked for. Some worlds know
 * nothing but exclusive leases of single resources; in the others everything is mixed.
 */
import type { TryAcquireOptions } from '../src/client/contract.ts'
import type { AcquireOptions, Wanted } from '../src/client/options.ts'
import { touch } from './checkers/reach.ts'
import { parseResource, type Extent } from '../src/core/resource.ts'
import type { Random } from './random.ts'
import type { StoreKind } from './store-host.ts'

/** One thing that can be asked for. */
export interface Place {
  readonly resource: string
  readonly extent: Extent
  /** Of a counted resource. */
  readonly slots: number | null
}

export interface Habits {
  readonly places: readonly Place[]
  readonly holders: readonly string[]
  readonly ttlMsMin: number
  readonly ttlMsMax: number
  readonly waitMsMax: number
  /** How likely a request is to be shared. */
  readonly sharing: number
  /** How likely each of the other options is to be used; 0 in a world that knows none of them. */
  readonly richness: number
  /** How likely a process is to ask for more while it holds something, in whatever order. */
  readonly nesting: number
  /** Whether leases are given out with a budget, and others derived from them. */
  readonly isDelegating: boolean
  /** Whether many tasks of one client come for one lock at once, each with something in its hands. */
  readonly isCrowded: boolean
  /** How likely a lease is given to a holder that waits for another. */
  readonly giving: number
  /** Whether some leases are asked for without a TTL, and an operator changes what they have then. */
  readonly isConfiguring: boolean
  /** What all tasks take and give back as fast as they can when the day begins; null in most worlds. */
  readonly rush: Place | null
}

const PLAIN: readonly Place[] = [
  'work:W-1',
  'work:W-2',
  'file:/repo/src',
  'file:/repo/src/app.ts',
  'file:/a',
].map((resource) => ({ resource, extent: 'exact', slots: null }))

const RICH: readonly (readonly Place[])[] = [
  [exact('work:W-1'), exact('work:W-2')],
  [subtree('file:/repo'), exact('file:/repo/src/app.ts'), exact('file:/repo/app.ts')],
  [counted('pool:P', 2), counted('pool:P', 3), exact('pool:P'), exact('work:W-1')],
  [
    ...[exact('work:W-1'), counted('pool:P', 3), subtree('file:/repo'), subtree('file:/repo/src')],
    ...[exact('file:/repo/src'), exact('file:/repo/src/app.ts'), exact('file:/repo_backup')],
  ],
]

function exact(resource: string): Place {
  return { resource, extent: 'exact', slots: null }
}

function subtree(resource: string): Place {
  return { resource, extent: 'subtree', slots: null }
}

function counted(resource: string, slots: number): Place {
  return { resource, extent: 'exact', slots }
}

/** One is in a tree, where a ticket depends on all that lies around it. */
const RUSHES: readonly Place[] = [exact('work:rush'), exact('file:/rush')]

/** Many misses in a row come from a rush alone, and only a store that decides before it asks can miss. */
function rushOf(random: Random, store: StoreKind): Place | null {
  return store === 'optimistic' && random.chance(0.2) ? random.pick(RUSHES) : null
}

export function habitsOf(random: Random, holders: readonly string[], store: StoreKind): Habits {
  const isRich = random.fork('rich').chance(0.7)
  const common = {
    holders: [...new Set(holders)],
    ttlMsMin: random.pick([40, 200]),
    ttlMsMax: random.pick([400, 2_000]),
    waitMsMax: random.pick([300, 1_000, 3_000]),
    // What decides where the store is reads the settings as it commits, and cannot be late.
    isConfiguring: store === 'optimistic' && random.fork('configuring').chance(0.3),
    rush: rushOf(random.fork('rush'), store),
  }
  if (!isRich) {
    const places = PLAIN.slice(0, random.between(1, PLAIN.length))
    const nothing = { sharing: 0, richness: 0, nesting: 0, giving: 0 }
    return { ...common, places, ...nothing, isDelegating: false, isCrowded: false }
  }
  return {
    ...common,
    places: random.pick(RICH),
    sharing: random.pick([0.2, 0.5, 0.8]),
    richness: random.pick([0.1, 0.3]),
    nesting: random.pick([0, 0.2, 0.6, 1.5]),
    isDelegating: random.fork('delegating').chance(0.3),
    isCrowded: random.fork('crowded').chance(0.12),
    giving: random.fork('giving').pick([0, 0.3, 1]),
  }
}

export type LeaseOptions = TryAcquireOptions & {
  readonly leaseId: string
  readonly ttlMs: number
  readonly autoRenew: boolean
}

/** Options for one place, without those that are about waiting. */
export function leaseOptions(random: Random, habits: Habits, place: Place): LeaseOptions {
  const { ttlMsMin, ttlMsMax, sharing, isDelegating } = habits
  const { extent, slots } = place
  const ttlMs = random.magnitude(ttlMsMin, ttlMsMax)
  return {
    ttlMs,
    autoRenew: random.chance(0.8),
    leaseId: random.uuid(),
    extent,
    ...(slots === null ? (random.chance(sharing) ? { mode: 'shared' } : {}) : { slots }),
    ...(random.chance(0.2) ? { maxRenewals: random.between(0, 3) } : {}),
    ...(random.chance(0.15) ? { maxHoldMs: random.magnitude(ttlMs, 4 * ttlMs) } : {}),
    ...commonOptions(random, habits),
    ...(isDelegating ? { budget: { tokens: 20 }, scope: { tools: ['edit', 'run'] } } : {}),
  }
}

/** Options that several resources at once may have as well. */
export function commonOptions(
  random: Random,
  { richness, ttlMsMax }: Habits,
): Pick<AcquireOptions, 'priority' | 'lockDelayMs' | 'breakable'> {
  return {
    ...(random.chance(richness) ? { priority: random.between(-2, 2) } : {}),
    ...(random.chance(richness) ? { lockDelayMs: random.magnitude(1, ttlMsMax) } : {}),
    ...(random.chance(richness) ? { breakable: true } : {}),
  }
}

/** A few places that do not overlap, in any order, each shared or not. */
export function several(random: Random, { places, sharing }: Habits): readonly Wanted[] {
  const chosen: Place[] = []
  for (let tries = random.between(2, 6); tries > 0 && chosen.length < 3; tries -= 1) {
    const place = random.pick(places)
    if (place.slots === null && !chosen.some((other) => overlaps(other, place))) chosen.push(place)
  }
  return chosen.map(({ resource, extent }) => {
    return { resource, extent, ...(random.chance(sharing) ? { mode: 'shared' } : {}) }
  })
}

function overlaps(a: Place, b: Place): boolean {
  const reach = ({ resource, extent }: Place): Parameters<typeof touch>[0] => {
    return { resource: parseResource(resource), extent }
  }
  return touch(reach(a), reach(b))
}
