/**
 * Where a processor keeps its marks: in memory, or beside its effects, so that the effect and the mark are one
 * transaction and a processor that is started again refuses what it refused before.
 */
import type { Known, WorkflowMark } from './judgement.ts'

/** How many of the last actions of a workflow are recognised when they come again; older ones are stale. */
export const ACTIONS_REMEMBERED = 1_000

export interface ActionRef {
  readonly workflowId: string
  readonly actionId: string
}

/** What `decide` came to: nothing, or an effect and the mark that goes with it. */
export interface Verdict<Transaction, Result> {
  /** Null: nothing is remembered, and nothing happens. */
  readonly mark: WorkflowMark | null
  /** Null: the mark is not raised by an action. */
  readonly epoch: number | null
  readonly effect: (transaction: Transaction) => Promise<Result>
}

export interface ActionMarks<Transaction> {
  /** What is known at once. A guard validates with it; what is carried out is decided by `transact`. */
  peek(ref: ActionRef): Known
  /**
   * Lets `decide` choose by what is known, runs the effect, and raises the mark, as one. `decide` may be called again
   * when somebody else has raised the mark meanwhile, and throws what refuses the action. If the effect throws, the
   * mark stays.
   */
  transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => Verdict<Transaction, Result>,
  ): Promise<Result>
}

interface Remembered {
  mark: WorkflowMark | null
  readonly actionIds: Set<string>
  turn: Promise<unknown>
}

/** Marks in the memory of one process; they end with it. Each workflow's actions run one after the other. */
export class MemoryMarks implements ActionMarks<undefined> {
  readonly #workflows = new Map<string, Remembered>()

  peek({ workflowId, actionId }: ActionRef): Known {
    const known = this.#workflows.get(workflowId)
    return { mark: known?.mark ?? null, seen: known?.actionIds.has(actionId) ?? false }
  }

  transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => Verdict<undefined, Result>,
  ): Promise<Result> {
    const workflow = this.#workflow(ref.workflowId)
    const run = async (): Promise<Result> => {
      const { mark, epoch, effect } = decide(this.peek(ref))
      const result = await effect(undefined)
      if (mark !== null) workflow.mark = mark
      if (epoch !== null) remember(workflow.actionIds, ref.actionId)
      return result
    }
    const turn = workflow.turn.then(run)
    workflow.turn = turn.catch(() => undefined)
    return turn
  }

  #workflow(workflowId: string): Remembered {
    const known = this.#workflows.get(workflowId)
    if (known !== undefined) return known
    const fresh: Remembered = { mark: null, actionIds: new Set(), turn: Promise.resolve() }
    this.#workflows.set(workflowId, fresh)
    return fresh
  }
}

function remember(actionIds: Set<string>, actionId: string): void {
  actionIds.add(actionId)
  if (actionIds.size <= ACTIONS_REMEMBERED) return
  const [oldest] = actionIds
  if (oldest !== undefined) actionIds.delete(oldest)
}
