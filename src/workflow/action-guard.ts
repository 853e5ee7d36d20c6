/**
 * Protects a processor: carries out the actions of the current holder of a workflow, each once and in order, and refuses
 * all others with an error code. Workflows are independent of each other.
 */
import type { Tenure } from '../client/contract.ts'
import { closedError, invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import { parseFlag, parseLeaseId, refuseUnknown } from '../core/input.ts'
import { report, reportTo } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import {
  EVERY_TARGET,
  LEASE_TRANSFER,
  parseActionFence,
  parseEpoch,
  parseName,
  parseWorkflowId,
  readAction,
  type Action,
  type IncomingAction,
} from './action.ts'
import {
  type ActionMarks,
  type MarkDecision,
  MemoryMarks,
  RecentMap,
  WORKFLOWS_REMEMBERED,
} from './action-marks.ts'
import type { Bus, Subscription } from './bus.ts'
import {
  decideAction,
  mergedMark,
  withLease,
  type Known,
  type LeaseFact,
  type Strictness,
  type WorkflowAction,
  type WorkflowMark,
} from './action-decision.ts'
import { currentLease } from './lease-look-up.ts'
import { RevocationWatch, type RevokedLease } from './revocations.ts'
import { runInScope } from './work-scope.ts'

export interface ActionGuardOptions<Transaction> {
  /**
   * Refuses an action after a gap. True: the previous action to the same target, which the action names, was not carried
   * out. `every_epoch`: the action has not the next epoch; only for a guard that gets every epoch of its workflows.
   * Default false.
   */
  readonly strict?: Strictness
  /** Default: in memory. */
  readonly marks?: ActionMarks<Transaction>
  /**
   * Called for an action with an unknown lease and a higher fence. `currentLease` asks the store, `grantedLease` checks the
   * signed grant.
   */
  readonly lookUp?: LeaseLookUp
  /**
   * A client with which the guard follows revocations in the ledger until it is closed and, without another `lookUp`,
   * looks up unknown leases.
   */
  readonly tenure?: Pick<Tenure, 'watch' | 'history' | 'get' | 'inspect'>
  /** Closes the guard when it aborts. */
  readonly signal?: AbortSignal
  /** The workflow of actions that name none. Default: the only workflow that `setLease` was called for. */
  readonly workflowId?: string
  /** Called once for each refusal. */
  readonly log?: (error: LeaseError) => void
  /** For tests: time, timers and ids to go by instead of the real ones, such as `FakeRuntime`. Default: the real ones. */
  readonly runtime?: Runtime
}

export interface SetLeaseOptions {
  /** The last epoch that was carried out, where that is known from elsewhere. Default: none. */
  readonly epoch?: number
}

export interface ProcessOptions {
  /**
   * An operator has sent a dead letter again. The action is then carried out under its own lease although later ones were,
   * unless it was carried out already or is older than the remembered actions. Default false.
   */
  readonly resent?: boolean
}

export type ActionEffect<Transaction, Result> = (
  payload: unknown,
  context: { readonly action: Action; readonly transaction: Transaction },
) => Promise<Result> | Result

/**
 * Returns the current lease of a workflow, or null if it is not known. A `LeaseError` refuses the action for good, except an
 * error of an unavailable store or a closed client.
 */
export type LeaseLookUp = (
  workflowId: string,
  action: IncomingAction,
) => Promise<LeaseFact | null> | LeaseFact | null

const OPTIONS = [
  ...['strict', 'marks', 'lookUp', 'tenure', 'signal', 'workflowId', 'log', 'runtime'],
]
const LOGGED_MAX = 10_000
const CLOSED = 'the guard was closed'
/** Not refusals: the guard looks up the lease, or its revocation, and decides again. */
const NEW_LEASE = new Error('the lease is not known yet')
const UNFOLLOWED_LEASE = new Error('whether the lease was revoked is not known yet')

export class ActionGuard<Transaction = undefined> implements AsyncDisposable {
  readonly #strict: Strictness
  readonly #marks: ActionMarks<Transaction>
  readonly #lookUp: LeaseLookUp | null
  readonly #log: (error: LeaseError) => void
  /** Marks that this guard knows and the mark store may not have yet, by workflow. */
  readonly #notified = new RecentMap<WorkflowMark>(WORKFLOWS_REMEMBERED)
  readonly #logged = new Set<string>()
  /** Errors that this guard threw itself, not an effect. */
  readonly #refusals = new WeakSet<LeaseError>()
  /** The target of this guard: there is one guard for each target. */
  #target: string | null = null
  /** The workflow of actions that name none. */
  readonly #ownWorkflowId: string | null
  /** Workflows that `setLease` was called for; two are enough to know that there are several. */
  readonly #named = new Set<string>()
  readonly #watch: RevocationWatch | null
  readonly #subscriptions = new Set<Subscription>()
  readonly #unlisten: () => void
  #closing: Promise<void> | null = null
  /** Its subscriptions have ended: not even what came before is begun any more. */
  #isClosed = false

  constructor(options: ActionGuardOptions<Transaction> = {}) {
    refuseUnknown(options, OPTIONS)
    checkOptions(options)
    this.#strict = options.strict ?? false
    // Without marks, `Transaction` is undefined.
    this.#marks = options.marks ?? (new MemoryMarks() as unknown as ActionMarks<Transaction>)
    const { tenure, signal, workflowId, runtime = systemRuntime } = options
    this.#lookUp = options.lookUp ?? (tenure === undefined ? null : currentLease(tenure))
    this.#log = options.log ?? (() => undefined)
    this.#ownWorkflowId = workflowId === undefined ? null : parseWorkflowId(workflowId)
    const onRevoked = (revoked: RevokedLease): Promise<void> => this.revoke(revoked)
    this.#watch = tenure === undefined ? null : new RevocationWatch({ tenure, runtime, onRevoked })
    const onAbort = (): void => void this.close().catch(reportTo('workflow/close'))
    this.#unlisten = () => signal?.removeEventListener('abort', onAbort)
    signal?.addEventListener('abort', onAbort, { once: true })
    if (signal?.aborted === true) onAbort()
  }

  /**
   * Ends the subscriptions of this guard and its watch, and leaves nothing open; nothing is carried out afterwards. The
   * marks, the bus and the client stay as they are.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.#unlisten()
    try {
      await Promise.all([...this.#subscriptions].map((subscription) => subscription.close()))
    } finally {
      this.#isClosed = true
      await this.#watch?.close()
    }
  }

  #requireOpen(): void {
    if (this.#closing !== null) throw closedError(CLOSED)
  }

  /**
   * Sets the lease whose actions are carried out; resolves when the marks have it, so that a processor that takes over has
   * it, too. A lease with a lower fence than the known one is refused with `LEASE_VIOLATION`: another holder has the
   * workflow already. A lease that was revoked stays revoked.
   */
  async setLease(
    workflowId: string,
    leaseId: string,
    fence: number,
    options: SetLeaseOptions = {},
  ): Promise<void> {
    this.#requireOpen()
    refuseUnknown(options, ['epoch'])
    const id = parseWorkflowId(workflowId)
    const fact = parseFact(leaseId, fence)
    const epoch = options.epoch === undefined ? -1 : parseEpoch(options.epoch, 'epoch')
    if (this.#named.size < 2) this.#named.add(id)
    await this.#note(id, (known) => {
      const isSame = known?.leaseId === fact.leaseId && known.fence === fact.fence
      if (known !== null && fact.fence <= known.fence && !isSame) throw lowerFence(id, known, fact)
      const next = withLease(known, fact)
      return { ...next, epoch: Math.max(next.epoch, epoch) }
    })
    await this.#watch?.check(id, fact.leaseId)
  }

  /**
   * From now on no action is carried out under this lease; the next lease needs a higher fence. Resolves when the marks have
   * it, too.
   */
  async revoke(revoked: RevokedLease): Promise<void> {
    const { workflowId, leaseId, fence } = readRevoked(revoked)
    const mark = { leaseId, fence, revoked: true, epoch: -1 }
    // At once, and whether or not the marks can be reached.
    this.#notify(workflowId, mark)
    await this.#note(workflowId, (known) => mergedMark(known, mark))
  }

  /**
   * True, or throws `LEASE_VIOLATION`, `DUPLICATE_ACTION`, `STALE_EPOCH` or `FUTURE_EPOCH`. Changes nothing, and uses only
   * what this process knows; `process` decides by the marks.
   */
  validate(action: IncomingAction): true {
    const read = this.#read(action)
    const { workflowId, actionId } = read
    this.#decide(read, { ...this.#marks.peek({ workflowId, actionId }), resent: false })
    return true
  }

  /**
   * Validates an action, runs its effect and raises the mark, atomically. When the effect throws, the mark stays, and the
   * action may come again. The announcement of a new lease is recorded and has no effect.
   */
  async process<Result>(
    action: IncomingAction,
    effect: ActionEffect<Transaction, Result>,
    options: ProcessOptions = {},
  ): Promise<Result | undefined> {
    this.#requireOpen()
    const read = this.#read(action)
    const resent = readResent(options)
    if (typeof effect !== 'function') throw invalid('effect', 'must be a function', effect)
    if (read.target !== EVERY_TARGET) this.#target ??= read.target
    return this.#attempt(read, resent, effect)
  }

  /**
   * Processes the actions for a target, and subscribes to revocations. A refused action is not delivered again, except after
   * a gap: the missing action may still come.
   */
  async subscribe<Result>(
    bus: Bus,
    target: string,
    effect: ActionEffect<Transaction, Result>,
  ): Promise<Subscription> {
    this.#requireOpen()
    if (typeof effect !== 'function') throw invalid('effect', 'must be a function', effect)
    this.#target = parseName(target, 'target')
    const subscription = await bus.subscribe(target, {
      onAction: async (action, delivery) => {
        try {
          await this.process(action, effect, { resent: delivery?.resent ?? false })
        } catch (error) {
          if (!this.#isFinal(error)) throw error
        }
      },
      onRevoked: (revocation) => this.revoke(revocation),
    })
    const own: Subscription = {
      close: async () => {
        this.#subscriptions.delete(own)
        await subscription.close()
      },
    }
    this.#subscriptions.add(own)
    // Closed while the subscription was made.
    if (this.#closing !== null) await own.close()
    return own
  }

  /** Reads an action and adds its workflow. */
  #read(action: IncomingAction): WorkflowAction {
    const read = readAction(action)
    const [only = null] = this.#named.size === 1 ? this.#named : []
    const workflowId = read.workflowId ?? this.#ownWorkflowId ?? only
    if (workflowId !== null) return { ...read, workflowId }
    const known = this.#named.size === 0 ? 'none' : 'several'
    throw invalid('workflowId', `must be named where the guard knows ${known}`, read.workflowId)
  }

  /**
   * A known lease is not looked up, because the store may be unavailable. Each look-up is made once: the lease, if it is
   * new, and whether it was revoked, if the watch does not follow it yet.
   */
  async #attempt<Result>(
    action: WorkflowAction,
    resent: boolean,
    effect: ActionEffect<Transaction, Result>,
  ): Promise<Result | undefined> {
    const { workflowId, actionId, leaseId } = action
    let mayLookUp = this.#lookUp !== null
    let mayAskRevoked = this.#watch !== null
    for (;;) {
      try {
        return await this.#marks.transact({ workflowId, actionId, resent }, (known) => {
          if (this.#isClosed) throw closedError(CLOSED)
          if (mayLookUp && this.#isNew(action, known.mark)) throw NEW_LEASE
          if (mayAskRevoked && this.#isUnfollowed(action, known.mark)) throw UNFOLLOWED_LEASE
          return this.#decision(action, { ...known, resent }, effect)
        })
      } catch (error) {
        if (error !== NEW_LEASE && error !== UNFOLLOWED_LEASE) throw error
        if (error === NEW_LEASE) await this.#lookUpLease(action)
        else await this.#watch?.check(workflowId, leaseId)
        mayLookUp = false
        if (error === UNFOLLOWED_LEASE) mayAskRevoked = false
      }
    }
  }

  #isFinal(error: unknown): boolean {
    return isLeaseError(error) && this.#refusals.has(error) && error.code !== 'FUTURE_EPOCH'
  }

  #decision<Result>(
    action: WorkflowAction,
    known: Known & { readonly resent: boolean },
    effect: ActionEffect<Transaction, Result>,
  ): MarkDecision<Transaction, Result | undefined> {
    const mark = this.#decide(action, known)
    const { epoch, payload } = action
    const whole = Object.freeze({ ...action, fence: action.fence ?? mark.fence })
    if (action.actionType === LEASE_TRANSFER) return { mark, epoch, effect: async () => undefined }
    return {
      mark,
      epoch,
      effect: async (transaction) => {
        const run = async (): Promise<Result> => effect(payload, { action: whole, transaction })
        return this.#watch === null ? run() : runInScope(this.#watch, run)
      },
    }
  }

  #decide(action: WorkflowAction, known: Known & { readonly resent: boolean }): WorkflowMark {
    const mark = this.#markOf(action.workflowId, known.mark)
    const manner = { strict: this.#strict, target: this.#target, resent: known.resent }
    const decision = decideAction(action, { ...known, mark }, manner)
    if (decision.kind === 'accepted') return decision.mark
    throw this.#refusal(action, decision.error)
  }

  #refusal({ actionId }: WorkflowAction, error: LeaseError): LeaseError {
    this.#refusals.add(error)
    this.#logOnce(`${actionId} ${error.code}`, error)
    return error
  }

  /** The recorded mark and the notified one, merged. */
  #markOf(workflowId: string, recorded: WorkflowMark | null): WorkflowMark | null {
    return mergedMark(recorded, this.#notified.get(workflowId) ?? null)
  }

  #notify(workflowId: string, mark: WorkflowMark): void {
    const merged = mergedMark(this.#notified.get(workflowId) ?? null, mark)
    if (merged !== null) this.#notified.set(workflowId, merged)
  }

  /** Changes the mark of a workflow, without an action. */
  async #note(
    workflowId: string,
    change: (known: WorkflowMark | null) => WorkflowMark | null,
  ): Promise<void> {
    await this.#marks.transact({ workflowId, actionId: '' }, ({ mark }) => {
      const next = change(this.#markOf(workflowId, mark))
      return { mark: next, epoch: null, effect: async () => undefined }
    })
  }

  /** An unknown lease with a higher fence, or without one, may be the next lease. */
  #isNew({ workflowId, leaseId, fence }: WorkflowAction, recorded: WorkflowMark | null): boolean {
    const mark = this.#markOf(workflowId, recorded)
    return mark === null || (mark.leaseId !== leaseId && (fence === null || mark.fence < fence))
  }

  /** The lease is known, and its revocations are not followed yet. */
  #isUnfollowed({ workflowId, leaseId }: WorkflowAction, recorded: WorkflowMark | null): boolean {
    const isKnown = this.#markOf(workflowId, recorded)?.leaseId === leaseId
    return isKnown && this.#watch?.knows(workflowId, leaseId) === false
  }

  /** Gets the lease from the store, or from the grant. */
  async #lookUpLease(action: WorkflowAction): Promise<void> {
    const lookUp = this.#lookUp
    try {
      const fact = lookUp === null ? null : await lookUp(action.workflowId, action)
      // The answer may be outdated by now; the higher fence wins.
      if (fact !== null) this.#notify(action.workflowId, withLease(null, fact))
    } catch (error) {
      throw isLeaseError(error) && isRefusal(error) ? this.#refusal(action, error) : error
    }
  }

  #logOnce(key: string, error: LeaseError): void {
    if (this.#logged.has(key)) return
    if (this.#logged.size >= LOGGED_MAX) this.#logged.clear()
    this.#logged.add(key)
    try {
      this.#log(error)
    } catch (failure) {
      // The caller still gets the refusal.
      report('workflow/log', failure)
    }
  }
}

