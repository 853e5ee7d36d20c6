/**
 * What stands before a processor: it lets through the actions of whoever holds the workflow now, each once and in
 * order, and refuses everything else with the code that says why. Each workflow is judged by itself.
 */
import type { Tenure } from '../client/contract.ts'
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import { parseLeaseId, refuseUnknown } from '../core/input.ts'
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
  MemoryMarks,
  WORKFLOWS_REMEMBERED,
  type ActionMarks,
  type Verdict,
} from './action-marks.ts'
import type { Bus, Subscription } from './bus.ts'
import {
  judgeAction,
  mergedMark,
  withLease,
  type Known,
  type LeaseFact,
  type Strictness,
  type WorkflowAction,
  type WorkflowMark,
} from './judgement.ts'
import { currentLease } from './lease-look-up.ts'
import { RevocationWatch, type Revoked } from './revocation-watch.ts'
import { RecentMap } from './recent-map.ts'
import { within } from './within.ts'

export interface ActionGuardOptions<Transaction> {
  /**
   * Refuses an action when one before it has not come. True: when the one that its sender names as the last to the same
   * target has not. `every_epoch`: when it has not the next epoch, whatever its sender says; only for a guard that is
   * sent every epoch of its workflows. Default false.
   */
  readonly strict?: Strictness
  /** Default: in memory. */
  readonly marks?: ActionMarks<Transaction>
  /**
   * Asked when an action carries a lease that is not known, with a higher fence. `currentLease` asks the store,
   * `grantedLease` believes signed grants.
   */
  readonly lookUp?: LeaseLookUp
  /**
   * A client by which the guard hears of revocations itself, from the ledger, until it is closed; and, without another
   * `lookUp`, asks for leases that it does not know.
   */
  readonly tenure?: Pick<Tenure, 'watch' | 'history' | 'get' | 'inspect'>
  /** Closes the guard when it aborts. */
  readonly signal?: AbortSignal
  /** Whose actions those are that name no workflow. Default: the only one that `setLease` has told of. */
  readonly workflowId?: string
  /** Told of each refusal, once. */
  readonly log?: (error: LeaseError) => void
  readonly runtime?: Runtime
}

export interface SetLeaseOptions {
  /** The last epoch that was carried out, where that is known from elsewhere. Default: none. */
  readonly epoch?: number
}

export interface ProcessOptions {
  /**
   * An operator has sent the action again after it was passed over. It is then carried out although later ones were,
   * under its own lease, and unless it was carried out already or nobody remembers so far back. Default false.
   */
  readonly resent?: boolean
}

export type ActionEffect<Transaction, Result> = (
  payload: unknown,
  context: { readonly action: Action; readonly transaction: Transaction },
) => Promise<Result> | Result

/**
 * Says which lease a workflow is under, as far as it knows. A `LeaseError` refuses the action for good, but for those of a
 * store or client that is away.
 */
export type LeaseLookUp = (
  workflowId: string,
  action: IncomingAction,
) => Promise<LeaseFact | null> | LeaseFact | null

const OPTIONS = [
  ...['strict', 'marks', 'lookUp', 'tenure', 'signal', 'workflowId', 'log', 'runtime'],
]
const LOGGED_MAX = 10_000
/** Not refusals: the action is judged again when somebody was asked, of its lease or of a revocation alone. */
const NEW_LEASE = new Error('the lease is not known yet')
const UNSEEN_LEASE = new Error('nobody was asked whether the lease was revoked')

export class ActionGuard<Transaction = undefined> implements AsyncDisposable {
  readonly #strict: Strictness
  readonly #marks: ActionMarks<Transaction>
  readonly #lookUp: LeaseLookUp | null
  readonly #log: (error: LeaseError) => void
  /** What this guard has learnt and the marks may not know yet, by workflow. */
  readonly #told = new RecentMap<WorkflowMark>(WORKFLOWS_REMEMBERED)
  readonly #logged = new Set<string>()
  /** What this guard threw itself, as against what an effect threw. */
  readonly #refusals = new WeakSet<LeaseError>()
  /** Whose actions these are: there is one guard for each target. */
  #target: string | null = null
  /** The workflow of actions that name none, if that was said. */
  readonly #ownWorkflowId: string | null
  /** Workflows that `setLease` has told of; two of them are as many as any number. */
  readonly #named = new Set<string>()
  readonly #watch: RevocationWatch | null
  readonly #subscriptions = new Set<Subscription>()
  readonly #unlisten: () => void
  #closing: Promise<void> | null = null

