/**
 * Drives one workflow, and is the only one that does: it holds the lease of `workflow:ID`, numbers everything that it
 * sends with the workflow's epoch, and sends nothing once the lease is over.
 *
 * What it does not promise: an orchestrator that is paused after its last look at the lease may still publish what it
 * had in hand. The guards of the processors refuse it, by lease and fence.
 */
import type { Lease, Tenure } from '../client/contract.ts'
import { readReceiver } from '../client/read-options.ts'
import type { RootLease } from '../core/delegation.ts'
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import type { FencedLease } from '../core/fenced-lease.ts'
import { refuseUnknown } from '../core/input.ts'
import type { Extent, Mode } from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
import {
  EVERY_TARGET,
  LEASE_TRANSFER,
  parseActionPriority,
  parseName,
  payloadText,
  readAction,
  type Action,
  type IncomingAction,
} from './action.ts'
import type { Bus } from './bus.ts'
import {
  EmissionQueue,
  limitError,
  TARGETS_MAX,
  type Draft,
  type EpochPlace,
} from './emission-queue.ts'
import { givenLease, unannounced, type Handoff } from './handoff.ts'
import { leaseViolation } from './judgement.ts'
import { frozenCopy, LEASE_REVOKED } from './wire/action-json.ts'
import { stateNote } from './workflow-state.ts'
import { WorkflowRenewal } from './workflow-renewal.ts'

export interface EmitOptions {
  /** The kind of processor that is to act. Default `*`: all of them. */
  readonly target?: string
  /** 1..10, default 5. */
  readonly priority?: number
}

export interface OrchestratorParts {
  readonly tenure: Tenure
  readonly lease: Lease
  readonly bus: Bus
  readonly runtime: Runtime
  readonly workflowId: string
  readonly state: string
  /** Whether actions carry the signed grant of the lease. */
  readonly signed: boolean
  readonly renewBelowMs: number
}

export class Orchestrator implements FencedLease, AsyncDisposable {
  readonly workflowId: string
  readonly #parts: OrchestratorParts
  readonly #queue: EmissionQueue
  readonly #renewal: WorkflowRenewal

  constructor(parts: OrchestratorParts) {
    const { lease, bus, runtime, renewBelowMs, state } = parts
    this.workflowId = parts.workflowId
    this.#parts = parts
    this.#queue = new EmissionQueue({ lease, bus, state, requireHeld: () => this.#requireHeld() })
    this.#renewal = new WorkflowRenewal({ lease, runtime, renewBelowMs })
  }

  get leaseId(): string {
    return this.#parts.lease.id
  }

  get id(): string {
    return this.#parts.lease.id
  }

  get resource(): string {
    return this.#parts.lease.resource
  }

  get mode(): Mode {
    return this.#parts.lease.mode
  }

  get extent(): Extent {
    return this.#parts.lease.extent
  }

  get slots(): number | null {
    return this.#parts.lease.slots
  }

  get root(): RootLease | null {
    return this.#parts.lease.root
  }

  get fence(): number {
    return this.#parts.lease.fence
  }

  /** The next one: whatever is sent or changed next has it. */
  get epoch(): number {
    return this.#parts.lease.epoch ?? 0
  }

  /** How far the workflow is, in the words of its orchestrators; the next one goes on from there. */
  get state(): string {
    return this.#queue.state
  }

  /** Aborts with a `LeaseError` when the workflow is lost. */
  get signal(): AbortSignal {
    return this.#parts.lease.signal
  }

  get remainingMs(): number {
    return this.#parts.lease.remainingMs
  }

  /** When the lease was granted, in wall time; a renewal does not change it. */
  get acquiredAtMs(): number {
    return this.#parts.lease.info.grantedAtMs ?? 0
  }

  /** For how long the lease is granted, and renewed. */
  get ttlMs(): number {
    return this.#parts.lease.info.ttlMs
  }

  /** Throws `LEASE_EXPIRED` or `LEASE_LOST` when the workflow may not be acted for any more; asks nobody. */
  check(): void {
    this.#requireHeld()
  }

