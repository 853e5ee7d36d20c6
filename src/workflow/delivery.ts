/** Delivers messages to a listener, for every bus: one at a time, and so that closing can wait for the end. */
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { Listener } from './bus.ts'
import { isEarly, type Failure } from './retry-queues.ts'
import { isInsideScope, runInScope } from './work-scope.ts'
import { parseMessage, reasonOf, type BusMessage } from './wire/action-json.ts'

/** The calls of one listener. */
export class Deliveries {
  readonly #listener: Listener
  readonly #runtime: Runtime
  readonly #fault: RepeatedFault
  #current: Promise<unknown> = Promise.resolve()

  constructor(listener: Listener, runtime: Runtime) {
    this.#listener = listener
    this.#runtime = runtime
    this.#fault = new RepeatedFault('workflow/delivery', runtime)
  }

  /** Whether this is called from inside the listener, which must not wait for its own end. */
  get isInside(): boolean {
    return isInsideScope(this)
  }

  /** Resolves when the call in progress has ended. */
  async ended(): Promise<void> {
    await this.#current
  }

  /** Null, or what the listener threw. */
  async deliver(message: BusMessage, resent: boolean): Promise<Failure | null> {
    const call = runInScope(this, async () => {
      if (message.kind === 'action') await this.#listener.onAction(message.action, { resent })
      else await this.#listener.onRevoked?.(message.revocation)
    })
    const outcome = call.then(
      () => {
        this.#fault.succeeded()
        return null
      },
      (error: unknown) => {
        // An action that came too early is no fault: the action before it is still to come.
        if (!isEarly(error)) this.#fault.failed(error)
        return { error, atMs: this.#runtime.monotonicMs() }
      },
    )
    this.#current = outcome
    return outcome
  }
}

/** The workflow whose actions keep their order; empty for actions without one, null for a revocation, which has no order. */
export function orderOf(message: BusMessage): string | null {
  return message.kind === 'action' ? (message.action.workflowId ?? '') : null
}

/** The message, or the reason why the text is no message. */
export function readMessage(text: string): BusMessage | { readonly reason: string } {
  try {
    return parseMessage(text)
  } catch (error) {
    return { reason: reasonOf(error) }
  }
}

/** Reports dead letters, which wait for an operator: the first, and then one a minute. */
export class DeadLetterFault {
  readonly #target: string
  readonly #fault: RepeatedFault

  constructor(target: string, runtime: Runtime) {
    this.#target = target
    this.#fault = new RepeatedFault('workflow/dead-letter', runtime)
  }

  report(reason: string): void {
    this.#fault.failed(new Error(`a message to ${this.#target} is a dead letter: ${reason}`))
  }
}
