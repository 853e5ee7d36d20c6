/** Handing a message to a listener, as every bus does it: one at a time, and so that closing can wait for its end. */
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { Listener } from './bus.ts'
import { isEarly, type Failure } from './held-back.ts'
import { isWithin, within } from './within.ts'
import { parseMessage, reasonOf, type BusMessage } from './wire/action-json.ts'

/** The calls of one listener. */
export class Deliveries {
  readonly #listener: Listener
  readonly #runtime: Runtime
  readonly #fault: RepeatedFault
  #underWay: Promise<unknown> = Promise.resolve()

  constructor(listener: Listener, runtime: Runtime) {
    this.#listener = listener
    this.#runtime = runtime
    this.#fault = new RepeatedFault('workflow/delivery', runtime)
  }

  /** Whether this is called by the listener itself, which is under way for as long as it waits. */
  get isInside(): boolean {
    return isWithin(this)
  }

  /** Resolves when no call is under way. */
  async ended(): Promise<void> {
    await this.#underWay
  }

  /** Null, or what the listener threw. */
  async deliver(message: BusMessage, resent: boolean): Promise<Failure | null> {
    const call = within(this, async () => {
      if (message.kind === 'action') await this.#listener.onAction(message.action, { resent })
      else await this.#listener.onRevoked?.(message.revocation)
    })
    const outcome = call.then(
      () => {
        this.#fault.succeeded()
        return null
      },
      (error: unknown) => {
        // One that came too early is no fault: what it waits for is on its way.
        if (!isEarly(error)) this.#fault.failed(error)
        return { error, atMs: this.#runtime.monotonicMs() }
      },
    )
    this.#underWay = outcome
    return outcome
  }
}

/** Whose actions keep their order, those without a workflow among themselves; a revocation passes them, and waits for none. */
export function orderOf(message: BusMessage): string | null {
  return message.kind === 'action' ? (message.action.workflowId ?? '') : null
}

/** What the text says, or why it cannot be read. */
export function readMessage(text: string): BusMessage | { readonly reason: string } {
  try {
    return parseMessage(text)
  } catch (error) {
    return { reason: reasonOf(error) }
  }
}

/** Dead letters wait for an operator, who has to hear of them: of the first, and then of one a minute. */
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