/** False while the look-up is only unavailable: then the action is not refused for good. */
function isRefusal({ code, retryable }: LeaseError): boolean {
  return !retryable && !code.startsWith('STORE_') && code !== 'CLOSED' && code !== 'ABORTED'
}

function readResent(options: ProcessOptions): boolean {
  refuseUnknown(options, ['resent'])
  const { resent = false } = options
  return parseFlag('resent', resent)
}

function checkOptions(options: ActionGuardOptions<never>): void {
  const { strict, marks, lookUp, log, tenure, signal } = options
  if (strict !== undefined && typeof strict !== 'boolean' && strict !== 'every_epoch') {
    throw invalid('strict', 'must be true, false or every_epoch', strict)
  }
  if (tenure !== undefined && typeof tenure?.watch !== 'function') {
    throw invalid('tenure', 'must be a client', tenure)
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw invalid('signal', 'must be an AbortSignal', signal)
  }
  if (marks !== undefined && typeof marks?.transact !== 'function') {
    throw invalid('marks', 'must be marks', marks)
  }
  for (const [field, part] of Object.entries({ lookUp, log })) {
    if (part !== undefined && typeof part !== 'function') {
      throw invalid(field, 'must be a function', part)
    }
  }
}

function readRevoked(revoked: RevokedLease): RevokedLease {
  if (typeof revoked !== 'object' || revoked === null) {
    throw invalid('revoked', 'must be an object with workflowId, leaseId and fence', revoked)
  }
  const workflowId = parseWorkflowId(revoked.workflowId)
  return { workflowId, ...parseFact(revoked.leaseId, revoked.fence) }
}

function parseFact(leaseId: unknown, fence: unknown): LeaseFact {
  return { leaseId: parseLeaseId(leaseId), fence: parseActionFence(fence) }
}

function lowerFence(workflowId: string, known: LeaseFact, fact: LeaseFact): LeaseError {
  const message = `fence of workflow ${workflowId} must be above ${known.fence}, got ${fact.fence}`
  return new LeaseError('LEASE_VIOLATION', message, {
    details: {
      workflow_id: workflowId,
      expected: known.leaseId,
      received: fact.leaseId,
      expected_fence: known.fence,
      received_fence: fact.fence,
      recommendation: 'ask the store who holds the workflow',
    },
  })
}
