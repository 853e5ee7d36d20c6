/**
 * Drives one workflow: claims its lease, numbers every action with the workflow's epoch, and sends nothing after the lease
 * is over.
 *
 * Not promised: an orchestrator that is suspended after its last check of the lease may still publish actions when it
 * resumes. The guards of the processors refuse them, by lease and fence.
 */
import type { Lease, Tenure } from '../client/contract.ts'
import type { AcquireOptions } from '../client/options.ts'
import { readReceiver } from '../client/read-options.ts'
import { retry } from '../client/retry.ts'
import type { RootLease } from '../core/delegation.ts'
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import type { FencedLease } from '../core/fenced-lease.ts'
import { parseFlag, parseSpanMs, parseTtlMs, refuseUnknown } from '../core/input.ts'
import type { Extent, Mode } from '../core/resource.ts'
import { RepeatedFault, reportTo } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { leaseViolation } from './action-decision.ts'
import {
  type Action,
  EVERY_TARGET,
  type IncomingAction,
  LEASE_TRANSFER,
  parseActionPriority,
  parseName,
  payloadText,
  readAction,
  parseGrant,
  parseWorkflowId,
} from './action.ts'
import type { Bus } from './bus.ts'
import {
  type EmissionDraft,
  EmissionQueue,
  type EpochPlace,
  limitError,
  TARGETS_MAX,
} from './emission-queue.ts'
import { frozenCopy, LEASE_REVOKED } from './wire/action-json.ts'
import { stateNote, INITIAL_STATE, lastState } from './workflow-state.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'

export interface EmitOptions {
  /** The kind of processor. Default `*`: all of them. */
  readonly target?: string
  /** How urgent the action is, for the processor that reads it: 1..10, default 5. */
  readonly priority?: number
}

/** What shows processors that an action comes from the holder. */
type ActionProof = Pick<Action, 'leaseId' | 'fence' | 'grant'>

interface OrchestratorOptions {
  readonly tenure: Tenure
  readonly lease: Lease
  readonly bus: Bus
  readonly runtime: Runtime
  readonly workflowId: string
  readonly state: string
  /** Whether actions carry the signed grant of the lease. */
  readonly signed: boolean
  /** The lease is renewed as soon as less than this is left. */
  readonly renewBelowMs: number
}

export class Orchestrator implements FencedLease, AsyncDisposable {
  readonly workflowId: string
  readonly #options: OrchestratorOptions
  readonly #queue: EmissionQueue
  readonly #renewal: WorkflowRenewal

  constructor(options: OrchestratorOptions) {
    const { lease, bus, runtime, renewBelowMs, state } = options
    this.workflowId = options.workflowId
    this.#options = options
    this.#queue = new EmissionQueue({ lease, bus, state, requireHeld: () => this.#requireHeld() })
    this.#renewal = new WorkflowRenewal({ lease, runtime, renewBelowMs })
  }

  get leaseId(): string {
    return this.#options.lease.id
  }

  get id(): string {
    return this.#options.lease.id
  }

  get resource(): string {
    return this.#options.lease.resource
  }

  get mode(): Mode {
    return this.#options.lease.mode
  }

  get extent(): Extent {
    return this.#options.lease.extent
  }

  get slots(): number | null {
    return this.#options.lease.slots
  }

  get root(): RootLease | null {
    return this.#options.lease.root
  }

  get fence(): number {
    return this.#options.lease.fence
  }

  /** The epoch of the next action or change of state. */
  get epoch(): number {
    return this.#options.lease.epoch ?? 0
  }

  /** The state of the workflow, in words of its orchestrators; the next orchestrator continues from it. */
  get state(): string {
    return this.#queue.state
  }

  /** Aborts with a `LeaseError` when the workflow is lost. */
  get signal(): AbortSignal {
    return this.#options.lease.signal
  }

  get remainingMs(): number {
    return this.#options.lease.remainingMs
  }

  /** When the lease was granted, in wall time; a renewal does not change it. */
  get acquiredAtMs(): number {
    return this.#options.lease.info.grantedAtMs ?? 0
  }

  /** The TTL of the lease. */
  get ttlMs(): number {
    return this.#options.lease.info.ttlMs
  }

  /** Throws `LEASE_EXPIRED` or `LEASE_LOST` when the lease is over, without a call to the store. */
  check(): void {
    this.#requireHeld()
  }

  /** Renews the lease now. It is renewed automatically as well, but not while the program blocks the event loop. */
  async renew(): Promise<void> {
    this.#requireHeld()
    await this.#guarded(() => this.#options.lease.renew())
  }

