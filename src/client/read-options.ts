/**
 * Reads what callers pass to the client. Whatever came is checked here before anything is sent: unknown options are
 * refused, because a misspelt one must not be silently without effect.
 */
import { invalid } from '../core/errors.ts'
import { LEASE_EVENT_TYPES, type LeaseEventType } from '../core/event.ts'
import {
  parseHolder,
  parseLeaseId,
  parseMaxHoldMs,
  parseMaxRenewals,
  parseNote,
  parseSpanMs,
  parseState,
  parseTtlMs,
  parseWaitMs,
  refuseUnknown,
} from '../core/input.ts'
import { LIST_LIMIT_MAX } from '../core/limits.ts'
import { parseResource, type Resource } from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type {
  AcquireRequest,
  HistoryFilter,
  ListFilter,
  WatchFilter,
} from '../service/lease-api.ts'
import type {
  AcquireOptions,
  HistoryOptions,
  ListOptions,
  TryAcquireOptions,
  WatchOptions,
} from './contract.ts'

const TRY_OPTIONS = [
  'ttlMs',
  'maxRenewals',
  'maxHoldMs',
  'autoRenew',
  'reason',
  'metadata',
  'leaseId',
] as const satisfies readonly (keyof TryAcquireOptions)[]

const ACQUIRE_OPTIONS = [
  ...TRY_OPTIONS,
  'waitMs',
  'signal',
] as const satisfies readonly (keyof AcquireOptions)[]

/** What an acquire asks of the store, apart from who asks. */
export type AcquireWish = Omit<AcquireRequest, 'holder' | 'session' | 'claimWindowMs'>

export interface ReadAcquire {
  readonly wish: AcquireWish
  readonly autoRenew: boolean
  readonly signal: AbortSignal | undefined
}

const FILE_PREFIX = 'file:'

/**
 * Reads a resource. A file's name is first refused or accepted by its spelling, and then resolved on the disk from the
 * spelling that the caller gave: taking `..` out beforehand would leave a symbolic link by the wrong door.
 */
export function readResource(runtime: Runtime, text: unknown): Resource {
  const resource = parseResource(text)
  if (!resource.startsWith(FILE_PREFIX)) return resource
  const name = String(text).slice(FILE_PREFIX.length)
  return parseResource(`${FILE_PREFIX}${runtime.canonicalPath(name)}`)
}

export function readAcquire(
  runtime: Runtime,
  resource: unknown,
  options: AcquireOptions = {},
): ReadAcquire {
  refuseUnknown(options, ACQUIRE_OPTIONS)
  const { waitMs, signal } = options
  const wait = waitMs === undefined ? 'configured' : parseWaitMs(waitMs)
  return { ...readCommon(runtime, resource, options, wait), signal: readSignal(signal) }
}

export function readTryAcquire(
  runtime: Runtime,
  resource: unknown,
  options: TryAcquireOptions = {},
): ReadAcquire {
  refuseUnknown(options, TRY_OPTIONS)
  return { ...readCommon(runtime, resource, options, 0), signal: undefined }
}

function readCommon(
  runtime: Runtime,
  resource: unknown,
  options: TryAcquireOptions,
  waitMs: number | 'configured',
): Omit<ReadAcquire, 'signal'> {
  const { ttlMs, maxRenewals, maxHoldMs, autoRenew = true, leaseId } = options
  if (typeof autoRenew !== 'boolean') throw invalid('autoRenew', 'must be true or false', autoRenew)
  const { reason, metadata } = parseNote(options.reason, options.metadata)
  const wish: AcquireWish = {
    leaseId: leaseId === undefined ? runtime.uuid() : parseLeaseId(leaseId),
    resource: readResource(runtime, resource),
    waitMs,
    ...(ttlMs === undefined ? {} : { ttlMs: parseTtlMs(ttlMs) }),
    ...(maxRenewals === undefined ? {} : { maxRenewals: parseMaxRenewals(maxRenewals) }),
    ...(maxHoldMs === undefined ? {} : { maxHoldMs: parseMaxHoldMs(maxHoldMs) }),
    ...(reason === null ? {} : { reason }),
    ...(metadata === null ? {} : { metadata }),
  }
  return { wish, autoRenew }
}

function readSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal
  throw invalid('signal', 'must be an AbortSignal', signal)
}

export function readList(runtime: Runtime, options: ListOptions = {}): ListFilter {
  refuseUnknown(options, ['resource', 'holder', 'state', 'limit'])
  const { state, limit } = options
  return {
    ...readSubject(runtime, options),
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
