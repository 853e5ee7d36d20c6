/**
 * The registrar: derives leases and signs what it grants. A derived lease knows how to spend, to end, to derive
 * further, and has the token that others check without a store.
 */
import type { Budget } from '../core/budget.ts'
import { ROOT_DELEGATION } from '../core/delegation.ts'
import type { LeaseError } from '../core/errors.ts'
import type { LeaseId, LeaseInfo, ReleaseReason } from '../core/lease.ts'
import { refusalError } from '../core/outcome.ts'
import type { Extent, Mode, Resource } from '../core/resource.ts'
import type { Scope } from '../core/scope.ts'
import type { SigningKey } from '../ledger/ed25519.ts'
import { signGrant, type Grant } from '../ledger/grant.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'

export interface RegistrarOptions {
  readonly api: Pick<LeaseApi, 'derive' | 'spend' | 'get' | 'renew' | 'release'>
  readonly key: SigningKey
  readonly runtime?: Pick<Runtime, 'uuid'>
}

export interface DeriveOptions {
  readonly holder: string
  /** Default: the holder's name. */
  readonly session?: string
  /** Within the parent's; without it the parent's own, shared with the others that are derived so. */
  readonly resource?: Resource
  readonly extent?: Extent
  readonly mode?: Mode
  readonly ttlMs?: number
  readonly scope?: Partial<Scope>
  readonly budget?: Budget
  readonly reason?: string
  /** Who is to check the grant; without it anybody may. */
  readonly audience?: string
}

/** A lease that somebody holds: a handle, what `get` says, or a derived lease. */
export interface HeldLease {
  readonly id: LeaseId
  readonly holder: string
}

export class Registrar {
  readonly #api: RegistrarOptions['api']
  readonly #key: SigningKey
  readonly #runtime: Pick<Runtime, 'uuid'>

  constructor({ api, key, runtime = systemRuntime }: RegistrarOptions) {
    this.#api = api
    this.#key = key
    this.#runtime = runtime
  }

  /** Signs a lease that was acquired, as the root of what is derived from it. */
  async grantOf({ id }: HeldLease, audience?: string): Promise<string> {
    const lease = await this.#api.get(id)
    if (lease === null || lease.state !== 'active') throw ended(id, lease)
    return signGrant(grantFrom(lease, audience), this.#key)
  }

  async derive(parent: HeldLease | DerivedLease, options: DeriveOptions): Promise<DerivedLease> {
    const { audience, session = options.holder, ...wish } = options
    const above = parent instanceof DerivedLease ? parent.grant : await this.grantOf(parent)
    const answer = await this.#api.derive({
      ...wish,
      session,
      leaseId: this.#runtime.uuid(),
      parent: { leaseId: parent.id },
      by: parent.holder,
    })
    if (answer.kind === 'queued') throw new Error('a derivation never waits')
    if (answer.kind !== 'granted') throw refusalError(answer)
    const { lease } = answer
    const grant = signGrant(grantFrom(lease, audience), this.#key, above)
    return new DerivedLease(
      { registrar: this, api: this.#api, runtime: this.#runtime },
      lease,
      grant,
    )
  }
}

interface Surroundings {
  readonly registrar: Registrar
  readonly api: RegistrarOptions['api']
  readonly runtime: Pick<Runtime, 'uuid'>
}

export class DerivedLease {
  readonly id: LeaseId
  readonly holder: string
  /** The signed token: the chain from the root to this lease. It does not change when something is spent. */
  readonly grant: string
  /** The lease as it was granted. */
  readonly info: LeaseInfo
  readonly #around: Surroundings

  constructor(around: Surroundings, info: LeaseInfo, grant: string) {
    this.#around = around
    this.id = info.id
    this.holder = info.holder
    this.info = info
    this.grant = grant
  }

  derive(options: DeriveOptions): Promise<DerivedLease> {
    return this.#around.registrar.derive(this, options)
  }

  /** All dimensions or none; throws `BUDGET_EXHAUSTED` naming the dimension, what was asked and what is left. */
  async spend(amounts: Budget): Promise<LeaseInfo> {
    const { api, runtime } = this.#around
    const request = { leaseId: this.id, holder: this.holder, requestId: runtime.uuid() }
    const answer = await api.spend({ ...request, amounts })
    if (answer.kind === 'spent') return answer.lease
    throw refusalError(answer)
  }

  /** What is not spent goes back to the parent, and all that was derived from this lease ends with it. */
  async release(releaseReason: ReleaseReason = 'completed'): Promise<void> {
    const { id: leaseId, holder } = this
    const answer = await this.#around.api.release({ leaseId, holder, releaseReason })
    if (answer.kind !== 'released') throw refusalError(answer)
  }
}

function grantFrom(lease: LeaseInfo, audience: string | undefined): Grant {
  const { scope, limits, line } = lease.delegation ?? ROOT_DELEGATION
  return {
    id: lease.id,
    resource: lease.resource,
    mode: lease.mode,
    extent: lease.extent,
    holder: lease.holder,
    fence: lease.fence ?? 0,
    issuedAtMs: lease.grantedAtMs ?? lease.createdAtMs,
    expiresAtMs: lease.expiresAtMs ?? 0,
    parentId: line.at(-1) ?? null,
    audience: audience ?? null,
    scope,
    budget: limits,
  }
}

function ended(leaseId: LeaseId, lease: LeaseInfo | null): LeaseError {
  if (lease === null) return refusalError({ kind: 'not_found', leaseId })
  return refusalError({ kind: 'terminal', leaseId, state: lease.state })
}