  /**
   * True if the action is one of this workflow under this lease, which is still held. Throws what `check` throws,
   * `LEASE_VIOLATION` for an action under another lease, and `FUTURE_EPOCH` for an epoch that was not used yet. Only the
   * processors know whether it is stale.
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
   * Sends an action to the processors of a target, or to all, with the next epoch. Resolves when the bus has it. Throws
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

  /** Records a change of the workflow's state in the ledger, with the next epoch. */
  async advance(state: string): Promise<void> {
    await this.#put({ kind: 'state', state: parseName(state, 'state') })
  }

  /**
   * Transfers the workflow to another orchestrator in one commit, so that it is never without a holder, and notifies the
   * processors. The receiver takes it over with `claimWorkflow`, under that name, and continues with the next epoch.
   *
   * Earlier emissions are sent first; emissions during the handoff are refused: the announcement is the last message.
   */
  async handoff(to: string): Promise<Handoff> {
    this.#requireHeld()
    readReceiver({ holder: to }, this.#options.lease.holder)
    return this.#queue.exclusive(() => this.#guarded(() => this.#handOff(to)))
  }

  /** Completes the workflow and releases its lease. */
  async complete(): Promise<void> {
    const release = (): Promise<void> => this.#options.lease.release({ reason: 'completed' })
    await this.#queue.exclusive(() => this.#guarded(() => this.#endLease(release)))
  }

  /** Releases the workflow, whatever state it is in; does not throw if it is lost. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#renewal.stop()
    await this.#options.lease[Symbol.asyncDispose]()
  }

  async #handOff(to: string): Promise<Handoff> {
    const { lease, bus } = this.#options
    this.#requireHeld()
    // Before the transfer: nothing is signed for a lease that its holder has given up.
    const proof = this.#proof
    const range = await lease.advance({ reason: stateNote(this.state) })
    const newLeaseId = await this.#endLease(() => lease.transfer({ holder: to }))
    const partly = { leaseId: newLeaseId, epoch: range.to }
    const transferred = await transferredLease(this.#options, newLeaseId, to).catch(
      (cause: unknown) => {
        throw unannounced(to, 'its lease could not be read', { details: partly, cause })
      },
    )
    const announcement = this.#build(
      { type: LEASE_TRANSFER, target: EVERY_TARGET, priority: 10 },
      { ...proof, epoch: range.from, previousEpoch: null },
      {
        old_lease_id: proof.leaseId,
        new_lease_id: transferred.leaseId,
        new_fence: transferred.fence,
        transfer_epoch: range.from,
        last_epochs: Object.fromEntries(this.#queue.lastSent),
      },
    )
    const handoff = { ...transferred, epoch: range.to }
    await bus.publish([announcement]).catch((cause: unknown) => {
      const details = { ...handoff }
      throw unannounced(to, 'the bus did not accept the announcement', { details, cause })
    })
    return handoff
  }

  /** Ends the lease; if `end` fails, the lease is renewed as before. */
  async #endLease<Result>(end: () => Promise<Result>): Promise<Result> {
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

  #draft(type: string, payload: unknown, to: Required<EmitOptions>): EmissionDraft {
    const copy = frozenCopy(payloadText(payload))
    const named = { type, ...to }
    const build = (place: EpochPlace): Action => {
      return this.#build(named, { ...this.#proof, ...place }, copy)
    }
    return { kind: 'action', target: to.target, build }
  }

  get #proof(): ActionProof {
    const { lease, signed } = this.#options
    const { id: leaseId, fence } = lease
    return { leaseId, fence, ...(signed ? { grant: lease.grant } : {}) }
  }

  #build(
    named: Required<EmitOptions> & { readonly type: string },
    proof: ActionProof & EpochPlace,
    payload: unknown,
  ): Action {
    const { runtime } = this.#options
    return readAction({
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

  async #put(draft: EmissionDraft): ReturnType<EmissionQueue['put']> {
    this.#requireHeld()
    return this.#guarded(() => this.#queue.put(draft))
  }

  /** Maps the errors of a lost lease to those of this contract. */
  async #guarded<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call()
    } catch (error) {
      throw isLeaseError(error) && isLoss(error) ? this.#lossError(error) : error
    }
  }

  #requireHeld(): void {
    const { lease } = this.#options
    const { state } = lease
    if (state === 'released') {
      const message = `workflow ${this.workflowId} was released already`
      const details = { workflow_id: this.workflowId, lease_id: this.leaseId }
      throw new LeaseError('LEASE_TERMINAL', message, { details })
    }
    if (state === 'lost') throw this.#lossError(lease.signal.reason as LeaseError)
  }

  /** `LEASE_EXPIRED` for a lease that ran out, `LEASE_LOST` for one that was revoked. */
  #lossError(loss: LeaseError): LeaseError {
    const { grantedAtMs, ttlMs } = this.#options.lease.info
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

