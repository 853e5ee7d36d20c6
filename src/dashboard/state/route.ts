/** Every view is an address: the part after `#`, which the browser does not send to the server, so that no log has it. */
import { signal, type ReadonlySignal } from '@preact/signals'

export const VIEWS = ['now', 'timeline', 'waits', 'fleet', 'workflow', 'ledger', 'health'] as const
export type ViewName = (typeof VIEWS)[number] | 'resource'

export interface Route {
  readonly view: ViewName
  readonly params: URLSearchParams
}

export type Params = Readonly<Record<string, string | undefined>>

const current = signal(routeOf(location.hash))
addEventListener('hashchange', () => (current.value = routeOf(location.hash)))

export const route: ReadonlySignal<Route> = current

function routeOf(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const view = [...VIEWS, 'resource' as const].find((name) => name === path) ?? 'now'
  return { view, params: new URLSearchParams(query) }
}

/** The address of a view; what is undefined or empty is left out. */
export function linkTo(view: ViewName, params: Params = {}): string {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== '')
  const query = new URLSearchParams(given as [string, string][]).toString()
  return query === '' ? `#/${view}` : `#/${view}?${query}`
}

export function linkToResource(resource: string): string {
  return linkTo('resource', { name: resource })
}

/** The same view with other parameters. `replace` leaves no step to go back to, for what changes with every key. */
export function changeParams(change: Params, how: 'push' | 'replace' = 'push'): void {
  const { view, params } = current.value
  const link = linkTo(view, { ...Object.fromEntries(params), ...change })
  if (how === 'push') location.hash = link
  else {
    history.replaceState(null, '', link)
    current.value = routeOf(location.hash)
  }
}
