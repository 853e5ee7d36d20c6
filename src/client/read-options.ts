/**
 * From the options of a call to its request. The options are read by their descriptions (`src/protocol/library.ts`); here
 * is what only the client can do: it resolves paths, makes ids, and takes handles for their ids.
 */
import { invalid, pathError } from '../core/errors.ts'
import { parseHolder, parseLeaseId, refuseUnknown } from '../core/input.ts'
import type { LeaseId } from '../core/lease.ts'
import { ALL_MEMBERS_MAX, UNDER_MAX } from '../core/limits.ts'
import { parseResource, type Resource } from '../core/resource.ts'
import { OPTION_SHAPES, SENT_OPTIONS, type OptionShapeName } from '../protocol/library.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type {
  AcquireAllRequest,
  AcquireRequest,
  AllMember,
  DeriveRequest,
  HistoryFilter,
  ListFilter,
  WatchFilter,
  WatchLocals,
} from '../service/lease-api.ts'
import type { AcquireAllOptions, LeaseEvents, Receiver, TryAcquireOptions } from './contract.ts'
import type {
  AcquireOptions,
  AdoptOptions,
  DeriveOptions,
  HistoryOptions,
  ListOptions,
  UpgradeOptions,
  Wanted,
  WatchOptions,
} from './options.ts'

/** What an acquire asks of the store, apart from who asks. */
export type AskedAcquire = Omit<AcquireRequest, 'holder' | 'session' | 'claimWindowMs'> & Waits
export type AskedGroup = Omit<AcquireAllRequest, 'holder' | 'session' | 'claimWindowMs'> & Waits

interface Waits {
  readonly waitMs: number | 'configured'
}

interface ReadRequest<Asked> {
  readonly asked: Asked
  readonly autoRenew: boolean
  readonly signal: AbortSignal | undefined
}

export type ReadAcquire = ReadRequest<AskedAcquire>
export type ReadAcquireAll = ReadRequest<AskedGroup>

const FILE_PREFIX = 'file:'

/**
 * Reads a resource. A file's name is first refused or accepted by its spelling, and then resolved on the disk from the
 * spelling that the caller gave: taking `..` out beforehand would leave a symbolic link by the wrong door.
 */
export function readResource(runtime: Runtime, text: unknown): Resource {
  const resource = parseResource(text)
  if (!resource.startsWith(FILE_PREFIX)) return resource
  const name = String(text).slice(FILE_PREFIX.length)
  return parseResource(`${FILE_PREFIX}${followPath(runtime, name)}`)
}

function followPath(runtime: Runtime, name: string): string {
  try {
    return runtime.canonicalPath(name)
  } catch (cause) {
    throw pathError('resource', name, cause)
  }
}

/**
 * Reads the options of a method before anything is sent: the value itself where it is right as it came. Unknown options
 * are refused, because a misspelt one must not be silently without effect.
 */
export function readOptions<Options extends object>(
  name: OptionShapeName,
  value: Options | undefined,
): Options {
  if (value === undefined) return {} as Options
  return OPTION_SHAPES.get(name)?.read(value, 'options') as Options
}

export function readAcquire(
  runtime: Runtime,
  resource: unknown,
  passed?: AcquireOptions,
): ReadAcquire {
  const options = readOptions('AcquireOptions', passed)
  return readOne(runtime, resource, options, options.waitMs ?? 'configured')
}

/** As `readAcquire`, for a lease that says itself what the request is under. */
export function readAcquireUnder(
  runtime: Runtime,
  leaseId: LeaseId,
  resource: unknown,
  passed?: Omit<AcquireOptions, 'under'>,
): ReadAcquire {
  const options: AcquireOptions = readOptions('AcquireOptions', passed)
  const { waitMs = 'configured', under } = options
  if (under !== undefined) throw invalid('under', 'must be left out: it is this lease', under)
  return readOne(runtime, resource, { ...options, under: [leaseId] }, waitMs)
}

export function readTryAcquire(
  runtime: Runtime,
  resource: unknown,
  passed?: TryAcquireOptions,
): ReadAcquire {
  return readOne(runtime, resource, readOptions('TryAcquireOptions', passed), 0)
}

/** To be filled in one by one: a spread of what may be left out takes V8 ten times as long, for every lease. */
type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] }

function readOne(
  runtime: Runtime,
  resource: unknown,
  options: AcquireOptions,
  waitMs: number | 'configured',
): ReadAcquire {
  const { autoRenew = true, signal } = options
  const asked: Writable<AskedAcquire> = {
    id: options.leaseId ?? runtime.uuid(),
    resource: readResource(runtime, resource),
    isRenewed: autoRenew,
    waitMs,
  }
  fill(asked, options)
  return { asked, autoRenew, signal }
}

function fill(asked: Partial<Writable<AskedAcquire>>, options: AcquireOptions): void {
  const sent = asked as Record<string, unknown>
  for (const name of SENT_OPTIONS) {
    const value = options[name]
    if (value !== undefined) sent[name] = value
  }
  if (options.under !== undefined) asked.under = readUnder(options.under)
}