/** Refuses the types of announcements, which are no actions. */
function parseOwnType(value: unknown): string {
  const type = parseName(value, 'actionType')
  if (type !== LEASE_TRANSFER && type !== LEASE_REVOKED) return type
  throw invalid('actionType', `must not be ${LEASE_TRANSFER} or ${LEASE_REVOKED}`, type)
}

const RETRY_MS_MAX = 1_000
const RETRY_MS_MIN = 20
/** After the host has slept, a timer is late by as long as it slept: so what is left is looked at this often. */
const LOOK_MS = 1_000

type WorkflowRenewalOptions = Pick<OrchestratorOptions, 'lease' | 'runtime' | 'renewBelowMs'>

/**
 * Renews the lease of a workflow when less than `renewBelowMs` is left, and retries at ever shorter intervals when that
 * fails. The handle of the lease detects its loss; this class does not.
 */
class WorkflowRenewal {
  readonly #options: WorkflowRenewalOptions
  readonly #fault: RepeatedFault
  #timer: Timer | null = null
  #stopped = false

  constructor(options: WorkflowRenewalOptions) {
    this.#options = options
    this.#fault = new RepeatedFault('workflow/renewal', options.runtime)
    this.#schedule(this.#untilDueMs())
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
  }

  /** Goes on after a stop, if there is something left to renew. */
  resume(): void {
    if (!this.#stopped || isOver(this.#options.lease)) return
    this.#stopped = false
    this.#schedule(this.#untilDueMs())
  }

  #untilDueMs(): number {
    const { lease, renewBelowMs } = this.#options
    return Math.max(0, lease.remainingMs - renewBelowMs)
  }

  #schedule(delayMs: number): void {
    const { runtime } = this.#options
    const onTimer = (): void => {
      if (delayMs > LOOK_MS) this.#schedule(this.#untilDueMs())
      else void this.#renew()
    }
    this.#timer = runtime.setTimer(Math.min(delayMs, LOOK_MS), onTimer, { keepAlive: false })
  }

  async #renew(): Promise<void> {
    const { lease } = this.#options
    if (this.#stopped || isOver(lease)) return
    const renewed = await this.#tryRenewal()
    if (this.#stopped || isOver(lease)) return
    const retryMs = Math.max(RETRY_MS_MIN, Math.min(RETRY_MS_MAX, lease.remainingMs / 4))
    this.#schedule(renewed ? Math.max(RETRY_MS_MIN, this.#untilDueMs()) : retryMs)
  }

  async #tryRenewal(): Promise<boolean> {
    try {
      await this.#options.lease.renew()
      this.#fault.succeeded()
      return true
    } catch (error) {
      this.#fault.failed(error)
      return false
    }
  }
}

function isOver({ state }: Lease): boolean {
  return state === 'lost' || state === 'released'
}

/** The lease of the receiver of a workflow, whether or not it has taken it over yet. */
export interface Handoff {
  readonly leaseId: string
  readonly fence: number
  /** The next epoch, of the receiver. */
  readonly epoch: number
}

const LOOK_WITHIN_MS = 10_000

/** Reads the receiver's lease, with retries: it was transferred, whether or not the store is available now. */
async function transferredLease(
  { tenure, runtime }: { readonly tenure: Pick<Tenure, 'get'>; readonly runtime: Runtime },
  leaseId: string | null,
  to: string,
): Promise<Omit<Handoff, 'epoch'>> {
  const limits = { runtime, withinMs: LOOK_WITHIN_MS }
  const lease = leaseId === null ? null : await retry(limits, () => tenure.get(leaseId))
  if (leaseId !== null && typeof lease?.fence === 'number') return { leaseId, fence: lease.fence }
  throw new LeaseError('LEASE_NOT_FOUND', `the lease transferred to ${to} has ended already`)
}

/** The receiver has the workflow, and processors that do not ask the store do not know it yet. */
function unannounced(
  to: string,
  why: string,
  facts: { readonly details: Readonly<Record<string, unknown>>; readonly cause: unknown },
): LeaseError {
  return new LeaseError(
    'STORE_OUTCOME_UNKNOWN',
    `the workflow was transferred to ${to}, but ${why}`,
    facts,
  )
}

