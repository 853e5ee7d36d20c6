/**
 * Acquires, releases and hands over sessions. Calls about one session run one after the other, so that a handover that
 * arrives during an acquire finds the registry up to date.
 */
import { LeaseError } from '../core/errors.ts'
import { FenceMemory, isStaleGrant } from '../client/stale-answers.ts'
import { batchesOf } from '../core/batches.ts'
import { RepeatedFault, reportTo } from '../runtime/diagnostics.ts'
import { SerialQueue } from '../runtime/serial-queue.ts'
import type { FleetInstance } from './fleet-instance.ts'
import type { AcquireReply, FleetNode, Grant, GrantReply } from './fleet-layout.ts'
import type { Origin, SessionRegistry } from './session-registry.ts'

/** Sessions in one call: more might not be answered in time, and then no attempt would ever succeed. */
const ACQUIRE_MAX = 1_000

const RELEASE_MAX = 10_000

const ACQUIRED: Origin = { isTransferred: false, from: null }

export class SessionAcquirer {
  readonly #instance: FleetInstance
  readonly #registry: SessionRegistry
  /** Called after every acquire, which may have granted something. */
  readonly #onGranted: () => void
  readonly #calls = new SerialQueue<string>()
  readonly #fences = new FenceMemory()
  /** Any client of the store can publish messages that are no handovers, in any number. */
  readonly #handoverFault: RepeatedFault

  constructor(instance: FleetInstance, registry: SessionRegistry, onGranted: () => void) {
    this.#instance = instance
    this.#registry = registry
    this.#onGranted = onGranted
    this.#handoverFault = new RepeatedFault('fleet/handover', instance.runtime)
  }

  /** A thousand in a round trip. Does not throw while the store is unavailable: each reply says what failed. */
  async acquire(sessionIds: readonly string[]): Promise<readonly AcquireReply[]> {
    return this.#calls.run(sessionIds, async () => this.#acquire(sessionIds, ACQUIRED))
  }

  /** This instance no longer owns them once this is called, also where the store is unavailable and this throws. */
  async release(sessionIds: readonly string[]): Promise<void> {
    await this.#calls.run(sessionIds, async () => this.#release(sessionIds))
  }

  /** False if this instance did not own it any more. When this throws, the owner is unknown, and not this instance. */
  async handOver(sessionId: string, to: FleetNode): Promise<boolean> {
    return this.#calls.run([sessionId], async () => this.#handOver(sessionId, to))
  }