export function readAcquireAll(
  runtime: Runtime,
  resources: unknown,
  passed?: AcquireAllOptions,
): ReadAcquireAll {
  const options = readOptions('AcquireAllOptions', passed)
  if (!Array.isArray(resources)) throw invalid('resources', 'must be a list', resources)
  if (resources.length === 0 || resources.length > ALL_MEMBERS_MAX) {
    throw invalid('resources', `must be 1..${ALL_MEMBERS_MAX}`, resources.length)
  }
  const members = resources.map((wanted: unknown) => readWanted(runtime, wanted))
  const { autoRenew = true, waitMs = 'configured', signal } = options
  const asked: Writable<AskedGroup> = {
    ...{ group: runtime.uuid(), members },
    ...{ isRenewed: autoRenew, waitMs },
  }
  fill(asked, options)
  return { asked, autoRenew, signal }
}

function readWanted(runtime: Runtime, wanted: unknown): AllMember {
  const id = runtime.uuid()
  if (typeof wanted !== 'object' || wanted === null) {
    return { id, resource: readResource(runtime, wanted) }
  }
  const { resource, ...own } = readOptions('Wanted', wanted as Wanted)
  return { ...own, id, resource: readResource(runtime, resource) }
}

/** Handles or ids. */
function readUnder(under: unknown): readonly LeaseId[] {
  if (!Array.isArray(under) || under.length > UNDER_MAX) {
    const got = Array.isArray(under) ? under.length : under
    throw invalid('under', `must be at most ${UNDER_MAX} leases or their ids`, got)
  }
  return under.map((one: unknown) => {
    const id = typeof one === 'object' && one !== null && 'id' in one ? one.id : one
    if (typeof id !== 'string') throw invalid('under', 'must be leases or their ids', one)
    return parseLeaseId(id, 'under')
  })
}

/** What a derivation asks of the store, apart from what it is derived from and by whom. */
export type AskedDerivation = Omit<DeriveRequest, 'id' | 'parent' | 'by' | 'session'> & {
  readonly session?: string
}

export interface ReadDerive {
  readonly asked: AskedDerivation
  readonly facts: { readonly autoRenew: boolean }
}

export function readDerive(runtime: Runtime, options: DeriveOptions): ReadDerive {
  if (options === undefined) throw invalid('options', 'must be an object with a holder', options)
  const { autoRenew = true, resource, ...sent } = readOptions('DeriveOptions', options)
  const asked =
    resource === undefined ? sent : { ...sent, resource: readResource(runtime, resource) }
  return { asked, facts: { autoRenew } }
}

export function readAdopt(options?: AdoptOptions): { readonly autoRenew: boolean } {
  const { autoRenew = true } = readOptions('AdoptOptions', options)
  return { autoRenew }
}

export function readUpgrade(options?: UpgradeOptions): {
  readonly waitMs: number | 'configured'
  readonly signal: AbortSignal | undefined
} {
  const { waitMs = 'configured', signal } = readOptions('UpgradeOptions', options)
  return { waitMs, signal }
}

/** The name of the receiver; null: the next waiter in the queue. */
export function readReceiver(to: Receiver, giver: string): string | null {
  if (to === 'next') return null
  if (typeof to === 'object' && to !== null) refuseUnknown(to, ['holder'])
  const holder = parseHolder(typeof to === 'object' && to !== null ? to.holder : to, 'to')
  if (holder === giver) throw invalid('to', 'must be another than the holder', holder)
  return holder
}

const HANDLE_EVENTS: readonly (keyof LeaseEvents)[] = [
  'uncertain',
  'recovered',
  'renewed',
  'revoking',
  'lost',
]

/** A listener for an event that there is not would never be called. */
export function checkListener(name: unknown, listener: unknown): void {
  if (!HANDLE_EVENTS.some((known) => known === name)) {
    throw invalid('name', `must be among ${HANDLE_EVENTS.join(', ')}`, name)
  }
  checkFunction('listener', listener)
}

export function checkFunction(field: string, value: unknown): void {
  if (typeof value !== 'function') throw invalid(field, 'must be a function', value)
}

export function readList(runtime: Runtime, options?: ListOptions): ListFilter {
  return withResource(runtime, readOptions('ListOptions', options))
}

export function readHistoryOptions(runtime: Runtime, options?: HistoryOptions): HistoryFilter {
  const { leaseId: id, ...sent } = readOptions('HistoryOptions', options)
  const filter = withResource(runtime, sent)
  return id === undefined ? filter : { ...filter, id }
}

export function readWatch(
  runtime: Runtime,
  options?: WatchOptions,
): { readonly filter: WatchFilter; readonly locals: WatchLocals } {
  const { signal, ...sent } = readOptions('WatchOptions', options)
  return { filter: withResource(runtime, sent), locals: signal === undefined ? {} : { signal } }
}

function withResource<Sent extends { readonly resource?: string }>(
  runtime: Runtime,
  options: Sent,
): Omit<Sent, 'resource'> & { readonly resource?: Resource } {
  const { resource, ...sent } = options
  return resource === undefined ? sent : { ...sent, resource: readResource(runtime, resource) }
}
