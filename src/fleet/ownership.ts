/**
 * How an instance comes by sessions and gives them away. Calls about one session run one after the other, so that a
 * handover that arrives while an acquire is under way finds a settled book.
 */
import { LeaseError } from '../core/errors.ts'
import { FenceMemory, isStale } from '../client/fence-memory.ts'
import type { HolderClock } from '../client/holder-clock.ts'
import type { Listeners } from '../client/listeners.ts'
import { RepeatedFault, reportTo } from '../runtime/diagnostics.ts'
import type { FleetEvents } from './contract.ts'
import type { AcquireReply, FleetLayout, FleetNode, Grant, GrantReply } from './fleet-layout.ts'
import type { Origin, SessionBook } from './session-book.ts'
import { inParts } from './in-parts.ts'
import { Turns } from './turns.ts'

export interface OwnershipParts {
  readonly layout: FleetLayout
  readonly book: SessionBook
  readonly clock: HolderClock
  readonly listeners: Listeners<FleetEvents>
  readonly instanceId: string
  /** Something may have been granted. */
  readonly onGranted: () => void
}

/** Of one call: more might not be answered in time, and then none of them would ever be ours. */
const ACQUIRE_MAX = 1_000

const RELEASE_MAX = 10_000

const TAKEN: Origin = { isGiven: false, from: null }

export class Ownership {
  readonly #parts: OwnershipParts
  readonly #turns = new Turns()
  readonly #fences = new FenceMemory()
  /** Anybody can send handovers that are none, any number of them. */
  readonly #handoverFault: RepeatedFault

  constructor(parts: OwnershipParts) {
    this.#parts = parts
    const clock = { monotonicMs: () => parts.clock.now().monotonicMs }
    this.#handoverFault = new RepeatedFault('fleet/handover', clock)
  }

  /** A thousand in a round trip. Never throws for a store that is away. */
  async acquire(sessionIds: readonly string[]): Promise<readonly AcquireReply[]> {
    return this.#turns.take(sessionIds, async () => this.#acquire(sessionIds, TAKEN))
  }

  /** From here on they are not ours, whether or not the store hears of it. Throws what the store throws. */
  async release(sessionIds: readonly string[]): Promise<void> {
    await this.#turns.take(sessionIds, async () => this.#release(sessionIds))
  }

  /** False if it was not ours any more. Throws when nobody knows who has it; then it is not ours. */
  async handOver(sessionId: string, to: FleetNode): Promise<boolean> {
    return this.#turns.take([sessionId], async () => this.#handOver(sessionId, to))
  }

