/**
 * How the leases of a client descend from each other: which handles end with which, and the signed grant of a chain. Most
 * leases are derived from nothing, and cost nothing here.
 */
import { delegationOf } from '../core/delegation.ts'
import { LeaseError } from '../core/errors.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import { refusalError } from '../core/outcome.ts'
import type { TransientMap } from '../runtime/transient-map.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import type { TakeOver } from './background-work.ts'
import type { GrantSigner } from './grant-signer.ts'
import type { LeaseHandle } from './lease-handle.ts'

export class LeaseFamilies {
  /** By the id of each ancestor. */
  readonly #derived = new Map<LeaseId, Set<LeaseHandle>>()

  add(handle: LeaseHandle): void {
    for (const ancestor of ancestorsOf(handle)) {
      const family = this.#derived.get(ancestor) ?? new Set()
      this.#derived.set(ancestor, family.add(handle))
    }
  }

  remove(handle: LeaseHandle): void {
    for (const ancestor of ancestorsOf(handle)) {
      const family = this.#derived.get(ancestor)
      family?.delete(handle)
      if (family?.size === 0) this.#derived.delete(ancestor)
    }
  }

  /** What was derived from a lease ends when its holder ends it, or no longer knows that it lives. */
  endBelow({ id }: LeaseHandle): void {
    const derived = this.#derived.get(id)
    if (derived !== undefined) for (const handle of [...derived]) handle.endWithParent()
  }
}

export interface GrantRegistryOptions {
  readonly api: Pick<LeaseApi, 'get'>
  readonly handles: TransientMap<LeaseId, LeaseHandle>
  readonly background: TakeOver
  readonly signer: GrantSigner | null
}

interface Signed {
  readonly line: readonly LeaseInfo[]
  readonly token: string
}

/**
 * The signed grants of what a client holds. A grant is the chain from the root to a lease, and changes with any of them: so
 * it is made when it is read, and again when one of the chain was renewed since.
 *
 * A client that adopted a derived lease does not hold the ancestors. What the store said of those is kept, and asked for
 * again when the lease has outlived it; until the answer comes, a grant ends where that said it does.
 */
export class GrantRegistry {
  readonly #options: GrantRegistryOptions
  readonly #signed = new WeakMap<LeaseHandle, Signed>()
  /** What the store said of leases that others hold and that a lease of this client was derived from. */
  readonly #others = new Map<LeaseId, LeaseInfo>()

  constructor(options: GrantRegistryOptions) {
    this.#options = options
  }

  /** Whether grants are signed. */
  get isSigning(): boolean {
    return this.#options.signer !== null
  }

  tokenOf(handle: LeaseHandle): string {
    const { signer } = this.#options
    if (signer === null) {
      const message = 'signingKey or keyFile must be given to openTenure for a grant to be signed'
      throw new LeaseError('MISSING_SIGNATURE', message, { details: { leaseId: handle.id } })
    }
    const line = this.#lineTo(handle)
    const known = this.#signed.get(handle)
    if (known !== undefined && isSame(known.line, line)) return known.token
    const token = signer.sign(line)
    this.#signed.set(handle, { line, token })
    return token
  }

  /** Asks for what a lease was derived from, as far as this client does not hold it. */
  async learnLine(lease: LeaseInfo): Promise<void> {
    const { api, handles, signer } = this.#options
    if (signer === null) return
    const { line } = delegationOf(lease)
    if (line.length > 0) this.#forgetStrangers()
    for (const id of line) {
      const found = handles.has(id) ? null : await api.get({ id })
      if (found !== null) this.#others.set(id, found)
    }
  }

  /** Nothing is kept of those from whom nothing is held any more. */
  #forgetStrangers(): void {
    const lines = [...this.#options.handles.values()].flatMap(({ info }) => delegationOf(info).line)
    const known = new Set(lines)
    for (const id of this.#others.keys()) if (!known.has(id)) this.#others.delete(id)
  }

  #lineTo(handle: LeaseHandle): readonly LeaseInfo[] {
    const { info } = handle
    const above = delegationOf(info).line.map((id) => this.#ancestor(id))
    const isOutlived = above.some((lease) => {
      return !this.#options.handles.has(lease.id) && endOf(lease) < endOf(info)
    })
    if (isOutlived) this.#options.background('client/look', this.learnLine(info))
    return [...above, info]
  }

  #ancestor(leaseId: LeaseId): LeaseInfo {
    const handle = this.#options.handles.get(leaseId)
    if (handle !== undefined) return handle.info
    const lease = this.#others.get(leaseId)
    if (lease !== undefined) return lease
    throw refusalError({ kind: 'not_found', leaseId })
  }
}

/** Nothing for most leases, which are derived from none. */
function ancestorsOf({ info }: LeaseHandle): readonly LeaseId[] {
  return info.delegation?.line ?? NONE
}

const NONE: readonly LeaseId[] = []

function endOf({ expiresAtMs }: LeaseInfo): number {
  return expiresAtMs ?? 0
}

function isSame(a: readonly LeaseInfo[], b: readonly LeaseInfo[]): boolean {
  return a.length === b.length && a.every((lease, index) => lease === b[index])
}
