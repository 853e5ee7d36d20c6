/**
 * Reads what callers pass to the client. Whatever came is checked here before anything is sent: unknown options are
 * refused, because a misspelt one must not be silently without effect.
 */
import { parseBudget, type Budget } from '../core/budget.ts'
import { invalid, pathError } from '../core/errors.ts'
import { LEASE_EVENT_TYPES, type LeaseEventType } from '../core/event.ts'
import {
  parseExtent,
  parseFlag,
  parseGraceMs,
  parseHolder,
  parseLeaseId,
  parseLockDelayMs,
  parseMaxHoldMs,
  parseMaxRenewals,
  parseMode,
  parseNote,
  parsePriority,
  parseSession,
  parseSlots,
  parseSpanMs,
  parseState,
  parseTtlMs,
  parseWaitMs,
  refuseUnknown,
} from '../core/input.ts'
import type { LeaseId } from '../core/lease.ts'
import { ALL_MEMBERS_MAX, LIST_LIMIT_MAX, UNDER_MAX } from '../core/limits.ts'
import { parseResource, type Resource } from '../core/resource.ts'
import { parseScope, type Scope } from '../core/scope.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type {
  AcquireAllRequest,
  AcquireRequest,
  AllMember,
  DeriveRequest,
  HistoryFilter,
  ListFilter,
  WatchFilter,
} from '../service/lease-api.ts'
import type {
  AcquireAllOptions,
  AcquireOptions,
  AdoptOptions,
  DeriveOptions,
  HistoryOptions,
  LeaseEvents,
  ListOptions,
  Receiver,
  TryAcquireOptions,
  UpgradeOptions,
  Wanted,
  WatchOptions,
} from './contract.ts'

const SHARED_OPTIONS = [
  'ttlMs',
  'maxRenewals',
  'maxHoldMs',
  'lockDelayMs',
  'breakable',
  'priority',
  'autoRenew',
  'reason',
  'metadata',
  'under',
] as const satisfies readonly (keyof TryAcquireOptions & keyof AcquireAllOptions)[]

const OWN_OPTIONS = [
  'mode',
  'extent',
  'slots',
  'leaseId',
  'scope',
  'budget',
] as const satisfies readonly (keyof TryAcquireOptions)[]

const WAIT_OPTIONS = [
  'waitMs',
  'signal',
  'breakGraceMs',
] as const satisfies readonly (keyof AcquireAllOptions)[]

const TRY_OPTIONS = [...SHARED_OPTIONS, ...OWN_OPTIONS] as const
const ACQUIRE_ALL_OPTIONS = [...SHARED_OPTIONS, ...WAIT_OPTIONS] as const
const ACQUIRE_OPTIONS = [...TRY_OPTIONS, ...WAIT_OPTIONS] as const

/** What an acquire asks of the store, apart from who asks. */
export type AcquireWish = Omit<AcquireRequest, 'holder' | 'session' | 'claimWindowMs'>
export type AcquireAllWish = Omit<AcquireAllRequest, 'holder' | 'session' | 'claimWindowMs'>

interface ReadWish<Wish> {
  readonly wish: Wish
  readonly autoRenew: boolean
  readonly signal: AbortSignal | undefined
}

export type ReadAcquire = ReadWish<AcquireWish>
export type ReadAcquireAll = ReadWish<AcquireAllWish>

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

export function readAcquire(
  runtime: Runtime,
  resource: unknown,
  options: AcquireOptions = {},
): ReadAcquire {
  refuseUnknown(options, ACQUIRE_OPTIONS)
  // A spread of several that come together would take V8 ten times as long, and this is done for every lease.
  const own = readOwn(runtime, resource, options)
  const wish = Object.assign(own, readShared(options), readWait(options))
  return { wish, autoRenew: wish.isRenewed, signal: readSignal(options.signal) }
}

export function readTryAcquire(
  runtime: Runtime,
  resource: unknown,
  options: TryAcquireOptions = {},
): ReadAcquire {
  refuseUnknown(options, TRY_OPTIONS)
  const wish = { ...readOwn(runtime, resource, options), ...readShared(options), waitMs: 0 }
  return { wish, autoRenew: wish.isRenewed, signal: undefined }
}

export function readAcquireAll(
  runtime: Runtime,
  resources: unknown,
  options: AcquireAllOptions = {},
): ReadAcquireAll {
  refuseUnknown(options, ACQUIRE_ALL_OPTIONS)
  if (!Array.isArray(resources)) throw invalid('resources', 'must be a list', resources)
  if (resources.length === 0 || resources.length > ALL_MEMBERS_MAX) {
    throw invalid('resources', `must be 1..${ALL_MEMBERS_MAX}`, resources.length)
  }
  const members = resources.map((wanted: unknown) => readWanted(runtime, wanted))
  const common = { ...readShared(options), ...readWait(options) }
  return {
    wish: { group: runtime.uuid(), members, ...common },
    autoRenew: common.isRenewed,
    signal: readSignal(options.signal),
  }
}

