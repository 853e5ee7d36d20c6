/** Every lease that a filter finds, page by page: in order of creation, each once, however many there are. */
import type { LeaseInfo } from '../core/lease.ts'
import { LIST_LIMIT_MAX } from '../core/limits.ts'
import type { LeaseApi, ListFilter } from './lease-api.ts'

export async function* listAll(
  api: Pick<LeaseApi, 'list'>,
  filter: Omit<ListFilter, 'after' | 'limit'>,
): AsyncGenerator<readonly LeaseInfo[], void, undefined> {
  let page = await api.list({ ...filter, limit: LIST_LIMIT_MAX })
  yield page.leases
  while (page.next !== undefined) {
    page = await api.list({ ...filter, limit: LIST_LIMIT_MAX, after: page.next })
    yield page.leases
  }
}

/** The same in one list, for callers that need all of it before they can begin. */
export async function listWhole(
  api: Pick<LeaseApi, 'list'>,
  filter: Omit<ListFilter, 'after' | 'limit'>,
): Promise<readonly LeaseInfo[]> {
  const leases: LeaseInfo[] = []
  for await (const page of listAll(api, filter)) leases.push(...page)
  return leases
}

/** All live leases of a holder. */
export function activeOf(
  api: Pick<LeaseApi, 'list'>,
  holder: string,
): Promise<readonly LeaseInfo[]> {
  return listWhole(api, { holder, state: 'active' })
}
