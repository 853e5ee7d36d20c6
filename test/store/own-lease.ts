/** What the holder of a lease says of it when it renews or gives back what it once asked for. */
import type { AcquireRequest } from '../../src/service/lease-api.ts'

export function ownLease({
  id,
  resource,
  holder,
}: AcquireRequest): Pick<AcquireRequest, 'id' | 'resource' | 'holder'> {
  return { id, resource, holder }
}