function readWanted(runtime: Runtime, wanted: unknown): AllMember {
  if (typeof wanted !== 'object' || wanted === null) return readOwn(runtime, wanted, {})
  refuseUnknown(wanted, ['resource', 'mode', 'extent'])
  const { resource, ...own } = wanted as Wanted
  return readOwn(runtime, resource, own)
}

/** To be filled in one by one: a spread of what may be left out takes V8 ten times as long. */
type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] }

/** What concerns one resource, of several that may be asked for at once. */
function readOwn(
  runtime: Runtime,
  resource: unknown,
  options: Pick<AcquireOptions, (typeof OWN_OPTIONS)[number]>,
): Pick<AcquireWish, 'resource' | (typeof OWN_OPTIONS)[number]> {
  const { mode, extent, slots, leaseId } = options
  const own: Writable<Pick<AcquireWish, 'resource' | (typeof OWN_OPTIONS)[number]>> = {
    leaseId: leaseId === undefined ? runtime.uuid() : parseLeaseId(leaseId),
    resource: readResource(runtime, resource),
  }
  if (mode !== undefined) own.mode = parseMode(mode)
  if (extent !== undefined) own.extent = parseExtent(extent)
  if (slots !== undefined) own.slots = parseSlots(slots)
  if (options.scope === undefined && options.budget === undefined) return own
  return Object.assign(own, readAuthority(options))
}

function readAuthority({ scope, budget }: Pick<AcquireOptions, 'scope' | 'budget'>): {
  readonly scope?: Scope
  readonly budget?: Budget
} {
  return {
    ...(scope === undefined ? {} : { scope: parseScope(scope) }),
    ...(budget === undefined ? {} : { budget: parseBudget('budget', budget) }),
  }
}

type SharedWish = Omit<AcquireAllWish, 'group' | 'members' | 'waitMs' | 'isRenewed'> & {
  readonly isRenewed: boolean
}

function readShared(options: Pick<AcquireOptions, (typeof SHARED_OPTIONS)[number]>): SharedWish {
  const { ttlMs, maxRenewals, maxHoldMs, lockDelayMs, breakable, priority } = options
  const { reason, metadata } = parseNote(options.reason, options.metadata)
  const shared: Writable<SharedWish> = { isRenewed: readAutoRenew(options.autoRenew) }
  if (ttlMs !== undefined) shared.ttlMs = parseTtlMs(ttlMs)
  if (maxRenewals !== undefined) shared.maxRenewals = parseMaxRenewals(maxRenewals)
  if (maxHoldMs !== undefined) shared.maxHoldMs = parseMaxHoldMs(maxHoldMs)
  if (lockDelayMs !== undefined) shared.lockDelayMs = parseLockDelayMs(lockDelayMs)
  if (breakable !== undefined) shared.breakable = parseFlag('breakable', breakable)
  if (priority !== undefined) shared.priority = parsePriority(priority)
  if (options.under !== undefined) shared.under = readUnder(options.under)
  if (reason !== null) shared.reason = reason
  if (metadata !== null) shared.metadata = metadata
  return shared
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

function readWait(
  options: Pick<AcquireOptions, (typeof WAIT_OPTIONS)[number]>,
): Pick<AcquireWish, 'waitMs' | 'breakGraceMs'> {
  const waitMs = readWaitMs(options.waitMs)
  const { breakGraceMs } = options
  if (breakGraceMs === undefined) return { waitMs }
  return { waitMs, breakGraceMs: parseGraceMs(breakGraceMs, 'breakGraceMs') }
}

function readWaitMs(waitMs: unknown): number | 'configured' {
  return waitMs === undefined ? 'configured' : parseWaitMs(waitMs)
}

const DERIVE_OPTIONS = [
  'holder',
  'session',
  'resource',
  'extent',
  'mode',
  'ttlMs',
  'scope',
  'budget',
  'reason',
  'audience',
  'autoRenew',
] as const satisfies readonly (keyof DeriveOptions)[]

/** What a derivation asks of the store, apart from what it is derived from and by whom. */
export type DeriveWish = Omit<DeriveRequest, 'leaseId' | 'parent' | 'by' | 'session'> & {
  readonly session?: string
}

export interface ReadDerive {
  readonly wish: DeriveWish
  readonly facts: { readonly autoRenew: boolean }
}

export function readDerive(runtime: Runtime, options: DeriveOptions): ReadDerive {
  if (options === undefined) throw invalid('options', 'must be an object with a holder', options)
  refuseUnknown(options, DERIVE_OPTIONS)
  const { session, resource, extent, mode, ttlMs, audience } = options
  const { reason } = parseNote(options.reason, undefined)
  const wish = {
    holder: parseHolder(options.holder),
    ...(session === undefined ? {} : { session: parseSession(session) }),
    ...(resource === undefined ? {} : { resource: readResource(runtime, resource) }),
    ...(extent === undefined ? {} : { extent: parseExtent(extent) }),
    ...(mode === undefined ? {} : { mode: parseMode(mode) }),
    ...(ttlMs === undefined ? {} : { ttlMs: parseTtlMs(ttlMs) }),
    ...readAuthority(options),
    ...(audience === undefined ? {} : { audience: parseHolder(audience, 'audience') }),
    ...(reason === null ? {} : { reason }),
  }
  return { wish, facts: { autoRenew: readAutoRenew(options.autoRenew) } }
}

export function readAdopt(options: AdoptOptions = {}): { readonly autoRenew: boolean } {
  refuseUnknown(options, ['autoRenew'])
  return { autoRenew: readAutoRenew(options.autoRenew) }
}

export function readUpgrade(options: UpgradeOptions = {}): {
  readonly waitMs: number | 'configured'
  readonly signal: AbortSignal | undefined
} {
  refuseUnknown(options, ['waitMs', 'signal'])
  return { waitMs: readWaitMs(options.waitMs), signal: readSignal(options.signal) }
}

/** The name of the receiver; null: whoever is next in the queue. */
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

function readAutoRenew(autoRenew: unknown): boolean {
  return autoRenew === undefined ? true : parseFlag('autoRenew', autoRenew)
}

function readSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal
  throw invalid('signal', 'must be an AbortSignal', signal)
}