  constructor(options: ActionGuardOptions<Transaction> = {}) {
    refuseUnknown(options, OPTIONS)
    requireParts(options)
    this.#strict = options.strict ?? false
    // Without marks of its own the transaction is nothing, which is what `Transaction` is then.
    this.#marks = options.marks ?? (new MemoryMarks() as unknown as ActionMarks<Transaction>)
    const { tenure, signal, workflowId, runtime = systemRuntime } = options
    this.#lookUp = options.lookUp ?? (tenure === undefined ? null : currentLease(tenure))
    this.#log = options.log ?? (() => undefined)
    this.#ownWorkflowId = workflowId === undefined ? null : parseWorkflowId(workflowId)
    const onRevoked = (revoked: Revoked): Promise<void> => this.revoke(revoked)
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
    await Promise.all([...this.#subscriptions].map((subscription) => subscription.close()))
    await this.#watch?.close()
  }

  #requireOpen(): void {
    if (this.#closing !== null) throw new LeaseError('CLOSED', 'the guard was closed')
  }

  /**
   * Tells the guard whose actions to carry out; resolves when the marks know it, so that a processor that takes over
   * knows it, too. A lease with a lower fence than the one that is known is refused with `LEASE_VIOLATION`: somebody
   * else has the workflow already. A lease that was revoked stays revoked.
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
    await this.#watch?.look(id, fact.leaseId)
  }

  /**
   * Nothing more is carried out under a lease that was revoked, from now on; the next one needs a higher fence. Resolves
   * when the marks know it, too.
   */
  async revoke(revoked: Revoked): Promise<void> {
    const { workflowId, leaseId, fence } = readRevoked(revoked)
    const mark = { leaseId, fence, revoked: true, epoch: -1 }
    // At once, and whether or not the marks can be reached.
    this.#tell(workflowId, mark)
    await this.#note(workflowId, (known) => mergedMark(known, mark))
  }

  /**
   * True, or throws `LEASE_VIOLATION`, `DUPLICATE_ACTION`, `STALE_EPOCH` or `FUTURE_EPOCH`. Changes nothing, and knows
   * what this process knows: `process` is what decides.
   */
  validate(action: IncomingAction): true {
    const read = this.#read(action)
    const { workflowId, actionId } = read
    this.#judge(read, { ...this.#marks.peek({ workflowId, actionId }), resent: false })
    return true
  }

  /**
   * Validates an action, carries it out, and raises the mark, as one. When the effect throws, the mark stays, and the
   * action may come again. An announcement of a new lease is taken note of, and is not passed on.
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
   * Carries out what comes for a target, and listens for revocations. What is refused is refused for good and needs no
   * further delivery, but for a gap: what is missing may still come.
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
    // Closed while the bus was being asked.
    if (this.#closing !== null) await own.close()
    return own
  }

  /** An action, with the workflow that it is of. */
  #read(action: IncomingAction): WorkflowAction {
    const read = readAction(action)
    const [only = null] = this.#named.size === 1 ? this.#named : []
    const workflowId = read.workflowId ?? this.#ownWorkflowId ?? only
    if (workflowId !== null) return { ...read, workflowId }
    const known = this.#named.size === 0 ? 'none' : 'several'
    throw invalid('workflowId', `must be named where the guard knows ${known}`, read.workflowId)
  }

  /**
   * Nobody is asked about a lease that is known here: whoever is asked may be away. Each question is put once: whose the
   * lease is, if it is new, and whether it was revoked, if no watch would have told.
   */
  async #attempt<Result>(
    action: WorkflowAction,
    resent: boolean,
    effect: ActionEffect<Transaction, Result>,
  ): Promise<Result | undefined> {
    const { workflowId, actionId, leaseId } = action
    let mayLearn = this.#lookUp !== null
    let mayLook = this.#watch !== null
    for (;;) {
      try {
        return await this.#marks.transact({ workflowId, actionId, resent }, (known) => {
          if (mayLearn && this.#isNew(action, known.mark)) throw NEW_LEASE
          if (mayLook && this.#isUnseen(action, known.mark)) throw UNSEEN_LEASE
          return this.#verdict(action, { ...known, resent }, effect)
        })
      } catch (error) {
        if (error !== NEW_LEASE && error !== UNSEEN_LEASE) throw error
        if (error === NEW_LEASE) await this.#learn(action)
        else await this.#watch?.look(workflowId, leaseId)
        mayLearn = false
        if (error === UNSEEN_LEASE) mayLook = false
      }
    }
  }

