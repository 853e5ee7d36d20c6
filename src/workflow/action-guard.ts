/**
 * What stands before a processor: it lets through the actions of whoever holds the workflow now, each once and in
 * order, and refuses everything else with the code that says why. Each workflow is judged by itself.
 */
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import { parseLeaseId, parseSpanMs, refuseUnknown } from '../core/input.ts'
import { report } from '../runtime/diagnostics.ts'
import {
  createAction,
  EVERY_TARGET,
  LEASE_TRANSFER,
  parseEpoch,
  parseName,
  parseWorkflowId,
  type Action,
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
  type WorkflowMark,
} from './judgement.ts'
import { RecentMap } from './recent-map.ts'
import type { Revocation } from './wire/action-json.ts'

export interface ActionGuardOptions<Transaction> {
  /** Refuses an action when one before it to the same target has not come. Default false. */
  readonly strict?: boolean
  /** Default: in memory. */
  readonly marks?: ActionMarks<Transaction>
  /**
   * Asked when an action carries a lease that is not known, with a higher fence. `currentLease` asks the store,
   * `grantedLease` believes signed grants.
   */
  readonly lookUp?: LeaseLookUp
  /** Told of each refusal, once. */
  readonly log?: (error: LeaseError) => void
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
  action: Action,
) => Promise<LeaseFact | null> | LeaseFact | null

const OPTIONS = ['strict', 'marks', 'lookUp', 'log']
const LOGGED_MAX = 10_000
/** Not a refusal: the action is judged again when somebody was asked. */
const NEW_LEASE = new Error('the lease is not known yet')

export class ActionGuard<Transaction = undefined> {
  readonly #strict: boolean
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

  constructor(options: ActionGuardOptions<Transaction> = {}) {
    refuseUnknown(options, OPTIONS)
    requireParts(options)
    this.#strict = options.strict ?? false
    // Without marks of its own the transaction is nothing, which is what `Transaction` is then.
    this.#marks = options.marks ?? (new MemoryMarks() as unknown as ActionMarks<Transaction>)
    this.#lookUp = options.lookUp ?? null
    this.#log = options.log ?? (() => undefined)
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
    refuseUnknown(options, ['epoch'])
    const id = parseWorkflowId(workflowId)
    const fact = parseFact(leaseId, fence)
    const epoch = options.epoch === undefined ? -1 : parseEpoch(options.epoch, 'epoch')
    await this.#note(id, (known) => {
      const isSame = known?.leaseId === fact.leaseId && known.fence === fact.fence
      if (known !== null && fact.fence <= known.fence && !isSame) throw lowerFence(id, known, fact)
      const next = withLease(known, fact)
      return { ...next, epoch: Math.max(next.epoch, epoch) }
    })
  }

  /**
   * Nothing more is carried out under a lease that was revoked, from now on; the next one needs a higher fence. Resolves
   * when the marks know it, too.
   */
  async revoke(revoked: Pick<Revocation, 'workflowId' | 'leaseId' | 'fence'>): Promise<void> {
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
  validate(action: Action): true {
    const read = createAction(action)
    const { workflowId, actionId } = read
    this.#judge(read, { ...this.#marks.peek({ workflowId, actionId }), resent: false })
    return true
  }

  /**
   * Validates an action, carries it out, and raises the mark, as one. When the effect throws, the mark stays, and the
   * action may come again. An announcement of a new lease is taken note of, and is not passed on.
   */
  async process<Result>(
    action: Action,
    effect: ActionEffect<Transaction, Result>,
    options: ProcessOptions = {},
  ): Promise<Result | undefined> {
    const read = createAction(action)
    const resent = readResent(options)
    if (typeof effect !== 'function') throw invalid('effect', 'must be a function', effect)
    if (read.target !== EVERY_TARGET) this.#target ??= read.target
    const attempt = (mayAsk: boolean): Promise<Result | undefined> => {
      const { workflowId, actionId } = read
      return this.#marks.transact({ workflowId, actionId, resent }, (known) => {
        if (mayAsk && this.#isNew(read, known.mark)) throw NEW_LEASE
        return this.#verdict(read, { ...known, resent }, effect)
      })
    }
    // Nobody is asked about a lease that the marks know: whoever is asked may be away.
    try {
      return await attempt(this.#lookUp !== null)
    } catch (error) {
      if (error !== NEW_LEASE) throw error
    }
    await this.#learn(read)
    return attempt(false)
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
    if (typeof effect !== 'function') throw invalid('effect', 'must be a function', effect)
    this.#target = parseName(target, 'target')
    return bus.subscribe(target, {
      onAction: async (action, delivery) => {
        try {
          await this.process(action, effect, { resent: delivery?.resent ?? false })
        } catch (error) {
          if (!this.#isFinal(error)) throw error
        }
      },
      onRevoked: (revocation) => this.revoke(revocation),
    })
  }

  #isFinal(error: unknown): boolean {
    return isLeaseError(error) && this.#refusals.has(error) && error.code !== 'FUTURE_EPOCH'
  }

  #verdict<Result>(
    action: Action,
    known: Known & { readonly resent: boolean },
    effect: ActionEffect<Transaction, Result>,
  ): Verdict<Transaction, Result | undefined> {
    const mark = this.#judge(action, known)
    const { epoch, payload } = action
    if (action.actionType === LEASE_TRANSFER) return { mark, epoch, effect: async () => undefined }
    return {
      mark,
      epoch,
      effect: async (transaction) => effect(payload, { action, transaction }),
    }
  }

  #judge(action: Action, known: Known & { readonly resent: boolean }): WorkflowMark {
    const mark = this.#markOf(action.workflowId, known.mark)
    const manner = { strict: this.#strict, target: this.#target, resent: known.resent }
    const judgement = judgeAction(action, { ...known, mark }, manner)
    if (judgement.kind === 'accepted') return judgement.mark
    throw this.#refusal(action, judgement.error)
  }

  #refusal({ actionId }: Action, error: LeaseError): LeaseError {
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
  #isNew({ workflowId, leaseId, fence }: Action, kept: WorkflowMark | null): boolean {
    const told = this.#markOf(workflowId, kept)
    return told === null || (told.leaseId !== leaseId && told.fence < fence)
  }

  /** The store knows, or the registrar has signed it. */
  async #learn(action: Action): Promise<void> {
    if (this.#lookUp === null) return
    const fact = await this.#ask(this.#lookUp, action)
    // The answer may be older than what is known by now; the higher fence wins.
    if (fact !== null) this.#tell(action.workflowId, withLease(null, fact))
  }

  async #ask(lookUp: LeaseLookUp, action: Action): Promise<LeaseFact | null> {
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

function requireParts({ strict, marks, lookUp, log }: ActionGuardOptions<never>): void {
  if (strict !== undefined && typeof strict !== 'boolean') {
    throw invalid('strict', 'must be true or false', strict)
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

function readRevoked(
  revoked: Pick<Revocation, 'workflowId' | 'leaseId' | 'fence'>,
): LeaseFact & { readonly workflowId: string } {
  if (typeof revoked !== 'object' || revoked === null) {
    throw invalid('revoked', 'must be an object with workflowId, leaseId and fence', revoked)
  }
  const workflowId = parseWorkflowId(revoked.workflowId)
  return { workflowId, ...parseFact(revoked.leaseId, revoked.fence) }
}

function parseFact(leaseId: unknown, fence: unknown): LeaseFact {
  const limit = { field: 'fence', min: 1, max: Number.MAX_SAFE_INTEGER }
  return { leaseId: parseLeaseId(leaseId), fence: parseSpanMs(limit, fence) }
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
