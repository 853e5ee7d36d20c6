/**
 * Marks in the memory of one process, for a server that guards what only it writes and that starts empty. They are
 * lost with the process: whatever outlives it needs a guard that does, too.
 */
import {
  readAct,
  readCheck,
  type Act,
  type CheckArguments,
  type GuardedLease,
  type WriteOptions,
} from './act.ts'
import { judge, type Mark } from './marks.ts'
import { requireResult, requireSynchronous } from './guarded-work.ts'

export class MemoryGuard {
  readonly #marks = new Map<string, Mark>()

  /** Runs `work` if no later holder was seen; throws `STALE_FENCE` otherwise. `work` must be done when it returns. */
  write<Result>(lease: GuardedLease, work: () => Result, options?: WriteOptions): Result {
    const act = readAct(lease, options)
    requireSynchronous(work)
    this.#pass(act)
    return requireResult(work())
  }

  /** See `CheckArguments`. */
  check(...asked: CheckArguments): true {
    this.#pass(readCheck(asked))
    return true
  }

  #pass(act: Act): void {
    const judgement = judge(act, this.#marks)
    if (judgement.kind === 'stale') throw judgement.error
    for (const [key, mark] of judgement.raises) this.#marks.set(key, mark)
  }
}