  #isFinal(error: unknown): boolean {
    return isLeaseError(error) && this.#refusals.has(error) && error.code !== 'FUTURE_EPOCH'
  }

  #verdict<Result>(
    action: WorkflowAction,
    known: Known & { readonly resent: boolean },
    effect: ActionEffect<Transaction, Result>,
  ): Verdict<Transaction, Result | undefined> {
    const mark = this.#judge(action, known)
    const { epoch, payload } = action
    const whole = Object.freeze({ ...action, fence: action.fence ?? mark.fence })
    if (action.actionType === LEASE_TRANSFER) return { mark, epoch, effect: async () => undefined }
    return {
      mark,
      epoch,
      effect: async (transaction) => {
        const run = async (): Promise<Result> => effect(payload, { action: whole, transaction })
        return this.#watch === null ? run() : within(this.#watch, run)
      },
    }
  }

  #judge(action: WorkflowAction, known: Known & { readonly resent: boolean }): WorkflowMark {
    const mark = this.#markOf(action.workflowId, known.mark)
    const manner = { strict: this.#strict, target: this.#target, resent: known.resent }
    const judgement = judgeAction(action, { ...known, mark }, manner)
    if (judgement.kind === 'accepted') return judgement.mark
    throw this.#refusal(action, judgement.error)
  }

  #refusal({ actionId }: WorkflowAction, error: LeaseError): LeaseError {
    this.#refusals.add(error)
    this.#logOnce(`${actionId} ${error.code}`, error)
    return error
  }

  /** What is kept and what was told, as one. */
  #markOf(workflowId: string, kept: WorkflowMark | null): WorkflowMark | null {
    return mergedMark(kept, this.#told.get(workflowId) ?? null)
  }

  #tell(workflowId: string, mark: WorkflowMark): void {
    const told = mergedMark(this.#told.get(workflowId) ?? null, mark)
    if (told !== null) this.#told.set(workflowId, told)
  }

  /** Writes into the marks what is known of a workflow, without an action. */
  async #note(
    workflowId: string,
    noted: (known: WorkflowMark | null) => WorkflowMark | null,
  ): Promise<void> {
    await this.#marks.transact({ workflowId, actionId: '' }, ({ mark }) => {
      const next = noted(this.#markOf(workflowId, mark))
      return { mark: next, epoch: null, effect: async () => undefined }
    })
  }

  /** A lease that nobody told of may be the next one. */
  #isNew({ workflowId, leaseId, fence }: WorkflowAction, kept: WorkflowMark | null): boolean {
    const told = this.#markOf(workflowId, kept)
    return told === null || (told.leaseId !== leaseId && (fence === null || told.fence < fence))
  }

  /** The lease that is known, of which nobody has said whether it was revoked. */
  #isUnseen({ workflowId, leaseId }: WorkflowAction, kept: WorkflowMark | null): boolean {
    const isKnown = this.#markOf(workflowId, kept)?.leaseId === leaseId
    return isKnown && this.#watch?.knows(workflowId, leaseId) === false
  }

  /** The store knows, or the registrar has signed it. */
  async #learn(action: WorkflowAction): Promise<void> {
    if (this.#lookUp === null) return
    const fact = await this.#ask(this.#lookUp, action)
    // The answer may be older than what is known by now; the higher fence wins.
    if (fact !== null) this.#tell(action.workflowId, withLease(null, fact))
  }

  async #ask(lookUp: LeaseLookUp, action: WorkflowAction): Promise<LeaseFact | null> {
    try {
      return await lookUp(action.workflowId, action)
    } catch (error) {
      throw isLeaseError(error) && saysNo(error) ? this.#refusal(action, error) : error
    }
  }

  #logOnce(key: string, error: LeaseError): void {
    if (this.#logged.has(key)) return
    if (this.#logged.size >= LOGGED_MAX) this.#logged.clear()
    this.#logged.add(key)
    try {
      this.#log(error)
    } catch (failure) {
      // The action is refused all the same, and by its own reason.
      report('workflow/log', failure)
    }
  }
}

/** Not where only nobody could be asked: what nobody has judged is not refused for good. */
function saysNo({ code, retryable }: LeaseError): boolean {
  return !retryable && !code.startsWith('STORE_') && code !== 'CLOSED' && code !== 'ABORTED'
}

function readResent(options: ProcessOptions): boolean {
  refuseUnknown(options, ['resent'])
  const { resent = false } = options
  if (typeof resent === 'boolean') return resent
  throw invalid('resent', 'must be true or false', resent)
}

function requireParts(options: ActionGuardOptions<never>): void {
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

function readRevoked(revoked: Revoked): LeaseFact & { readonly workflowId: string } {
  if (typeof revoked !== 'object' || revoked === null) {
    throw invalid('revoked', 'must be an object with workflowId, leaseId and fence', revoked)
  }
  const workflowId = parseWorkflowId(revoked.workflowId)
  return { workflowId, ...parseFact(revoked.leaseId, revoked.fence) }
}

function parseFact(leaseId: unknown, fence: unknown): LeaseFact {
  return { leaseId: parseLeaseId(leaseId), fence: parseActionFence(fence) }
}

function lowerFence(workflowId: string, told: LeaseFact, fact: LeaseFact): LeaseError {
  const message = `fence of workflow ${workflowId} must be above ${told.fence}, got ${fact.fence}`
  return new LeaseError('LEASE_VIOLATION', message, {
    details: {
      workflow_id: workflowId,
      expected: told.leaseId,
      received: fact.leaseId,
      expected_fence: told.fence,
      received_fence: fact.fence,
      recommendation: 'ask the store who holds the workflow',
    },
  })
}