export function readList(runtime: Runtime, options: ListOptions = {}): ListFilter {
  refuseUnknown(options, ['resource', 'holder', 'session', 'state', 'limit'])
  const { session, state, limit } = options
  return {
    ...readSubject(runtime, options),
    ...(session === undefined ? {} : { session: parseSession(session) }),
    ...(state === undefined ? {} : { state: parseState(state) }),
    ...(limit === undefined ? {} : { limit: readLimit(limit) }),
  }
}

export function readHistory(runtime: Runtime, options: HistoryOptions = {}): HistoryFilter {
  const own = ['leaseId', 'fromMs', 'toMs', 'newestFirst', 'limit']
  refuseUnknown(options, [...own, 'resource', 'holder', 'types', 'after'])
  const { leaseId, fromMs, toMs, newestFirst, limit } = options
  if (newestFirst !== undefined && typeof newestFirst !== 'boolean') {
    throw invalid('newestFirst', 'must be true or false', newestFirst)
  }
  return {
    ...readSubject(runtime, options),
    ...readPlace(options),
    ...(leaseId === undefined ? {} : { leaseId: parseLeaseId(leaseId) }),
    ...(fromMs === undefined ? {} : { fromMs: readTimeMs('fromMs', fromMs) }),
    ...(toMs === undefined ? {} : { toMs: readTimeMs('toMs', toMs) }),
    ...(newestFirst === undefined ? {} : { newestFirst }),
    ...(limit === undefined ? {} : { limit: readLimit(limit) }),
  }
}

export function readWatch(runtime: Runtime, options: WatchOptions = {}): WatchFilter {
  refuseUnknown(options, ['resource', 'holder', 'types', 'after', 'signal'])
  const signal = readSignal(options.signal)
  return {
    ...readSubject(runtime, options),
    ...readPlace(options),
    ...(signal === undefined ? {} : { signal }),
  }
}

interface Subject {
  readonly resource?: Resource
  readonly holder?: string
}

function readSubject(
  runtime: Runtime,
  { resource, holder }: { readonly resource?: string; readonly holder?: string },
): Subject {
  return {
    ...(resource === undefined ? {} : { resource: readResource(runtime, resource) }),
    ...(holder === undefined ? {} : { holder: parseHolder(holder) }),
  }
}

function readPlace({ types, after }: Pick<HistoryOptions, 'types' | 'after'>): {
  readonly types?: readonly LeaseEventType[]
  readonly after?: string
} {
  if (after !== undefined && typeof after !== 'string') {
    throw invalid('after', 'must be a position', after)
  }
  return {
    ...(types === undefined ? {} : { types: readTypes(types) }),
    ...(after === undefined ? {} : { after }),
  }
}

function readTypes(types: unknown): readonly LeaseEventType[] {
  if (!Array.isArray(types)) throw invalid('types', 'must be a list of event types', types)
  return types.map((type: unknown) => {
    const known = LEASE_EVENT_TYPES.find((candidate) => candidate === type)
    if (known !== undefined) return known
    throw invalid('types', `must be among ${LEASE_EVENT_TYPES.join(', ')}`, type)
  })
}

function readTimeMs(field: string, value: unknown): number {
  return parseSpanMs({ field, min: 0, max: Number.MAX_SAFE_INTEGER }, value)
}

function readLimit(limit: unknown): number {
  return parseSpanMs({ field: 'limit', min: 1, max: LIST_LIMIT_MAX }, limit)
}