  /** Acquires a session that was handed to this instance. If that fails, the next pass does: the store names this owner. */
  async adopt(text: string, from: string | null): Promise<void> {
    await this.#inBackground(text, async (sessionId) => {
      const [reply] = await this.#acquire([sessionId], { isTransferred: true, from })
      if (reply?.kind === 'failed') throw reply.error
    })
  }

  /** Releases a session that was handed to this instance while it stops, so that no instance waits for its expiry. */
  async decline(text: string): Promise<void> {
    await this.#inBackground(text, async (sessionId) => {
      const [reply] = await this.#instance.layout.acquire([sessionId])
      if (reply?.kind === 'failed') throw reply.error
      if (reply?.kind === 'acquired') await this.#releaseGrant(reply)
    })
  }

  /** Waits for the calls in progress and releases everything. What cannot be released ends by its TTL. */
  async end(): Promise<void> {
    await this.#calls.idle()
    await this.#release(this.#registry.sessionIds).catch(reportTo('fleet/release'))
  }

  /** Reports errors instead of throwing: there is no caller, and the text is unchecked input. */
  async #inBackground(text: string, work: (sessionId: string) => Promise<void>): Promise<void> {
    try {
      const sessionId = this.#instance.layout.parseSessionId(text)
      await this.#calls.run([sessionId], async () => work(sessionId))
      this.#handoverFault.succeeded()
    } catch (error) {
      this.#handoverFault.failed(error)
    }
  }

  async #releaseGrant(grant: Grant): Promise<void> {
    const [reply] = await this.#instance.layout.release([grant])
    if (reply?.kind === 'failed') throw reply.error
  }

  async #acquire(sessionIds: readonly string[], origin: Origin): Promise<readonly AcquireReply[]> {
    const wanted = sessionIds.filter((id) => !this.#isHeld(id))
    const answers = new Map<string, AcquireReply>()
    for (const batch of batchesOf(wanted, ACQUIRE_MAX)) {
      for (const [id, reply] of await this.#acquireBatch(batch, origin)) answers.set(id, reply)
    }
    return sessionIds.map((sessionId) => answers.get(sessionId) ?? this.#ownReply(sessionId))
  }

  async #acquireBatch(
    wanted: readonly string[],
    origin: Origin,
  ): Promise<ReadonlyMap<string, AcquireReply>> {
    const { layout, clock } = this.#instance
    const sent = clock.now()
    const reclaimed = new Set(wanted.filter((id) => this.#registry.isReclaimable(id)))
    const replies = await layout.acquire(wanted, reclaimed)
    const answers = new Map<string, AcquireReply>()
    for (const [index, sessionId] of wanted.entries()) {
      const reply = this.#checkFence(sessionId, replies[index])
      const isOurs = this.#registry.recordAcquire(sessionId, reply, { ...origin, sent })
      const isLate = reply.kind === 'acquired' && !isOurs
      answers.set(sessionId, isLate ? failed(lateError(sessionId)) : reply)
    }
    this.#onGranted()
    return answers
  }

  /** A store that grants a lower fence than before has lost data, and every guard would refuse this lease anyway. */
  #checkFence(sessionId: string, reply: AcquireReply | undefined): AcquireReply {
    if (reply === undefined) return failed(unansweredError())
    if (reply.kind !== 'acquired') return reply
    const { fence, token: leaseId } = reply
    const seen = this.#fences.highest(sessionId)
    this.#fences.remember(sessionId, { fence, leaseId })
    if (!isStaleGrant({ fence, leaseId, repeated: false }, seen)) return reply
    this.#releaseGrant(reply).catch(reportTo('fleet/release'))
    return failed(staleError(sessionId, fence, seen?.fence ?? 0))
  }

  /** For a session that was owned when the others were asked for, and may have been lost meanwhile. */
  #ownReply(sessionId: string): AcquireReply {
    const lease = this.#registry.leaseOf(sessionId)
    if (lease === null || !this.#isHeld(sessionId)) return failed(lateError(sessionId))
    const { id, fence } = lease
    return { kind: 'acquired', sessionId, fence, id, token: '', wasOurs: true }
  }

  #isHeld(sessionId: string): boolean {
    const state = this.#registry.state(sessionId)
    return state === 'owned' || state === 'uncertain'
  }

  async #release(sessionIds: readonly string[]): Promise<void> {
    const { layout, listeners } = this.#instance
    const grants = sessionIds.flatMap((sessionId) => this.#registry.remove(sessionId) ?? [])
    if (grants.length === 0) return
    const replies: GrantReply[] = []
    for (const batch of batchesOf(grants, RELEASE_MAX))
      replies.push(...(await layout.release(batch)))
    for (const [index, { sessionId }] of grants.entries()) {
      const kind = replies[index]?.kind
      if (kind === 'done') listeners.emit('released', { sessionId })
      if (kind === 'gone') listeners.emit('lost', { sessionId, reason: 'not_owner' })
    }
    const problem = replies.find((reply) => reply.kind === 'failed')
    if (problem?.kind === 'failed') throw problem.error
  }

  async #handOver(sessionId: string, to: FleetNode): Promise<boolean> {
    const { layout, listeners, settings } = this.#instance
    const grant = this.#registry.remove(sessionId)
    if (grant === null) return false
    const reply = await layout.transfer(grant, to)
    if (reply.kind === 'failed') throw reply.error
    if (reply.kind === 'gone') {
      listeners.emit('lost', { sessionId, reason: 'not_owner' })
      return false
    }
    if (!to.isForeign) this.#registry.noteOwner(sessionId, to.instanceId)
    listeners.emit('rebalanced', { sessionId, from: settings.instanceId, to: to.instanceId })
    return true
  }
}

function failed(error: LeaseError): AcquireReply {
  return { kind: 'failed', error }
}

function unansweredError(): LeaseError {
  return new LeaseError('STORE_OUTCOME_UNKNOWN', 'no answer came')
}

/** The answer came when the lease was already over, as it does to a process that was stopped meanwhile. */
function lateError(sessionId: string): LeaseError {
  const message = `session ${sessionId} was granted, but the answer came when that was over`
  return new LeaseError('LEASE_EXPIRED', message, { details: { sessionId } })
}

function staleError(sessionId: string, fence: number, seenFence: number): LeaseError {
  const message = `the store granted ${sessionId} with fence ${fence} after ${seenFence}: it has lost data`
  return new LeaseError('STORE_UNAVAILABLE', message, { details: { sessionId, fence, seenFence } })
}
