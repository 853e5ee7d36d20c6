/** Leases as people name them: by id, or by the resource when only one lease can be meant. */
import { invalid, LeaseError, show } from '../core/errors.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import { refusalError } from '../core/outcome.ts'
import type { LeaseApi, LeaseRef } from '../service/lease-api.ts'
import { readResourceArgument } from './resource-argument.ts'

const UUID_PATTERN = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
/** Rather an id that lost a part on its way than a file of that name; such a file is written `./cafe1234`. */
const MANGLED_PATTERN = /^[0-9a-f-]{8,}$/i

export interface LeaseQuestion {
  readonly text: string
  readonly cwd: string
  /** Whose lease it must be; null for an operator, who may end any holder's. */
  readonly holder: string | null
}

export interface NamedLease {
  readonly target: LeaseRef
  /** As the store knew it before the command; null for an id that it does not know. */
  readonly before: LeaseInfo | null
}

/** Null for what names a resource. */
export function readLeaseId(text: string): LeaseId | null {
  if (UUID_PATTERN.test(text)) return text.toLowerCase()
  if (MANGLED_PATTERN.test(text)) throw invalid('lease', 'must be a UUID or a resource', text)
  return null
}

/**
 * Names the lease with its resource where the store knows it: a request that is sent again must still find its effect
 * after the lease has ended, also where no history is kept.
 */
export async function findLease(api: LeaseApi, question: LeaseQuestion): Promise<NamedLease> {
  const { text, cwd, holder } = question
  const id = readLeaseId(text)
  if (id !== null) return namedLease(id, await api.get({ id }))
  const resource = readResourceArgument(text, cwd)
  const { leases } = await api.list({ resource, state: 'active' })
  const own = leases.filter((lease) => holder === null || lease.holder === holder)
  const [only, another] = own
  if (only !== undefined && another === undefined) return namedLease(only.id, only)
  if (another !== undefined) {
    throw invalid('lease', `must be given by id, because ${own.length} match`, text)
  }
  const foreign = leases[0]
  if (foreign !== undefined) {
    throw refusalError({ kind: 'not_holder', leaseId: foreign.id, holder: foreign.holder })
  }
  throw new LeaseError('LEASE_NOT_FOUND', `nobody holds a lease of ${show(resource)}`, {
    details: { resource },
  })
}

function namedLease(id: LeaseId, before: LeaseInfo | null): NamedLease {
  if (before === null) return { target: { id }, before }
  const { resource, extent } = before
  return { target: { id, resource, extent }, before }
}