  /** Renews the lease now. It renews itself as well, but not while the program leaves no time for timers. */
  async renew(): Promise<void> {
    this.#requireHeld()
    await this.#guarded(() => this.#parts.lease.renew())
  }

  /**
   * True if the action is one of this workflow under this lease, which is still held. Throws what `check` throws,
   * `LEASE_VIOLATION` for another's, and `FUTURE_EPOCH` for an epoch that was not come to. Whether it is stale is for
   * the processors to say: only they know what they have carried out.
   */
  validate(action: IncomingAction): true {
    const read = readAction(action)
    this.#requireHeld()
    const own = { leaseId: this.leaseId, fence: this.fence, epoch: this.epoch }
    const named = { ...read, workflowId: read.workflowId ?? this.workflowId }
    if (named.workflowId !== this.workflowId) {
      throw leaseViolation(named, own, `it is not of workflow ${this.workflowId}`)
    }
    if (read.leaseId !== own.leaseId) throw leaseViolation(named, own, 'it carries another lease')
    if (read.fence !== null && read.fence !== own.fence) {
      throw leaseViolation(named, own, 'it carries another fence')
    }
    if (read.epoch <= own.epoch) return true
    const message = `epoch must be at most ${own.epoch}, which is the next, got ${read.epoch}`
    throw new LeaseError('FUTURE_EPOCH', message, {
      details: {
        ...{ action_id: read.actionId, workflow_id: this.workflowId },
        ...{ action_epoch: read.epoch, current_epoch: own.epoch },
        recommendation: 'Check for missed state updates',
      },
    })
  }

