/**
 * Writes down what the clock has already decided, and removes what retention no longer keeps, when asked to or in the
 * background. No lease depends on it: expired means free at the moment of the check. But a store that is never pruned grows
 * until its disk is full.
 */
import { LeaseError } from '../core/errors.ts'
import type { Entry } from '../core/lease.ts'
import type { Resource } from '../core/resource.ts'
import { resolveSettings, retentionMs } from '../core/settings.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { backOffMs } from '../runtime/pause.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { Store } from '../store-port/store.ts'
import type { CleanupResult, LeaseApi } from './lease-api.ts'

const PRUNE_BATCH = 1_000

export type SettleBatch = () => Promise<{ readonly expired: number; readonly more: boolean }>

export async function cleanUp(store: Store, settleBatch: SettleBatch): Promise<CleanupResult> {
  let expired = 0
  for (;;) {
    const batch = await settleBatch()
    expired += batch.expired
    if (!batch.more) break
  }
  const { prunedLeases, prunedEvents } = await pruneAll(store)
  return { expired, prunedLeases, prunedEvents }
}

/**
 * One entry for each place at which something is over. Whatever was derived from another that is over ends with it, and
 * a look at a subtree sees what is at its own name.
 */
export function placesToSettle(entries: readonly Entry[]): readonly Entry[] {
  const over = new Set(entries.map(({ id }) => id))
  const places = new Map<Resource, Entry>()
  for (const entry of entries) {
    if (entry.delegation?.line.some((ancestor) => over.has(ancestor)) === true) continue
    const known = places.get(entry.resource)
    if (known?.extent !== 'subtree') places.set(entry.resource, entry)
  }
  return [...places.values()]
}

async function pruneAll(store: Store): Promise<Omit<CleanupResult, 'expired'>> {
  const days = await retentionDays(store)
  const { now } = await store.find({ ids: [], limit: 1 })
  const policy = {
    endedBeforeMs: now.wallMs - retentionMs(days),
    nowMs: now.wallMs,
    batch: PRUNE_BATCH,
  }
  let prunedLeases = 0
  let prunedEvents = 0
  for (;;) {
    const pruned = await store.prune(policy)
    prunedLeases += pruned.leases
    prunedEvents += pruned.events
    if (!pruned.more) return { prunedLeases, prunedEvents }
  }
}

/** A value that is none is not guessed at: what is pruned by a wrong one is gone. */
async function retentionDays(store: Store): Promise<number> {
  const field = 'history_retention_days'
  const rows = (await store.settings()).filter(({ key }) => key === field)
  const { malformed, history_retention_days: days } = resolveSettings(rows, null)
  if (malformed === null) return days
  throw new LeaseError('INVALID_INPUT', `configuration: ${malformed}`, { details: { field } })
}

/** How soon a change of the interval is noticed. */
const GLANCE = { firstMs: 1_000, maxMs: 60_000 } as const

/**
 * The background sweep that any open process takes part in, as `auto_expire_enabled` and `cleanup_interval_seconds` say at
 * the moment. A sweep that fails is reported and tried again after growing pauses.
 */
export class Sweeper {
  readonly #api: Pick<LeaseApi, 'settings' | 'cleanup'>
  readonly #runtime: Runtime
  readonly #fault: RepeatedFault
  #lastSweepMs: number
  #timer: Timer | null = null
  #underWay: Promise<void> | null = null

  constructor(api: Pick<LeaseApi, 'settings' | 'cleanup'>, runtime: Runtime) {
    this.#api = api
    this.#runtime = runtime
    const monotonicMs = (): number => runtime.monotonicMs()
    this.#fault = new RepeatedFault('service/sweep', { monotonicMs })
    this.#lastSweepMs = runtime.monotonicMs()
    this.#arm()
  }

  async stop(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    await this.#underWay
  }

  #arm(): void {
    const delayMs = backOffMs(this.#fault.count + 1, GLANCE)
    this.#timer = this.#runtime.setTimer(delayMs, () => this.#glance(), { keepAlive: false })
  }

  #glance(): void {
    this.#underWay = this.#sweepIfDue().then(() => {
      this.#underWay = null
      if (this.#timer !== null) this.#arm()
    })
  }

  async #sweepIfDue(): Promise<void> {
    try {
      const settings = await this.#api.settings({})
      const sinceMs = this.#runtime.monotonicMs() - this.#lastSweepMs
      const isDue = sinceMs >= settings.cleanup_interval_seconds * 1000
      if (settings.auto_expire_enabled && isDue) {
        await this.#api.cleanup()
        this.#lastSweepMs = this.#runtime.monotonicMs()
      }
      this.#fault.succeeded()
    } catch (error) {
      if (this.#timer !== null) this.#fault.failed(error)
    }
  }
}
