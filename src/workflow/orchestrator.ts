/**
 * Drives one workflow, and is the only one that does: it holds the lease of `workflow:ID`, numbers everything that it
 * sends with the workflow's epoch, and sends nothing once the lease is over.
 *
 * What it does not promise: an orchestrator that is paused after its last look at the lease may still publish what it
 * had in hand. The guards of the processors refuse it, by lease and fence.
 */
import type { Lease, Tenure } from '../client/contract.ts'
import { isLeaseError, LeaseError } from '../core/errors.ts'
import { refuseUnknown } from '../core/input.ts'
import type { Runtime } from '../runtime/runtime.ts'
import {
  createAction,
  EVERY_TARGET,
  LEASE_TRANSFER,
  parseActionPriority,
  parseName,
  payloadText,
  type Action,
} from './action.ts'
import type { Bus } from './bus.ts'
import { EmissionQueue, type Draft } from './emission-queue.ts'
import { frozenCopy } from './wire/action-json.ts'
import { WorkflowRenewal } from './workflow-renewal.ts'

export interface EmitOptions {
  /** The kind of processor that is to act. */
  readonly target: string
  /** 1..10, default 5. */
  readonly priority?: number
}

/** What the receiver of a workflow has, whether or not it has taken it over yet. */
export interface Handoff {
  readonly leaseId: string
  readonly fence: number
  /** The receiver goes on from here. */
  readonly epoch: number
}

export interface OrchestratorParts {
  readonly tenure: Tenure
  readonly lease: Lease
  readonly bus: Bus
  readonly runtime: Runtime
  readonly workflowId: string
  readonly state: string
  readonly renewBelowMs: number
}

export class Orchestrator implements AsyncDisposable {
  readonly workflowId: string
  readonly #parts: OrchestratorParts
  readonly #queue: EmissionQueue
  readonly #renewal: WorkflowRenewal
  #state: string

  constructor(parts: OrchestratorParts) {
    const { lease, bus, runtime, renewBelowMs } = parts
    this.workflowId = parts.workflowId
    this.#parts = parts
    this.#state = parts.state
    this.#queue = new EmissionQueue({ lease, bus, requireHeld: () => this.#requireHeld() })
    this.#renewal = new WorkflowRenewal({ lease, runtime, renewBelowMs })
  }

  get leaseId(): string {
    return this.#parts.lease.id
  }

  get fence(): number {
    return this.#parts.lease.fence
  }

  /** The next one: whatever is sent or changed next has it. */
  get epoch(): number {
    return this.#parts.lease.epoch ?? 0
  }

  /** The orchestrator's own word for how far the workflow is. */
  get state(): string {
    return this.#state
  }

  /** Aborts with a `LeaseError` when the workflow is lost. */
  get signal(): AbortSignal {
    return this.#parts.lease.signal
  }

  get remainingMs(): number {
    return this.#parts.lease.remainingMs
  }

  /**
   * Sends an action to the processors of a target, under an epoch of its own. Resolves when the bus has it. Throws
   * `LEASE_EXPIRED` or `LEASE_LOST`, and then nothing was published.
   */
  async emit(type: string, payload: unknown, options: EmitOptions): Promise<Action> {
    refuseUnknown(options, ['target', 'priority'])
    const draft = this.#draft(type, payload, {
      target: parseName(options?.target, 'target'),
      priority: parseActionPriority(options.priority),
    })
    const { action } = await this.#put(draft)
    return action as Action
  }

  /** Notes a change of the workflow's state, under an epoch of its own, in the ledger. */
  async advance(state: string): Promise<void> {
    const word = parseName(state, 'state')
    await this.#put({ kind: 'state', state: word })
    this.#state = word
  }

  /**
   * Gives the workflow to another orchestrator in one commit, so that it is never without an owner, and tells the
   * processors. The receiver takes it over with `claimWorkflow`, under that name, and goes on with the next epoch.
   */
  async handoff(to: string): Promise<Handoff> {
    const { tenure, lease, bus } = this.#parts
    this.#requireHeld()
    await this.#queue.drained()
    const { from: epoch, to: next } = await this.#guarded(() => lease.advance())
    const { id: oldLeaseId, fence: oldFence } = lease
    this.#renewal.stop()
    const newLeaseId = await this.#guarded(() => lease.transfer({ holder: to }))
    const given = newLeaseId === null ? null : await tenure.get(newLeaseId)
    if (newLeaseId === null || given === null || given.fence === null) {
      throw new LeaseError('LEASE_NOT_FOUND', `the lease given to ${to} has ended already`)
    }
    const announcement = this.#build(
      { type: LEASE_TRANSFER, target: EVERY_TARGET, priority: 10 },
      { leaseId: oldLeaseId, fence: oldFence, epoch, previousEpoch: null },
      {
        old_lease_id: oldLeaseId,
        new_lease_id: newLeaseId,
        new_fence: given.fence,
        transfer_epoch: epoch,
      },
    )
    await bus.publish([announcement])
    return { leaseId: newLeaseId, fence: given.fence, epoch: next }
  }

  /** Everything is done: the lease is given back. */
  async complete(): Promise<void> {
    await this.#queue.drained()
    this.#renewal.stop()
    await this.#guarded(() => this.#parts.lease.release({ reason: 'completed' }))
  }

  /** Gives the workflow up, whatever state it is in; never throws for one that is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#renewal.stop()
    await this.#parts.lease[Symbol.asyncDispose]()
  }

  #draft(type: string, payload: unknown, to: Required<EmitOptions>): Draft {
    const copy = frozenCopy(payloadText(payload))
    const named = { type: parseName(type, 'actionType'), ...to }
    const build = (epoch: number, previousEpoch: number | null): Action => {
      const { id: leaseId, fence } = this.#parts.lease
      return this.#build(named, { leaseId, fence, epoch, previousEpoch }, copy)
    }
    return { kind: 'action', target: to.target, build }
  }

  #build(
    named: Required<EmitOptions> & { readonly type: string },
    proof: Pick<Action, 'leaseId' | 'fence' | 'epoch' | 'previousEpoch'>,
    payload: unknown,
  ): Action {
    const { runtime } = this.#parts
    return createAction({
      actionId: runtime.uuid(),
      actionType: named.type,
      target: named.target,
      payload,
      workflowId: this.workflowId,
      ...proof,
      priority: named.priority,
      issuedAtMs: Math.floor(runtime.wallMs()),
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
      throw new LeaseError('LEASE_TERMINAL', `workflow ${this.workflowId} was given up already`)
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
