/**
 * Messages that failed and those that wait behind them, one queue for each workflow, so that a bus keeps its order: no
 * later action of a workflow passes an action whose effect failed, until that has succeeded or become a dead letter.
 * Other workflows continue.
 *
 * Two kinds of messages wait in a queue of their own and block no others: an action that came too early (`FUTURE_EPOCH`),
 * because the action that it waits for may come later, and a revocation, which must not wait behind actions either.
 *
 * An unavailable store is no failure of an action: the action is retried with back-off for as long as it takes.
 */
import { isRetryable } from '../client/retry.ts'
import { isLeaseError } from '../core/errors.ts'
import { parseSpanMs } from '../core/input.ts'
import { backOffMs } from '../runtime/pause.ts'

interface RetryQueue<Message> {
  /** The first is the one that failed. */
  readonly messages: Fifo<Message>
  failures: number
  /** How often in a row the store was unavailable. */
  outages: number
  dueMs: number
}

export interface RetryOptions {
  readonly deliveriesMax: number
  readonly retryAfterMs: number
}

export function parseRetryOptions({ deliveriesMax, retryAfterMs }: RetryOptions): RetryOptions {
  return {
    deliveriesMax: parseSpanMs({ field: 'deliveriesMax', min: 1, max: 1_000 }, deliveriesMax),
    retryAfterMs: parseSpanMs({ field: 'retryAfterMs', min: 1, max: 3_600_000 }, retryAfterMs),
  }
}

export interface Failure {
  readonly error: unknown
  readonly atMs: number
}

const LENGTH_MAX = 10_000
/** In characters. */
const SIZE_MAX = 64 * 1_024 * 1_024
const OUTAGE_MS_MAX = 5_000

export class RetryQueues<Message extends { readonly text: string }> {
  readonly #options: RetryOptions
  readonly #queues = new Map<string, RetryQueue<Message>>()
  #alone = 0
  #length = 0
  #size = 0

  constructor(options: RetryOptions) {
    this.#options = options
  }

  get length(): number {
    return this.#length
  }

  /** In characters. */
  get size(): number {
    return this.#size
  }

  /** No further message should be read, because it might have to be queued here. */
  get isFull(): boolean {
    return this.#length >= LENGTH_MAX || this.#size >= SIZE_MAX
  }

  /** When the next queue is due, or null. */
  get dueMs(): number | null {
    let first: number | null = null
    for (const { dueMs } of this.#queues.values()) first = Math.min(first ?? dueMs, dueMs)
    return first
  }

  /** Enqueues an action behind a failed one of its workflow. False if there is none. */
  enqueueBehind(workflowId: string, message: Message): boolean {
    const queue = this.#queues.get(workflowId)
    if (queue === undefined) return false
    this.#push(queue, message)
    return true
  }

  /**
   * Records the first failure of a message; `workflowId` is null for a message that blocks no others. False if it must not
   * be retried.
   */
  add(workflowId: string | null, message: Message, failure: Failure): boolean {
    const queue = { messages: new Fifo<Message>(), failures: 0, outages: 0, dueMs: 0 }
    if (!this.#count(queue, failure)) return false
    this.#alone += 1
    const isAlone = workflowId === null || isEarly(failure.error)
    this.#queues.set(isAlone ? `${ALONE}${this.#alone}` : workflowId, queue)
    this.#push(queue, message)
    return true
  }

  /** The keys of the queues that are due. */
  due(nowMs: number): readonly string[] {
    return [...this.#queues].flatMap(([key, queue]) => (queue.dueMs <= nowMs ? [key] : []))
  }

  first(key: string): Message | undefined {
    return this.#queues.get(key)?.messages.first
  }

  /** Removes the first message of a queue. */
  shift(key: string): void {
    const queue = this.#queues.get(key)
    if (queue === undefined) return
    this.#length -= 1
    this.#size -= queue.messages.shift()?.text.length ?? 0
    queue.failures = 0
    queue.outages = 0
    if (queue.messages.length === 0) this.#queues.delete(key)
  }

  /** Records another failure of the first message. False if it must not be retried. */
  failed(key: string, failure: Failure): boolean {
    const queue = this.#queues.get(key)
    return queue !== undefined && this.#count(queue, failure)
  }

  clear(): void {
    this.#queues.clear()
    this.#length = 0
    this.#size = 0
  }

  #push(queue: RetryQueue<Message>, message: Message): void {
    queue.messages.push(message)
    this.#length += 1
    this.#size += message.text.length
  }

  #count(queue: RetryQueue<Message>, { error, atMs }: Failure): boolean {
    const { retryAfterMs, deliveriesMax } = this.#options
    // The effect has not begun or its outcome is unknown, and only a retry helps.
    const isOutage = isRetryable(error)
    queue.outages = isOutage ? queue.outages + 1 : 0
    if (!isOutage) queue.failures += 1
    const maxMs = Math.max(retryAfterMs, OUTAGE_MS_MAX)
    queue.dueMs = atMs + backOffMs(queue.outages, { firstMs: retryAfterMs, maxMs })
    return queue.failures < deliveriesMax
  }
}

/** The prefix of the keys of messages that block no others: no workflow id has a control character. */
const ALONE = '\0'

export function isEarly(error: unknown): boolean {
  return isLeaseError(error) && error.code === 'FUTURE_EPOCH'
}

/** First in, first out, in constant time: `shift` of a long array moves all that is left. */
export class Fifo<Item> {
  #items: Item[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  get first(): Item | undefined {
    return this.#items[this.#head]
  }

  *[Symbol.iterator](): IterableIterator<Item> {
    yield* this.#items.slice(this.#head)
  }

  push(item: Item): void {
    this.#items.push(item)
  }

  shift(): Item | undefined {
    const item = this.first
    if (this.length === 0) return undefined
    this.#head += 1
    // Once more than half is used up; so each item is moved once at most.
    if (this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }
}