  /**
   * Sends an action to the processors of a target, or to all, under an epoch of its own. Resolves when the bus has it. Throws
   * `LEASE_EXPIRED` or `LEASE_LOST`, and then nothing was published.
   */
  async emit(type: string, payload: unknown, options: EmitOptions = {}): Promise<Action> {
    refuseUnknown(options, ['target', 'priority'])
    const draft = this.#draft(parseOwnType(type), payload, {
      target: this.#readTarget(options.target ?? EVERY_TARGET),
      priority: parseActionPriority(options.priority),
    })
    const { action } = await this.#put(draft)
    return action as Action
  }

  /** Notes a change of the workflow's state, under an epoch of its own, in the ledger. */
  async advance(state: string): Promise<void> {
    await this.#put({ kind: 'state', state: parseName(state, 'state') })
  }

  /**
   * Gives the workflow to another orchestrator in one commit, so that it is never without an owner, and tells the
   * processors. The receiver takes it over with `claimWorkflow`, under that name, and goes on with the next epoch.
   *
   * What was emitted before is sent first, and what is emitted meanwhile is not sent: the announcement is the last word.
   */
  async handoff(to: string): Promise<Handoff> {
    this.#requireHeld()
    readReceiver({ holder: to }, this.#parts.lease.holder)
    return this.#queue.alone(() => this.#guarded(() => this.#handOff(to)))
  }

  /** Everything is done: the lease is given back. */
  async complete(): Promise<void> {
    const release = (): Promise<void> => this.#parts.lease.release({ reason: 'completed' })
    await this.#queue.alone(() => this.#guarded(() => this.#finally(release)))
  }

  /** Gives the workflow up, whatever state it is in; never throws for one that is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#renewal.stop()
    await this.#parts.lease[Symbol.asyncDispose]()
  }

  async #handOff(to: string): Promise<Handoff> {
    const { lease, bus } = this.#parts
    this.#requireHeld()
    const { id: oldLeaseId, fence: oldFence } = lease
    const range = await lease.advance({ reason: stateNote(this.state) })
    const newLeaseId = await this.#finally(() => lease.transfer({ holder: to }))
    const given = await givenLease(this.#parts, newLeaseId, to)
    const announcement = this.#build(
      { type: LEASE_TRANSFER, target: EVERY_TARGET, priority: 10 },
      { leaseId: oldLeaseId, fence: oldFence, epoch: range.from, previousEpoch: null },
      {
        old_lease_id: oldLeaseId,
        new_lease_id: given.leaseId,
        new_fence: given.fence,
        transfer_epoch: range.from,
        last_epochs: Object.fromEntries(this.#queue.lastSent),
      },
    )
    const handoff = { ...given, epoch: range.to }
    await bus.publish([announcement]).catch((cause: unknown) => {
      throw unannounced(to, handoff, cause)
    })
    return handoff
  }

  /** The lease is over after `end`, or lives on and is renewed as before. */
  async #finally<Result>(end: () => Promise<Result>): Promise<Result> {
    this.#renewal.stop()
    try {
      return await end()
    } catch (error) {
      this.#renewal.resume()
      throw error
    }
  }

  #readTarget(value: unknown): string {
    const target = parseName(value, 'target')
    const { lastSent } = this.#queue
    if (lastSent.size < TARGETS_MAX || lastSent.has(target)) return target
    throw limitError('targets may be sent to under one lease', TARGETS_MAX)
  }

  #draft(type: string, payload: unknown, to: Required<EmitOptions>): Draft {
    const copy = frozenCopy(payloadText(payload))
    const named = { type, ...to }
    const build = (place: EpochPlace): Action => {
      const { id: leaseId, fence } = this.#parts.lease
      return this.#build(named, { leaseId, fence, ...place }, copy)
    }
    return { kind: 'action', target: to.target, build }
  }

  #build(
    named: Required<EmitOptions> & { readonly type: string },
    proof: Pick<Action, 'leaseId' | 'fence'> & EpochPlace,
    payload: unknown,
  ): Action {
    const { runtime, lease, signed } = this.#parts
    return readAction({
      actionId: runtime.uuid(),
      actionType: named.type,
      target: named.target,
      payload,
      workflowId: this.workflowId,
      ...proof,
      priority: named.priority,
      issuedAtMs: Math.floor(runtime.wallMs()),
      grant: signed ? lease.grant : undefined,
    })
  }

  async #put(draft: Draft): ReturnType<EmissionQueue['put']> {
    this.#requireHeld()
    return this.#guarded(() => this.#queue.put(draft))
  }

  /** What the handle throws at its loss, said as this contract says it. */
  async #guarded<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call()
    } catch (error) {
      throw isLeaseError(error) && isLoss(error) ? this.#lossError(error) : error
    }
  }

  #requireHeld(): void {
    const { lease } = this.#parts
    const { state } = lease
    if (state === 'released') {
      const message = `workflow ${this.workflowId} was given up already`
      const details = { workflow_id: this.workflowId, lease_id: this.leaseId }
      throw new LeaseError('LEASE_TERMINAL', message, { details })
    }
    if (state === 'lost') throw this.#lossError(lease.signal.reason as LeaseError)
  }

  /** A lease that ran out has expired; one that was taken away is lost. */
  #lossError(loss: LeaseError): LeaseError {
    const { grantedAtMs, ttlMs } = this.#parts.lease.info
    const reason = loss.details['reason']
    const expired =
      loss.code === 'LEASE_EXPIRED' || reason === 'deadline_passed' || reason === 'expired'
    const context = {
      workflow_id: this.workflowId,
      lease_id: this.leaseId,
      acquired_at: new Date(grantedAtMs ?? 0).toISOString(),
      ttl_seconds: ttlMs / 1000,
      recommendation: 'claim the workflow again',
    }
    return new LeaseError(expired ? 'LEASE_EXPIRED' : 'LEASE_LOST', loss.message, {
      cause: loss,
      details: { ...loss.details, ...context },
    })
  }
}

function isLoss({ code }: LeaseError): boolean {
  return code === 'LEASE_LOST' || code === 'LEASE_EXPIRED'
}

/** What orchestrators and the store announce cannot be emitted as if it were an action. */
function parseOwnType(value: unknown): string {
  const type = parseName(value, 'actionType')
  if (type !== LEASE_TRANSFER && type !== LEASE_REVOKED) return type
  throw invalid('actionType', `must not be ${LEASE_TRANSFER} or ${LEASE_REVOKED}`, type)
}
