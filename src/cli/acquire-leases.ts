/** Takes what `acquire` and `run` want: one lease, or several at once. */
import type { Lease, LeaseSet, Tenure } from '../client/contract.ts'
import type { LeaseId } from '../core/lease.ts'
import { UNDER_MAX } from '../core/limits.ts'
import type { Identity } from './identity.ts'
import type { WantedLeases } from './acquire-options.ts'
import { given, missingFileOf, withApi, withTenure } from './store-access.ts'

/** One lease or several, held together. */
export interface HeldLeases {
  readonly first: Lease
  readonly leases: readonly Lease[]
  /** All of them at once: lost when any is, and released together. */
  readonly whole: Lease | LeaseSet
}

export interface Holding {
  readonly identity: Identity
  /** Default: that of the identity. */
  readonly session?: Identity['session']
  readonly signal: AbortSignal
  readonly autoRenew: boolean
}

/** Works with the leases that are wanted, once they are held. What becomes of them afterwards is for the work to say. */
export function withLeases(
  wanted: WantedLeases,
  { identity, session = identity.session, signal, autoRenew }: Holding,
  work: (held: HeldLeases, tenure: Tenure) => Promise<number>,
): Promise<number> {
  const patience = { waitMs: wanted.common.waitMs, signal }
  return withTenure({ ...identity, session }, patience, async (tenure, left) => {
    await refusePathsLeadingOut(identity, wanted)
    const under = await leasesAround(tenure, identity)
    const hold = { signal, autoRenew, ...under, ...given(left) }
    return work(await acquireLeases(tenure, wanted, hold), tenure)
  })
}

interface HoldOptions extends Pick<Holding, 'signal' | 'autoRenew'> {
  /** What cannot be released before the command ends. */
  readonly under?: readonly LeaseId[]
}

/**
 * A command that was started inside of `tenure run` is under the leases of all the runs around it, which end after it.
 * They have the session that it was given.
 */
async function leasesAround(
  tenure: Tenure,
  { session }: Identity,
): Promise<Pick<HoldOptions, 'under'>> {
  if (session === null) return {}
  const { holder } = tenure
  const leases = await tenure.list({ holder, session, state: 'active', limit: UNDER_MAX })
  return { under: leases.map(({ id }) => id) }
}

async function acquireLeases(
  tenure: Tenure,
  { reaches, own, common }: WantedLeases,
  hold: HoldOptions,
): Promise<HeldLeases> {
  const [only, another] = reaches
  if (only !== undefined && another === undefined) {
    const { resource, extent } = only
    const lease = await tenure.acquire(resource, { ...common, ...own, extent, ...hold })
    return { first: lease, leases: [lease], whole: lease }
  }
  const mode = own.mode === undefined ? {} : { mode: own.mode }
  const wanted = reaches.map((reach) => ({ ...reach, ...mode }))
  const whole = await tenure.acquireAll(wanted, { ...common, ...hold })
  const { leases } = whole
  const [first] = leases
  if (first === undefined) throw new Error('a set of leases is never empty')
  return { first, leases, whole }
}

/** Refuses a path that a link leads out of what another holds, by the lease that it leads out of. */
async function refusePathsLeadingOut(
  identity: Identity,
  { paths, own }: WantedLeases,
): Promise<void> {
  const linked = paths.filter(({ spelt, resource }) => spelt !== resource)
  if (linked.length === 0 || missingFileOf(identity) !== null) return
  const shared = own.mode === 'shared' || own.slots !== undefined
  const who = { holder: identity.holder, mode: shared ? 'shared' : 'exclusive' } as const
  const { refuseLeadingOut } = await import('../files/linked-path.ts')
  await withApi(identity, async (api) => {
    for (const path of linked) await refuseLeadingOut(api, path, who)
  })
}
