/**
 * How ids, resources and ticks are written in the tables.
 *
 * A resource is kept as a person would write it: a `file:` by its bare path, anything else as `kind:name`.
 */
import type { Resource } from '../../core/resource.ts'
import type { Tick } from '../../core/time.ts'

/** How what a row holds is named outside of it. */
export interface RowNames {
  readonly namespace: string
  /** Clock domains by number: a row holds the number, an entry the name. */
  domainOf(generation: number): string
  generationOf(domain: string): number
}

const DEFAULT_NAMESPACE = 'default'

/** Ids as they are kept: bare in the default namespace, so that a person can use them, marked in any other. */
export function keyOf(id: string, { namespace }: RowNames): string {
  return namespace === DEFAULT_NAMESPACE ? id : `${namespace}/${id}`
}

/**
 * The condition for events of one namespace, as the index that holds them words it: the default namespace has one of
 * its own, without the name in each row. Anything else but lower-case letters, digits and `._-` is no namespace.
 */
export function inNamespace({ namespace }: RowNames, row = 'lease_history'): string {
  const isDefault = `${row}.namespace = '${DEFAULT_NAMESPACE}'`
  if (namespace === DEFAULT_NAMESPACE) return isDefault
  return `${row}.namespace = '${namespace}' AND ${row}.namespace <> '${DEFAULT_NAMESPACE}'`
}

export function idOf(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}

/**
 * A number by which the events of a lease are found, made of the front of its id, which grows with time in those that
 * Tenure makes. Two leases may share one: whoever looks compares the id as well.
 */
export function leaseNumberOf(id: string): number {
  const digits = id.slice(0, 8) + id.slice(9, 13) + id.slice(15, 16)
  const number = Number.parseInt(digits, 16)
  return Number.isNaN(number) ? 0 : number
}

/** A tick as it is kept: the number of its clock, and microseconds. */
export type TickValues = readonly [generation: number, us: number]

const FILE_PREFIX = 'file:'

export function pathOf(resource: Resource): string {
  return resource.startsWith(FILE_PREFIX) ? resource.slice(FILE_PREFIX.length) : resource
}

export function resourceOf(path: string): Resource {
  return (path.startsWith('/') ? `${FILE_PREFIX}${path}` : path) as Resource
}

export function tickValues(tick: Tick, names: RowNames): TickValues {
  return [names.generationOf(tick.domain), tick.us]
}

export function tickFrom([generation, us]: TickValues, names: RowNames): Tick {
  return { domain: names.domainOf(generation), us }
}