  /** Takes what another handed over. If that fails, the next pass finds it: the store has it in our name. */
  async adopt(text: string, from: string | null): Promise<void> {
    await this.#inBackground(text, async (sessionId) => {
      const [reply] = await this.#acquire([sessionId], { isGiven: true, from })
      if (reply?.kind === 'failed') throw reply.error
    })
  }

  /** Frees what was handed to an instance that is leaving, so that nobody has to wait for it to expire. */
  async decline(text: string): Promise<void> {
    await this.#inBackground(text, async (sessionId) => {
      const [reply] = await this.#parts.layout.acquire([sessionId])
      if (reply?.kind === 'failed') throw reply.error
      if (reply?.kind === 'acquired') await this.#giveBack(reply)
    })
  }

  /** Waits for what is under way and releases everything. What fails now ends by its TTL. */
  async end(): Promise<void> {
    await this.#turns.rest()
    await this.#release(this.#parts.book.sessionIds).catch(reportTo('fleet/release'))
  }

  /** No caller waits for this, and whoever sent the text may have sent anything. */
  async #inBackground(text: string, work: (sessionId: string) => Promise<void>): Promise<void> {
    try {
      const sessionId = this.#parts.layout.parseSessionId(text)
      await this.#turns.take([sessionId], async () => work(sessionId))
      this.#handoverFault.succeeded()
    } catch (error) {
      this.#handoverFault.failed(error)
    }
  }

  async #giveBack(grant: Grant): Promise<void> {
    const [reply] = await this.#parts.layout.release([grant])
    if (reply?.kind === 'failed') throw reply.error
  }

  async #acquire(sessionIds: readonly string[], origin: Origin): Promise<readonly AcquireReply[]> {
    const wanted = sessionIds.filter((id) => !this.#isHeld(id))
    const answers = new Map<string, AcquireReply>()
    for (const part of inParts(wanted, ACQUIRE_MAX)) {
      for (const [id, reply] of await this.#acquirePart(part, origin)) answers.set(id, reply)
    }
    return sessionIds.map((sessionId) => answers.get(sessionId) ?? this.#ownReply(sessionId))
  }

  async #acquirePart(
    wanted: readonly string[],
    origin: Origin,
  ): Promise<ReadonlyMap<string, AcquireReply>> {
    const { layout, book, clock, onGranted } = this.#parts
    const sent = clock.now()
    const reclaimed = new Set(wanted.filter((id) => book.isReclaimable(id)))
    const replies = await layout.acquire(wanted, reclaimed)
    const answers = new Map<string, AcquireReply>()
    for (const [index, sessionId] of wanted.entries()) {
      const reply = this.#checkFence(sessionId, replies[index])
      const isOurs = book.answered(sessionId, reply, { ...origin, sent })
      const isLate = reply.kind === 'acquired' && !isOurs
      answers.set(sessionId, isLate ? failed(lateError(sessionId)) : reply)
    }
    onGranted()
    return answers
  }

  /** A store that grants a lower fence than before has lost data, and whoever checks fences would refuse us anyway. */
  #checkFence(sessionId: string, reply: AcquireReply | undefined): AcquireReply {
    if (reply === undefined) return failed(unansweredError())
    if (reply.kind !== 'acquired') return reply
    const { fence, token: leaseId } = reply
    const seen = this.#fences.highest(sessionId)
    this.#fences.remember(sessionId, { fence, leaseId })
    if (!isStale({ fence, leaseId, repeated: false }, seen)) return reply
    this.#giveBack(reply).catch(reportTo('fleet/release'))
    return failed(staleError(sessionId, fence, seen?.fence ?? 0))
  }

  /** It was held when the others were asked for, and may have been lost meanwhile. */
  #ownReply(sessionId: string): AcquireReply {
    const lease = this.#parts.book.leaseOf(sessionId)
    if (lease === null || !this.#isHeld(sessionId)) return failed(lateError(sessionId))
    const { id, fence } = lease
    return { kind: 'acquired', sessionId, fence, id, token: '', wasOurs: true }
  }

  #isHeld(sessionId: string): boolean {
    const state = this.#parts.book.state(sessionId)
    return state === 'owned' || state === 'uncertain'
  }

  async #release(sessionIds: readonly string[]): Promise<void> {
    const { layout, book, listeners } = this.#parts
    const grants = sessionIds.flatMap((sessionId) => book.take(sessionId) ?? [])
    if (grants.length === 0) return
    const replies: GrantReply[] = []
    for (const part of inParts(grants, RELEASE_MAX)) replies.push(...(await layout.release(part)))
    for (const [index, { sessionId }] of grants.entries()) {
      const kind = replies[index]?.kind
      if (kind === 'done') listeners.emit('released', { sessionId })
      if (kind === 'gone') listeners.emit('lost', { sessionId, reason: 'not_owner' })
    }
    const problem = replies.find((reply) => reply.kind === 'failed')
    if (problem?.kind === 'failed') throw problem.error
  }

  async #handOver(sessionId: string, to: FleetNode): Promise<boolean> {
    const { layout, book, listeners, instanceId: from } = this.#parts
    const grant = book.take(sessionId)
    if (grant === null) return false
    const reply = await layout.transfer(grant, to)
    if (reply.kind === 'failed') throw reply.error
    if (reply.kind === 'gone') {
      listeners.emit('lost', { sessionId, reason: 'not_owner' })
      return false
    }
    if (!to.isForeign) book.noteOwner(sessionId, to.instanceId)
    listeners.emit('rebalanced', { sessionId, from, to: to.instanceId })
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
