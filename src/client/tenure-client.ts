/**
 * The client that applications hold. It reads what callers pass, asks the store through one `LeaseApi`, and turns
 * refusals into errors; what it waits for and holds is kept in `acquisitions.ts`.
 */
import { closedError, invalid, LeaseError } from '../core/errors.ts'
import { parseHolder, parseLeaseId, parseSession, parseSpanMs } from '../core/input.ts'
import type { LeaseId, LeaseInfo, ReleaseReason } from '../core/lease.ts'
import { CLAIM_WINDOW_MS_MAX, CLAIM_WINDOW_MS_MIN } from '../core/limits.ts'
import { refusalError } from '../core/outcome.ts'
import { kindOf, parseResource, type Resource } from '../core/resource.ts'
import {
  parseSettingKey,
  parseSettingValue,
  resolveSettings,
  type SettingKey,
  type SettingRow,
  type Settings,
  type SettingValue,
} from '../core/settings.ts'
import { report } from '../runtime/diagnostics.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type {
  CleanupResult,
  HistoryEntry,
  Inspection,
  LeaseApi,
  LedgerEntry,
  SettingChange,
} from '../service/lease-api.ts'
import { listAll } from '../service/list-all.ts'
import { Acquisitions, CLIENT_CLOSED, onlyLease } from './acquisitions.ts'
import type {
  AcquireAllOptions,
  Attempt,
  Lease,
  LeaseSet,
  Tenure,
  TenureConfig,
  TryAcquireOptions,
} from './contract.ts'
import type {
  AcquireOptions,
  AdoptOptions,
  HistoryOptions,
  ListOptions,
  ReasonOptions,
  RevokeOptions,
  SettingOptions,
  Wanted,
  WatchOptions,
} from './options.ts'
import type { GrantSigner } from './grant-signer.ts'
import type { LeaseHandle } from './lease-handle.ts'
import { isGone, lossBehind } from './lease-loss.ts'
import { HandleSet, type LeaseReference } from './lease-reference.ts'
import { JointRelease } from './lease-requests.ts'
import {
  checkFunction,
  readAcquire,
  readAcquireAll,
  readAdopt,
  readHistoryOptions,
  readOptions,
  readList,
  readResource,
  readTryAcquire,
  readWatch,
} from './read-options.ts'
import { isRetryable, retry } from './retry.ts'

export interface TenureClientOptions {
  readonly api: LeaseApi
  readonly runtime: Runtime
  /** 1..128 bytes. */
  readonly holder: string
  /** Who waits for whom. Default: a new one, so that every client excludes every other. */
  readonly session?: string
  /** How long a waiter that is not heard of keeps its place; 50..60000. */
  readonly claimWindowMs?: number
  /** The session does one thing after another: a request that it blocks itself is refused at once. Default false. */
  readonly sequential?: boolean
  /** Signs the grants of what the client holds. */
  readonly signer?: GrantSigner
  /** What becomes of a lease that nothing references any more; it is reported either way. Default: renewed on. */
  readonly orphans?: 'renew' | 'release'
  /** Whether leases renew themselves for no longer than the configured `max_hold_seconds`. Default: as long as they are held. */
  readonly maxHold?: 'none' | 'configured'
}

type Work<Result> = (subject: LeaseReference | HandleSet) => Promise<Result> | Result

/** What work runs under: one lease, or several. */
interface Taken {
  readonly leases: readonly LeaseHandle[]
  readonly subject: LeaseReference | HandleSet
  readonly release: (reason: ReleaseReason) => Promise<void>
}

const REVOKE_WITHIN_MS = 10_000
const END_WORK_WITHIN_MS = 1_000
/** A store that does not answer must not keep `close` from ending. Most of the time is for giving leases back. */
const CLOSE_WITHIN_MS = 4_000
const GIVE_BACK_WITHIN_MS = 3_000

export class TenureClient implements Tenure {
  readonly holder: string
  readonly config: TenureConfig
  readonly #session: string
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #acquisitions: Acquisitions
  readonly #closing = new AbortController()
  #closed: Promise<void> | null = null

