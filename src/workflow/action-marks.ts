/**
 * Where a processor keeps its marks: in memory, or beside its effects, so that the effect and the mark are one
 * transaction and a processor that is started again refuses what it refused before.
 */
import type { Known, WorkflowMark } from './judgement.ts'
import { RecentMap } from './recent-map.ts'
import { Turns } from './turns.ts'

/** How many of the last actions of a workflow are recognised when they come again; older ones are stale. */
export const ACTIONS_REMEMBERED = 1_000
/** How many workflows a process has in mind; one that was forgotten is unknown, as after a restart. */
export const WORKFLOWS_REMEMBERED = 10_000

export interface ActionRef {
  readonly workflowId: string
  readonly actionId: string
  /** It was sent again by an operator: what is known must say from which epoch on all actions are remembered. */
  readonly resent?: boolean
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
  readonly mark: WorkflowMark | null
  /** The epochs of the last actions, by their ids. */
  readonly actions: Map<string, number>
  readonly rememberedFrom: number
}

/** What a process saw last of each workflow, which is not what counts where marks are kept elsewhere. */
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
  readonly #turns = new Turns()

  peek(ref: ActionRef): Known {
    return this.#seen.peek(ref)
  }

  transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => Verdict<undefined, Result>,
  ): Promise<Result> {
    return this.#turns.take(ref.workflowId, async () => {
      const { mark, epoch, effect } = decide(this.peek(ref))
      const result = await effect(undefined)
      this.#seen.note(ref, mark, epoch)
      return result
    })
  }
}

/** The epoch of the action that is forgotten for it, or -1. */
function remember(actions: Map<string, number>, actionId: string, epoch: number): number {
  actions.set(actionId, epoch)
  if (actions.size <= ACTIONS_REMEMBERED) return -1
  const [oldest] = actions
  if (oldest === undefined) return -1
  actions.delete(oldest[0])
  return oldest[1]
}
