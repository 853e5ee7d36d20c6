/** Takes what `acquire` and `run` want: one lease, or several at once. */
import type { HandleState, Lease, LeaseSet, Tenure } from '../client/contract.ts'
import type { ReleaseOptions } from '../client/options.ts'
import type { LeaseId } from '../core/lease.ts'
import { UNDER_MAX } from '../core/limits.ts'
import type { Identity } from './identity.ts'
import type { WantedLeases } from './acquire-options.ts'
import { missingFileOf, withApi } from './store-access.ts'

/** One lease or several, held together. */
export interface HeldLeases {
  readonly first: Lease
  readonly leases: readonly Lease[]
  /** Aborts when any of them is lost. */
  readonly signal: AbortSignal
  readonly state: HandleState
  release(options: ReleaseOptions): Promise<void>
}

export interface HoldOptions {
  readonly signal: AbortSignal
  readonly autoRenew: boolean
  /** What cannot be released before the command ends. */
  readonly under?: readonly LeaseId[]
}

/**
 * A command that was started inside of `tenure run` is under the leases of all the runs around it, which end after it.
 * They have the session that it was given.
 */
export async function leasesAround(
  tenure: Tenure,
  { session }: Identity,
): Promise<Pick<HoldOptions, 'under'>> {
  if (session === null) return {}
  const { holder } = tenure
  const leases = await tenure.list({ holder, session, state: 'active', limit: UNDER_MAX })
  return { under: leases.map(({ id }) => id) }
}

export async function acquireLeases(
  tenure: Tenure,
  { reaches, own, common }: WantedLeases,
  hold: HoldOptions,
): Promise<HeldLeases> {
  const [only, another] = reaches
  if (only !== undefined && another === undefined) {
    const { resource, extent } = only
    return alone(await tenure.acquire(resource, { ...common, ...own, extent, ...hold }))
  }
  const mode = own.mode === undefined ? {} : { mode: own.mode }
  const wanted = reaches.map((reach) => ({ ...reach, ...mode }))
  return together(await tenure.acquireAll(wanted, { ...common, ...hold }))
}

/** Refuses a path that a link leads out of what another holds, by the lease that it leads out of. */
export async function refusePathsLeadingOut(
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

function together(set: LeaseSet): HeldLeases {
  const [first] = set.leases
  if (first === undefined) throw new Error('a set of leases is never empty')
  return {
    first,
    leases: set.leases,
    signal: set.signal,
    get state() {
      return set.state
    },
    release: async (how) => set.release(how),
  }
}

function alone(lease: Lease): HeldLeases {
  return {
    first: lease,
    leases: [lease],
    signal: lease.signal,
    get state() {
      return lease.state
    },
    release: async (how) => lease.release(how),
  }
}
