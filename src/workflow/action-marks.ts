/**
 * The store of a processor's marks: in memory, or in the database of its effects, so that effect and mark are one
 * transaction, and a restarted processor refuses what it refused before.
 */
import { LeaseError } from '../core/errors.ts'
import { SerialQueue } from '../runtime/serial-queue.ts'
import type { Known, WorkflowMark } from './action-decision.ts'
import { isInsideScope, runInScope } from './work-scope.ts'

/** How many of the last actions of a workflow are recognised when they come again; older ones are stale. */
export const ACTIONS_REMEMBERED = 1_000
/** How many workflows a process remembers; a forgotten one is unknown, as after a restart. */
export const WORKFLOWS_REMEMBERED = 10_000

export interface ActionRef {
  readonly workflowId: string
  readonly actionId: string
  /** An operator has sent the action again: `Known` must have `rememberedFrom`. */
  readonly resent?: boolean
}

/** The result of `decide`: an effect, and the mark that is written with it. */
export interface MarkDecision<Transaction, Result> {
  /** Null: no mark is written. */
  readonly mark: WorkflowMark | null
  /** The epoch of the action; null: the mark does not come from an action. */
  readonly epoch: number | null
  readonly effect: (transaction: Transaction) => Promise<Result>
}

export interface ActionMarks<Transaction> {
  /** What this process knows, without a call. `validate` uses it; `process` decides in `transact`. */
  peek(ref: ActionRef): Known
  /**
   * Calls `decide`, runs the effect and writes the mark, atomically. `decide` may be called again when another process has
   * written the mark meanwhile, and throws to refuse the action. If the effect throws, the mark stays.
   */
  transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => MarkDecision<Transaction, Result>,
  ): Promise<Result>
}

interface Remembered {
  readonly mark: WorkflowMark | null
  /** The epochs of the last actions, by their ids. */
  readonly actions: Map<string, number>
  readonly rememberedFrom: number
}

/** The marks that a process has seen last; a database may have newer ones. */
export class SeenMarks {
  readonly #workflows = new RecentMap<Remembered>(WORKFLOWS_REMEMBERED)

  peek({ workflowId, actionId }: ActionRef): Known {
    const known = this.#workflows.get(workflowId)
    if (known === undefined) return { mark: null, seen: false, rememberedFrom: 0 }
    const { mark, actions, rememberedFrom } = known
    return { mark, seen: actions.has(actionId), rememberedFrom }
  }

  /** `epoch`: under which the action of `ref` was carried out; null if it was not. */
  note({ workflowId, actionId }: ActionRef, mark: WorkflowMark | null, epoch: number | null): void {
    const known = this.#workflows.get(workflowId)
    const actions = known?.actions ?? new Map<string, number>()
    const forgotten = epoch === null ? -1 : remember(actions, actionId, epoch)
    this.#workflows.set(workflowId, {
      mark: mark ?? known?.mark ?? null,
      actions,
      rememberedFrom: Math.max(known?.rememberedFrom ?? 0, forgotten + 1),
    })
  }
}

/** Marks in the memory of one process; they end with it. Each workflow's actions run one after the other. */
export class MemoryMarks implements ActionMarks<undefined> {
  readonly #seen = new SeenMarks()
  readonly #effects = new EffectQueue()

  peek(ref: ActionRef): Known {
    return this.#seen.peek(ref)
  }

  transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => MarkDecision<undefined, Result>,
  ): Promise<Result> {
    return this.#effects.run(ref.workflowId, async () => {
      const { mark, epoch, effect } = decide(this.peek(ref))
      const result = await effect(undefined)
      this.#seen.note(ref, mark, epoch)
      return result
    })
  }
}

/** Returns the epoch of the action that is forgotten in its place, or -1. */
function remember(actions: Map<string, number>, actionId: string, epoch: number): number {
  actions.set(actionId, epoch)
  if (actions.size <= ACTIONS_REMEMBERED) return -1
  const [oldest] = actions
  if (oldest === undefined) return -1
  actions.delete(oldest[0])
  return oldest[1]
}

/** A map with least-recently-used eviction. */
export class RecentMap<Value> {
  readonly #limit: number
  readonly #values = new Map<string, Value>()

  constructor(limit: number) {
    this.#limit = limit
  }

  get(key: string): Value | undefined {
    const value = this.#values.get(key)
    if (value !== undefined) this.#touch(key, value)
    return value
  }

  set(key: string, value: Value): void {
    this.#touch(key, value)
    if (this.#values.size <= this.#limit) return
    const [oldest] = this.#values.keys()
    if (oldest !== undefined) this.#values.delete(oldest)
  }

  /** A `Map` iterates in order of insertion, so the first key is the least recently used. */
  #touch(key: string, value: Value): void {
    this.#values.delete(key)
    this.#values.set(key, value)
  }
}

/** Runs effects that share a name one after the other; effects with different names run in parallel. */
export class EffectQueue {
  readonly #queue = new SerialQueue<string>()
  /** One scope for each name that has been run; a scope is compared by identity. */
  readonly #scopes = new Map<string, object>()

  /** Throws `DEADLOCK` when it is called inside an effect of the same name, which cannot end before this one has. */
  async run<Result>(name: string, effect: () => Promise<Result>): Promise<Result> {
    const scope = this.#scopes.get(name) ?? {}
    if (isInsideScope(scope)) {
      const message =
        'an effect must not wait for another turn on its own marks: it would never end'
      throw new LeaseError('DEADLOCK', message)
    }
    this.#scopes.set(name, scope)
    const result = this.#queue.run([name], () => runInScope(scope, effect))
    return result.finally(() => {
      if (!this.#queue.has(name)) this.#scopes.delete(name)
    })
  }
}
