/**
 * What waits behind a message that failed, so that a bus keeps its order: of a workflow nothing passes an action whose
 * effect failed, until that has succeeded or become a dead letter. Other workflows go on.
 *
 * What waits by itself holds nobody back: an action that came too early (`FUTURE_EPOCH`), because what it waits for may
 * be behind it, and a revocation, which must not wait behind actions either.
 *
 * A store that is away is no failure of an action: it waits, ever longer between two tries, and is never given up.
 */
import { isLeaseError } from '../core/errors.ts'
import { Fifo } from './fifo.ts'

interface Line<Message> {
  /** The first is the one that failed. */
  readonly messages: Fifo<Message>
  failures: number
  /** How often in a row a store was away. */
  absences: number
  dueMs: number
}

export interface HeldBackOptions {
  readonly deliveriesMax: number
  readonly retryAfterMs: number
}

export interface Failure {
  readonly error: unknown
  readonly atMs: number
}

const LENGTH_MAX = 10_000
/** Characters of messages. */
const SIZE_MAX = 64 * 1_024 * 1_024
const ABSENCE_MS_MAX = 5_000

export class HeldBack<Message extends { readonly text: string }> {
  readonly #options: HeldBackOptions
  readonly #lines = new Map<string, Line<Message>>()
  #alone = 0
  #length = 0
  #size = 0

  constructor(options: HeldBackOptions) {
    this.#options = options
  }

  get length(): number {
    return this.#length
  }

  /** In characters. */
  get size(): number {
    return this.#size
  }

  /** Nothing more should be read, because it might have to be kept. */
  get isFull(): boolean {
    return this.#length >= LENGTH_MAX || this.#size >= SIZE_MAX
  }

  /** When the next line is due, or null. */
  get dueMs(): number | null {
    let first: number | null = null
    for (const { dueMs } of this.#lines.values()) first = Math.min(first ?? dueMs, dueMs)
    return first
  }

  /** True when the action has to wait behind another of its workflow, and does so now. */
  join(workflowId: string, message: Message): boolean {
    const line = this.#lines.get(workflowId)
    if (line === undefined) return false
    this.#push(line, message)
    return true
  }

  /**
   * Keeps a message that failed for the first time; `workflowId` is null for one that holds nobody back. False if it was
   * also its last.
   */
  keep(workflowId: string | null, message: Message, failure: Failure): boolean {
    const line = { messages: new Fifo<Message>(), failures: 0, absences: 0, dueMs: 0 }
    if (!this.#count(line, failure)) return false
    this.#alone += 1
    const isAlone = workflowId === null || isEarly(failure.error)
    this.#lines.set(isAlone ? `${ALONE}${this.#alone}` : workflowId, line)
    this.#push(line, message)
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
    this.#length -= 1
    this.#size -= line.messages.shift()?.text.length ?? 0
    line.failures = 0
    line.absences = 0
    if (line.messages.length === 0) this.#lines.delete(key)
  }

  /** The first of the line has failed again. False if that was once too often. */
  again(key: string, failure: Failure): boolean {
    const line = this.#lines.get(key)
    return line !== undefined && this.#count(line, failure)
  }

  clear(): void {
    this.#lines.clear()
    this.#length = 0
    this.#size = 0
  }

  #push(line: Line<Message>, message: Message): void {
    line.messages.push(message)
    this.#length += 1
    this.#size += message.text.length
  }

  #count(line: Line<Message>, { error, atMs }: Failure): boolean {
    const { retryAfterMs, deliveriesMax } = this.#options
    const away = isAway(error)
    line.absences = away ? line.absences + 1 : 0
    if (!away) line.failures += 1
    const longestMs = Math.max(retryAfterMs, ABSENCE_MS_MAX)
    line.dueMs = atMs + Math.min(longestMs, retryAfterMs * 2 ** Math.max(0, line.absences - 1))
    return line.failures < deliveriesMax
  }
}

/** No workflow has a control character in its name. */
const ALONE = '\0'

export function isEarly(error: unknown): boolean {
  return isLeaseError(error) && error.code === 'FUTURE_EPOCH'
}

/** Nobody has begun, or nobody knows: a store did not answer. Doing it again is what helps, however often. */
export function isAway(error: unknown): boolean {
  return isLeaseError(error) && error.code.startsWith('STORE_') && error.retryable
}
