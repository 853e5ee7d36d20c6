/**
 * Paths that lead through symbolic links. A file is leased under the name that its links lead to, so a lease of a directory
 * covers the files that are really below it, and not what links in it lead to. The holder of the directory may well think
 * otherwise. So a path that is spelt inside what another holder has, and leads out of it, is refused by that spelling, and
 * granted by the file's own name. The same goes for a file whose missing directory has become a link since it was leased.
 *
 * It is a question before the request, not a part of its commit: it keeps two holders from a misunderstanding. Exclusion
 * is by the file's own name alone.
 */
import type { Blocker } from '../core/conflict.ts'
import { LeaseError } from '../core/errors.ts'
import { nameOf, type Extent, type Mode, type Resource } from '../core/resource.ts'
import type { LeaseApi } from '../service/lease-api.ts'

export interface LinkedPath {
  /** By its spelling alone. */
  readonly spelt: Resource
  /** Where its links lead. */
  readonly resource: Resource
  readonly extent: Extent
}

/** The leases of others that the path leads out of; none for a path that leads through no link. */
export async function leadsOutOf(
  api: Pick<LeaseApi, 'inspect'>,
  { spelt, resource, extent }: LinkedPath,
): Promise<readonly Blocker[]> {
  if (spelt === resource) return []
  const { blockers } = await api.inspect({ resource: spelt, extent })
  return blockers.filter(({ kind }) => kind === 'lease')
}

/** Throws `RESOURCE_HELD` for a path that leads out of what another holder has and would not share. */
export async function refuseLeadingOut(
  api: Pick<LeaseApi, 'inspect'>,
  path: LinkedPath,
  { holder, mode }: { readonly holder: string; readonly mode: Mode },
): Promise<void> {
  const blockers = (await leadsOutOf(api, path)).filter((lease) => {
    return lease.holder !== holder && !(mode === 'shared' && lease.mode === 'shared')
  })
  const [lease] = blockers
  if (lease === undefined) return
  const name = nameOf(path.resource)
  const message = `${leadingOutWords(path, lease)}; that lease does not cover it: ask for ${name} itself`
  const details = { resource: path.resource, path: nameOf(path.spelt), blockers }
  throw new LeaseError('RESOURCE_HELD', message, { details })
}

/** Which lease a path leads out of. */
export function leadingOutWords({ spelt, resource }: LinkedPath, lease: Blocker): string {
  return `${nameOf(spelt)} leads to ${nameOf(resource)}, out of ${lease.resource}, which ${lease.holder} holds`
}