  constructor(options: TenureClientOptions) {
    const { api, runtime, holder, session, claimWindowMs, sequential = false } = options
    const { signer = null } = options
    this.holder = parseHolder(holder)
    this.#session = session === undefined ? runtime.uuid() : parseSession(session)
    this.#api = api
    this.#runtime = runtime
    this.config = new ClientConfig(api, runtime, () => this.#requireOpen())
    this.#acquisitions = new Acquisitions({
      ...{ api, runtime, holder: this.holder, session: this.#session },
      // A session that was named may have other processes, which may live on when this one is dead.
      isAloneInSession: session === undefined,
      sequential,
      claimWindowMs: readClaimWindow(claimWindowMs),
      ...{ signer, ...readKeeping(options) },
    })
  }

  /** Not a field: it is a secret, and a program that prints or serialises the client does not mean it. */
  get session(): string {
    return this.#session
  }

  async acquire(resource: string, options?: AcquireOptions): Promise<Lease> {
    this.#requireOpen()
    const asked = readAcquire(this.#runtime, resource, options)
    return onlyLease(await this.#acquisitions.obtain(asked)).reference()
  }

  async acquireAll(
    resources: readonly (string | Wanted)[],
    options?: AcquireAllOptions,
  ): Promise<LeaseSet> {
    this.#requireOpen()
    const asked = readAcquireAll(this.#runtime, resources, options)
    const outcome = await this.#acquisitions.obtainAll(asked)
    if (outcome.kind !== 'granted') throw refusalError(outcome)
    return this.#setOf(outcome.leases.map((lease) => lease.reference()))
  }

  async adopt(leaseId: LeaseId, options?: AdoptOptions): Promise<Lease> {
    this.#requireOpen()
    const lease = await this.#acquisitions.adopt(parseLeaseId(leaseId), readAdopt(options))
    return lease.reference()
  }

  async tryAcquire(resource: string, options?: TryAcquireOptions): Promise<Attempt> {
    this.#requireOpen()
    const asked = readTryAcquire(this.#runtime, resource, options)
    const outcome = await this.#acquisitions.obtain(asked)
    if (outcome.kind === 'granted')
      return { kind: 'granted', lease: onlyLease(outcome).reference() }
    const { blockers, retryAfterMs } = outcome
    return { kind: 'held', blockers, retryAfterMs }
  }

  async withLease<Result>(
    wanted: string | readonly (string | Wanted)[],
    ...rest: readonly [unknown, unknown?]
  ): Promise<Result> {
    this.#requireOpen()
    const [options, work] = rest.length === 1 ? [undefined, rest[0]] : rest
    checkFunction('work', work)
    const { leases, subject, release } = Array.isArray(wanted)
      ? await this.#takeAll(wanted, options as AcquireAllOptions)
      : await this.#takeOne(wanted as string, options as AcquireOptions)
    // Work that only waits for the signal of its lease has nothing of its own that keeps the process alive.
    const awake = this.#runtime.setTimer(Infinity, () => undefined, { keepAlive: true })
    const begin = (): Promise<Result> | Result => (work as Work<Result>)(subject)
    let result: Result
    try {
      result = await this.#acquisitions.runInside(leases, begin)
    } catch (error) {
      await this.#endWork(release('aborted')).catch(reportUnlessGone)
      throw lossBehind(error, subject.signal) ?? error
    } finally {
      awake.cancel()
    }
    await this.#endWork(release('completed')).catch(reportIfAway)
    return result
  }

  async #takeOne(resource: string, options?: AcquireOptions): Promise<Taken> {
    const asked = readAcquire(this.#runtime, resource, options)
    const lease = onlyLease(await this.#acquisitions.obtain(asked))
    const subject = lease.reference()
    lease.interest.use(subject)
    const release = async (reason: ReleaseReason): Promise<void> => {
      if (isOurs(lease)) await lease.release({ reason })
    }
    return { leases: [lease], subject, release }
  }

  async #takeAll(
    resources: readonly (string | Wanted)[],
    options?: AcquireAllOptions,
  ): Promise<Taken> {
    const asked = readAcquireAll(this.#runtime, resources, options)
    const outcome = await this.#acquisitions.obtainAll(asked)
    if (outcome.kind !== 'granted') throw refusalError(outcome)
    const { leases } = outcome
    const references = leases.map((lease) => {
      const reference = lease.reference()
      lease.interest.use(reference)
      return reference
    })
    const release = async (reason: ReleaseReason): Promise<void> => {
      const ours = leases.filter(isOurs).map((lease) => lease.reference())
      if (ours.length > 0) await this.#setOf(ours).release({ reason })
    }
    return { leases, subject: this.#setOf(references), release }
  }

  #setOf(references: readonly LeaseReference[]): HandleSet {
    return new HandleSet(references, () => new JointRelease(this.#api, this.#runtime))
  }

  /** The work is done: what came of it is not kept back for long by a store that is away. */
  async #endWork(release: Promise<void>): Promise<void> {
    // No fault: the caller that waits for the release, here or in the background, hears how it ended.
    const ended = release.catch(() => undefined)
    if (await endsWithin(this.#runtime, END_WORK_WITHIN_MS, ended)) await release
    else this.#acquisitions.takeOver('client/release', release)
  }

  async get(leaseId: LeaseId): Promise<LeaseInfo | null> {
    this.#requireOpen()
    return this.#api.get({ id: parseLeaseId(leaseId) })
  }

  async inspect(resource: string): Promise<Inspection> {
    this.#requireOpen()
    return this.#api.inspect({ resource: readResource(this.#runtime, resource) })
  }

  async list(options?: ListOptions): Promise<readonly LeaseInfo[]> {
    this.#requireOpen()
    const { leases } = await this.#api.list(readList(this.#runtime, options))
    return leases
  }

  /** Says at once what is wrong with the options, as `watch` does. */
  listAll(options?: Omit<ListOptions, 'limit'>): AsyncIterable<LeaseInfo> {
    this.#requireOpen()
    const { limit, ...filter } = readList(this.#runtime, options)
    if (limit !== undefined) throw invalid('limit', 'must be left out: all are listed', limit)
    return eachOf(listAll(this.#api, filter))
  }

  async isHeld(resource: string): Promise<boolean> {
    const { leases } = await this.inspect(resource)
    return leases.length > 0
  }

  async holds(holder: string, resource: string): Promise<boolean> {
    const name = parseHolder(holder)
    const { leases } = await this.inspect(resource)
    return leases.some((lease) => lease.holder === name)
  }

  async history(options?: HistoryOptions): Promise<readonly HistoryEntry[]> {
    this.#requireOpen()
    return this.#api.history(readHistoryOptions(this.#runtime, options))
  }

  watch(options?: WatchOptions): AsyncIterable<LedgerEntry> {
    this.#requireOpen()
    const { filter, locals } = readWatch(this.#runtime, options)
    const ends = [this.#closing.signal, ...(locals.signal === undefined ? [] : [locals.signal])]
    return this.#api.watch(filter, { signal: AbortSignal.any(ends) })
  }

  async revoke(leaseId: LeaseId, options?: RevokeOptions): Promise<void> {
    this.#requireOpen()
    const request = {
      ...readOptions('RevokeOptions', options),
      id: parseLeaseId(leaseId),
      by: this.holder,
      requestId: this.#runtime.uuid(),
    }
    const limits = { runtime: this.#runtime, withinMs: REVOKE_WITHIN_MS }
    const answer = await retry(limits, async () => this.#api.revoke(request))
    if (answer.kind !== 'revoked') throw refusalError(answer)
    await this.#acquisitions.lookAt(request.id)
  }

  async releaseAll(holder: string, options?: ReasonOptions): Promise<number> {
    this.#requireOpen()
    const why = readOptions('ReasonOptions', options)
    const name = parseHolder(holder)
    const ended = await this.#api.revokeAll({ ...why, holder: name, by: this.holder })
    await this.#acquisitions.lookAtAllOf(name)
    return ended
  }

  async cleanup(): Promise<CleanupResult> {
    this.#requireOpen()
    return this.#api.cleanup()
  }

  async close(): Promise<void> {
    this.#closed ??= this.#closeOnce()
    return this.#closed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #closeOnce(): Promise<void> {
    const untilMs = this.#runtime.monotonicMs() + CLOSE_WITHIN_MS
    this.#closing.abort()
    await this.#acquisitions.close(GIVE_BACK_WITHIN_MS)
    const leftMs = untilMs - this.#runtime.monotonicMs()
    await endsWithin(this.#runtime, leftMs, this.#api.close())
  }

  #requireOpen(): void {
    if (this.#closed !== null) throw closedError(CLIENT_CLOSED)
    this.#acquisitions.called()
  }
}

/** What the work has abandoned or transferred on purpose is not to be released after it. */
function isOurs({ isAbandoned, isTransferred }: LeaseHandle): boolean {
  return !isAbandoned && !isTransferred
}

/** The work was done under the lease, and the lease ends by itself: the result is worth more than the error. */
function reportIfAway(error: unknown): void {
  if (!isRetryable(error)) throw error
  report('client/release', error)
}

/** A lease that was lost under the work is no news to work that has failed. */
function reportUnlessGone(error: unknown): void {
  if (!isGone(error)) report('client/release', error)
}

/** What becomes of leases that are never released. */
export function readKeeping({
  orphans = 'renew',
  maxHold = 'none',
}: Pick<TenureClientOptions, 'orphans' | 'maxHold'>): Required<
  Pick<TenureClientOptions, 'orphans' | 'maxHold'>
> {
  if (!['renew', 'release'].includes(orphans)) {
    throw invalid('orphans', 'must be renew or release', orphans)
  }
  if (!['none', 'configured'].includes(maxHold)) {
    throw invalid('maxHold', 'must be none or configured', maxHold)
  }
  return { orphans, maxHold }
}

export function readClaimWindow(claimWindowMs: number | undefined): number | null {
  if (claimWindowMs === undefined) return null
  const limit = { field: 'claimWindowMs', min: CLAIM_WINDOW_MS_MIN, max: CLAIM_WINDOW_MS_MAX }
  return parseSpanMs(limit, claimWindowMs)
}

async function* eachOf<Item>(pages: AsyncIterable<readonly Item[]>): AsyncGenerator<Item> {
  for await (const page of pages) yield* page
}

/** Whose value is meant, and a resource for which it holds. */
type SettingTarget = Pick<SettingChange, 'scope' | 'resourceId'>

interface Subject {
  readonly target: SettingTarget
  readonly resource: Resource | null
}

/** The store's configuration as applications see it: keys by name, values by their own type. */
export class ClientConfig implements TenureConfig {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #requireOpen: () => void

  /** `requireOpen` throws `CLOSED` when the client was closed. */
  constructor(api: LeaseApi, runtime: Runtime, requireOpen: () => void) {
    this.#api = api
    this.#runtime = runtime
    this.#requireOpen = requireOpen
  }

  async get(key: SettingKey, options?: SettingOptions): Promise<SettingValue> {
    this.#requireOpen()
    const known = parseSettingKey(key)
    const { target, resource } = this.#subject(options)
    const rows = await this.#api.settingRows()
    const relevant = rows.filter((row) => row.key === known && isWithin(row, target))
    const settings = resolveSettings(relevant, resource)
    if (settings.malformed === null) return settings[known]
    const details = { field: known }
    throw new LeaseError('INVALID_INPUT', `configuration: ${settings.malformed}`, { details })
  }

  async set(key: SettingKey, value: SettingValue, options?: SettingOptions): Promise<void> {
    this.#requireOpen()
    const known = parseSettingKey(key)
    const text = String(parseSettingValue(known, value))
    await this.#api.configure({ key: known, value: text, ...this.#subject(options).target })
  }

  async unset(key: SettingKey, options?: SettingOptions): Promise<void> {
    this.#requireOpen()
    const target = this.#subject(options).target
    await this.#api.configure({ key: parseSettingKey(key), value: null, ...target })
  }

  async all(resource?: string): Promise<Settings> {
    this.#requireOpen()
    if (resource === undefined) return this.#api.settings({})
    return this.#api.settings({ resource: readResource(this.#runtime, resource) })
  }

  async overrides(): Promise<readonly SettingRow[]> {
    this.#requireOpen()
    return this.#api.settingRows()
  }

  #subject(options: SettingOptions | undefined): Subject {
    const subject: unknown = readOptions('SettingOptions', options).for
    if (subject === undefined) {
      return { target: { scope: 'global', resourceId: null }, resource: null }
    }
    if (typeof subject !== 'string') throw invalid('for', 'must be a kind or a resource', subject)
    if (!subject.includes(':')) return kindSubject(subject)
    const resource = readResource(this.#runtime, subject)
    return { target: { scope: 'resource', resourceId: resource }, resource }
  }
}

/** Any resource of the kind will do: overrides for single resources are left out before they are resolved. */
function kindSubject(kind: string): Subject {
  const resource = parseResource(`${kind}:/`)
  return { target: { scope: 'kind', resourceId: kindOf(resource) }, resource }
}

function isWithin(row: SettingRow, target: SettingTarget): boolean {
  return row.scope !== 'resource' || target.scope === 'resource'
}
