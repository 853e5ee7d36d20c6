/**
 * Carries out a plan: takes all leases that an edit needs, or none. Everything goes through `LeaseApi`; who may have what is
 * decided there.
 */
import { batchesOf } from '../core/batches.ts'
import type { Blocker } from '../core/conflict.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { AGENT_HOLD_MS_MAX, ALL_MEMBERS_MAX } from '../core/limits.ts'
import { refusalError } from '../core/outcome.ts'
import { covers } from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { AcquireAllAnswer, AcquireAnswer, LeaseApi } from '../service/lease-api.ts'
import { hookMetadata, type HookAgent, type LeasePlan, type Target } from './hook-plan.ts'

export interface Taking {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly agent: HookAgent
  readonly ttlMs: number
  readonly reason: string
}

export interface TakenLease {
  readonly target: Target
  readonly leaseId: string
}

export type Taken =
  | { readonly kind: 'taken'; readonly leases: readonly TakenLease[] }
  | {
      readonly kind: 'held'
      readonly target: Target
      readonly blockers: readonly Blocker[]
    }

/** Several commits where there are more than 64 files; whatever was taken is given back when one of them is held. */
export async function takeLeases(taking: Taking, plan: LeasePlan): Promise<Taken> {
  const steps = [
    ...[...batchesOf(plan.acquire, ALL_MEMBERS_MAX)].map((some) => () => acquireSome(taking, some)),
    ...plan.derive.map((one) => () => deriveOne(taking, one)),
  ]
  const leases: TakenLease[] = []
  try {
    for (const step of steps) {
      const taken = await step()
      if (taken.kind === 'taken') leases.push(...taken.leases)
      else {
        await giveBack(taking, leases)
        return taken
      }
    }
    return { kind: 'taken', leases }
  } catch (error) {
    await giveBack(taking, leases)
    throw error
  }
}

async function acquireSome(taking: Taking, targets: readonly Target[]): Promise<Taken> {
  const { api, runtime, agent, ttlMs, reason } = taking
  const { holder } = agent
  const common = {
    ...{ holder, session: holder, sequential: true, waitMs: 0, reason },
    ...{ ttlMs: Math.min(ttlMs, AGENT_HOLD_MS_MAX), maxHoldMs: AGENT_HOLD_MS_MAX },
    metadata: hookMetadata(agent),
  }
  const leases = targets.map((target) => ({ target, leaseId: runtime.uuid() }))
  const members = leases.map(({ target: { resource }, leaseId: id }) => ({ id, resource }))
  const [only] = members
  const answer =
    members.length === 1 && only !== undefined
      ? await api.acquire({ ...common, ...only })
      : await api.acquireAll({ ...common, group: runtime.uuid(), members })
  if (answer.kind !== 'granted' && answer.kind !== 'granted_all') return heldAnswer(answer, targets)
  return { kind: 'taken', leases }
}

async function deriveOne(
  taking: Taking,
  { target, parent }: LeasePlan['derive'][number],
): Promise<Taken> {
  const { api, runtime, agent, reason } = taking
  const leaseId = runtime.uuid()
  const { holder } = agent
  const answer = await api.derive({
    ...{ id: leaseId, by: parent.holder, holder, session: holder, reason },
    parent: { id: parent.id, resource: parent.resource, extent: parent.extent },
    ...{ resource: target.resource, extent: 'exact', mode: 'exclusive' },
  })
  if (answer.kind === 'granted') return { kind: 'taken', leases: [{ target, leaseId }] }
  // The parent's lease has ended since it was listed: the caller reads the leases again.
  const isGone = ['expired', 'terminal', 'not_found'].includes(answer.kind)
  return isGone ? { kind: 'held', target, blockers: [] } : heldAnswer(answer, [target])
}

type NotGranted = Exclude<
  AcquireAnswer | AcquireAllAnswer,
  { readonly kind: 'granted' | 'granted_all' }
>

/** Anything but being held is a failure: of the store, of its configuration, or of the path. */
function heldAnswer(answer: NotGranted, targets: readonly Target[]): Taken {
  if (answer.kind === 'queued' || answer.kind === 'queued_all' || answer.kind === 'dropped') {
    throw new Error('a request that does not wait was queued')
  }
  const [first] = targets
  if (first === undefined || answer.kind !== 'held') throw refusalError(answer)
  const { blockers } = answer
  const target = targets.find(({ resource }) => {
    return blockers.some((blocker) => {
      const place = { resource: blocker.resource as Target['resource'], extent: blocker.extent }
      return covers(place, { resource, extent: 'exact' })
    })
  })
  return { kind: 'held', target: target ?? first, blockers }
}

export async function giveBack(
  { api, agent }: Pick<Taking, 'api' | 'agent'>,
  leases: readonly TakenLease[],
): Promise<void> {
  const { holder } = agent
  await Promise.all(
    leases.map(({ leaseId: id, target: { resource } }) => {
      return api.release({ id, resource, extent: 'exact', holder, session: holder })
    }),
  )
}

type HeldLease = Pick<LeaseInfo, 'id' | 'resource' | 'extent' | 'holder'>

/** A refusal is no failure here: the lease is gone, and the next look at it says so. */
export async function renewLeases(
  api: Pick<LeaseApi, 'renew'>,
  leases: readonly HeldLease[],
): Promise<void> {
  await Promise.all(
    leases.map(({ id, resource, extent, holder }) => {
      return api.renew({ id, resource, extent, holder })
    }),
  )
}

export async function releaseLeases(
  api: Pick<LeaseApi, 'release'>,
  leases: readonly HeldLease[],
): Promise<void> {
  await Promise.all(
    leases.map(({ id, resource, extent, holder }) => {
      return api.release({ id, resource, extent, holder, releaseReason: 'completed' })
    }),
  )
}
