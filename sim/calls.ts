/**
 * Calls of the client as a process makes them: each is logged when it begins, with the longest it may take, and when
 * it ends, with what it came to. A call that fails is an outcome like any other.
 */
import { isLeaseError } from '../src/core/errors.ts'
import type { CallOutcome, Operation } from './log.ts'
import type { Incarnation } from './sim-process.ts'

export interface CallFacts {
  readonly operation: Operation
  readonly resource?: string
  readonly leaseId?: string
  readonly boundMs: number
}

/** Numbers the calls of a world. */
export class Calls {
  #last = 0

  /** The result, or null when the call failed. `outcomeOf` names what a result means. */
  async make<Result>(
    { process, who }: Incarnation,
    facts: CallFacts,
    send: () => Promise<Result>,
    outcomeOf: (result: Result) => CallOutcome = () => 'done',
  ): Promise<Result | null> {
    const { log } = process
    const { operation, resource = null, leaseId = null, boundMs } = facts
    this.#last += 1
    const call = this.#last
    const end = (outcome: CallOutcome, effect: 'none' | 'unknown'): void => {
      log.count(`${operation}: ${outcome}`)
      log.write({ kind: 'ended', call, outcome, effect })
    }
    log.write({ kind: 'call', call, ...who, operation, resource, leaseId, boundMs })
    try {
      const result = await send()
      end(outcomeOf(result), 'none')
      return result
    } catch (error) {
      if (isLeaseError(error)) end(error.code, error.effect)
      else end('foreign_error', 'unknown')
      return null
    }
  }
}