export interface ClaimOptions {
  /** Where the actions go. */
  readonly bus: Bus
  /** How long the lease lasts without renewal, in milliseconds. Default 300000. */
  readonly ttlMs?: number
  /** The lease is renewed as soon as less than this is left, in milliseconds. Default 60000, or a third of a shorter TTL. */
  readonly renewBelowMs?: number
  /** How many milliseconds to wait while another orchestrator has it. Default 0: `RESOURCE_HELD` at once. */
  readonly waitMs?: number
  /** Ends the wait for the lease when it aborts. Default: nothing but `waitMs` does. */
  readonly signal?: AbortSignal
  /** The state of the workflow, where the caller knows it better. Default: the state in the ledger, or `initialized`. */
  readonly state?: string
  /** Why the workflow is claimed, shown to those it blocks. Default: none. */
  readonly reason?: string
  /**
   * Whether every action carries the signed grant of its lease, so that processors need no store. The client must have
   * a key to sign with. Default false.
   */
  readonly signed?: boolean
  /** For tests: time, timers and ids to go by instead of the real ones, such as `FakeRuntime`. Default: the real ones. */
  readonly runtime?: Runtime
}

const TTL_MS_DEFAULT = 300_000
const RENEW_BELOW_MS_DEFAULT = 60_000
const OPTIONS = [
  ...['bus', 'ttlMs', 'renewBelowMs', 'waitMs', 'signal', 'state', 'reason', 'signed', 'runtime'],
]

/** Throws `RESOURCE_HELD` while another orchestrator has the workflow. */
export async function claimWorkflow(
  tenure: Tenure,
  workflowId: string,
  options: ClaimOptions,
): Promise<Orchestrator> {
  if (typeof options !== 'object') throw invalid('options', 'must be an object', options)
  refuseUnknown(options, OPTIONS)
  if (typeof tenure?.acquire !== 'function') throw invalid('tenure', 'must be a client', tenure)
  const id = parseWorkflowId(workflowId)
  const { bus, runtime = systemRuntime } = options
  if (typeof bus?.publish !== 'function') throw invalid('bus', 'must be a bus', bus)
  const { signed = false } = options
  parseFlag('signed', signed)
  const initial = options.state === undefined ? null : parseName(options.state, 'state')
  const ttlMs = options.ttlMs === undefined ? TTL_MS_DEFAULT : parseTtlMs(options.ttlMs)
  const renewBelowMs = readRenewBelow(options.renewBelowMs, ttlMs)
  const lease = await tenure.acquire(`workflow:${id}`, {
    ...{ ttlMs, waitMs: options.waitMs ?? 0, autoRenew: false },
    ...passedOn(options),
  })
  const state = await orRelease(lease, async () => {
    if (signed) parseGrant(lease.grant)
    if (initial !== null || lease.epoch === 0) return initial ?? INITIAL_STATE
    return (await lastState(tenure, lease, runtime)) ?? INITIAL_STATE
  })
  return new Orchestrator({
    ...{ tenure, lease, bus, runtime, workflowId: id, state, signed },
    renewBelowMs: fitting(renewBelowMs, { asked: ttlMs, granted: lease.info.ttlMs }),
  })
}

/** A lease that was handed over has kept its own TTL, which may be shorter than the one that was asked for. */
function fitting(
  renewBelowMs: number,
  ttlMs: { readonly asked: number; readonly granted: number },
): number {
  if (ttlMs.granted >= ttlMs.asked) return renewBelowMs
  return Math.min(renewBelowMs, Math.floor(ttlMs.granted / 3))
}

/** Releases the lease when the state cannot be read or the grant cannot be signed. */
async function orRelease<Result>(lease: Lease, prepare: () => Promise<Result>): Promise<Result> {
  try {
    return await prepare()
  } catch (error) {
    await lease.release({ reason: 'aborted' }).catch(reportTo('workflow/give-back'))
    throw error
  }
}

function passedOn({ signal, reason }: ClaimOptions): Pick<AcquireOptions, 'signal' | 'reason'> {
  return {
    ...(signal === undefined ? {} : { signal }),
    ...(reason === undefined ? {} : { reason }),
  }
}

function readRenewBelow(value: number | undefined, ttlMs: number): number {
  if (value === undefined) return Math.min(RENEW_BELOW_MS_DEFAULT, Math.floor(ttlMs / 3))
  return parseSpanMs({ field: 'renewBelowMs', min: 0, max: ttlMs - 1 }, value)
}
