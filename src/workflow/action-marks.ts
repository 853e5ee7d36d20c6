/**
 * Where a processor keeps its marks: in memory, or beside its effects, so that the effect and the mark are one
 * transaction and a processor that is started again refuses what it refused before.
 */
import type { Known, WorkflowMark } from './judgement.ts'
import { RecentMap } from './recent-map.ts'

/** How many of the last actions of a workflow are recognised when they come again; older ones are stale. */
export const ACTIONS_REMEMBERED = 1_000
/** How many workflows a process has in mind; one that was forgotten is unknown, as after a restart. */
export const WORKFLOWS_REMEMBERED = 10_000

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
  readonly mark: WorkflowMark | null
  readonly actionIds: Set<string>
}

/** What a process saw last of each workflow, which is not what counts where marks are kept elsewhere. */
export class SeenMarks {
  readonly #workflows = new RecentMap<Remembered>(WORKFLOWS_REMEMBERED)

  peek({ workflowId, actionId }: ActionRef): Known {
    const known = this.#workflows.get(workflowId)
    return { mark: known?.mark ?? null, seen: known?.actionIds.has(actionId) ?? false }
  }

  /** `wasCarriedOut`: the action of `ref` is one of those that the mark was raised by. */
  note(
    { workflowId, actionId }: ActionRef,
    mark: WorkflowMark | null,
    wasCarriedOut: boolean,
  ): void {
    const known = this.#workflows.get(workflowId)
    const actionIds = known?.actionIds ?? new Set()
    if (wasCarriedOut) remember(actionIds, actionId)
    this.#workflows.set(workflowId, { mark: mark ?? known?.mark ?? null, actionIds })
  }
}

/** One after the other for each workflow; different ones do not wait for each other. */
export class WorkflowTurns {
  readonly #last = new Map<string, Promise<unknown>>()

  take<Result>(workflowId: string, run: () => Promise<Result>): Promise<Result> {
    const turn = (this.#last.get(workflowId) ?? Promise.resolve()).then(run)
    const ended = turn.then(
      () => undefined,
      () => undefined,
    )
    this.#last.set(workflowId, ended)
    void ended.then(() => {
      if (this.#last.get(workflowId) === ended) this.#last.delete(workflowId)
    })
    return turn
  }
}

/** Marks in the memory of one process; they end with it. Each workflow's actions run one after the other. */
export class MemoryMarks implements ActionMarks<undefined> {
  readonly #seen = new SeenMarks()
  readonly #turns = new WorkflowTurns()

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
      this.#seen.note(ref, mark, epoch !== null)
      return result
    })
  }
}

function remember(actionIds: Set<string>, actionId: string): void {
  actionIds.add(actionId)
  if (actionIds.size <= ACTIONS_REMEMBERED) return
  const [oldest] = actionIds
  if (oldest !== undefined) actionIds.delete(oldest)
}
