/**
 * What waits behind a message that failed, so that a bus keeps its order: of a workflow nothing passes an action whose
 * effect failed, until that has succeeded or become a dead letter. Other workflows go on.
 *
 * An action that came too early (`FUTURE_EPOCH`) holds nobody back: what it waits for may be behind it.
 */
import { isLeaseError } from '../core/errors.ts'
import { Fifo } from './fifo.ts'

interface Line<Message> {
  /** The first is the one that failed. */
  readonly messages: Fifo<Message>
  failures: number
  dueMs: number
}

export interface HeldBackOptions {
  readonly deliveriesMax: number
  readonly retryAfterMs: number
}

export class HeldBack<Message> {
  readonly #options: HeldBackOptions
  readonly #lines = new Map<string, Line<Message>>()
  #early = 0
  #size = 0

  constructor(options: HeldBackOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#size
  }

  /** When the next line is due, or null. */
  get dueMs(): number | null {
    let first: number | null = null
    for (const { dueMs } of this.#lines.values()) first = Math.min(first ?? dueMs, dueMs)
    return first
  }

  /** True when the message has to wait behind another of its workflow, and does so now. */
  join(workflowId: string, message: Message): boolean {
    const line = this.#lines.get(workflowId)
    if (line === undefined) return false
    line.messages.push(message)
    this.#size += 1
    return true
  }

  /** Keeps a message that failed for the first time. False if it was also its last. */
  keep(workflowId: string, message: Message, failure: Failure): boolean {
    if (this.#options.deliveriesMax <= 1) return false
    this.#early += 1
    const key = isEarly(failure.error) ? `${EARLY}${this.#early}` : workflowId
    const dueMs = failure.atMs + this.#options.retryAfterMs
    const messages = new Fifo<Message>()
    messages.push(message)
    this.#lines.set(key, { messages, failures: 1, dueMs })
    this.#size += 1
    return true
  }

  /** The lines whose turn it is. */
  due(nowMs: number): readonly string[] {
    return [...this.#lines].flatMap(([key, line]) => (line.dueMs <= nowMs ? [key] : []))
  }

  first(key: string): Message | undefined {
    return this.#lines.get(key)?.messages.first
  }

  /** The first of the line is done with. */
  next(key: string): void {
    const line = this.#lines.get(key)
    if (line === undefined) return
    line.messages.shift()
    line.failures = 0
    this.#size -= 1
    if (line.messages.length === 0) this.#lines.delete(key)
  }

  /** The first of the line has failed again. False if that was once too often. */
  again(key: string, { atMs }: Failure): boolean {
    const line = this.#lines.get(key)
    if (line === undefined) return false
    line.failures += 1
    line.dueMs = atMs + this.#options.retryAfterMs
    return line.failures < this.#options.deliveriesMax
  }

  clear(): void {
    this.#lines.clear()
    this.#size = 0
  }
}

export interface Failure {
  readonly error: unknown
  readonly atMs: number
}

/** No workflow has a control character in its name. */
const EARLY = '\0'

function isEarly(error: unknown): boolean {
  return isLeaseError(error) && error.code === 'FUTURE_EPOCH'
}
