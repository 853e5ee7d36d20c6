/**
 * A bus within one process. Messages are text, as on any other bus, so that sender and receiver share no objects. Nothing
 * survives the process.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import { refuseUnknown } from '../core/input.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { EVERY_TARGET, type Action } from './action.ts'
import {
  parseOwnTarget,
  requireListener,
  type Bus,
  type DeadLetter,
  type Listener,
  type Subscription,
} from './bus.ts'
import { DeadLetterFault, Deliveries, orderOf, readMessage } from './delivery.ts'
import { Fifo, parseRetryOptions, RetryQueues } from './retry-queues.ts'
import { runOutsideScopes } from './work-scope.ts'
import { formatAction, formatRevocation, reasonOf, type Revocation } from './wire/action-json.ts'

export interface LocalBusOptions {
  /** After so many failures a message becomes a dead letter. Default 5. */
  readonly deliveriesMax?: number
  /** How many milliseconds a message that failed waits for its next turn. Default 100. */
  readonly retryAfterMs?: number
  /** For tests: time, timers and ids to go by instead of the real ones, such as `FakeRuntime`. Default: the real ones. */
  readonly runtime?: Runtime
}

const DEAD_LETTERS_MAX = 1_000
/** Messages to all targets that are kept for targets without a subscriber yet. */
const FOR_ALL_MAX = 1_000
const FOR_ALL_SIZE_MAX = 16 * 1_024 * 1_024

export class LocalBus implements Bus {
  readonly #options: Required<LocalBusOptions>
  readonly #mailboxes = new Map<string, Mailbox>()
  readonly #deadLetters: DeadLetter[] = []
  #deadLetterCount = 0
  readonly #forAll = new Fifo<string>()
  #forAllSize = 0

  constructor(options: LocalBusOptions = {}) {
    refuseUnknown(options, ['deliveriesMax', 'retryAfterMs', 'runtime'])
    const { deliveriesMax = 5, retryAfterMs = 100, runtime = systemRuntime } = options
    this.#options = { ...parseRetryOptions({ deliveriesMax, retryAfterMs }), runtime }
  }

  /** The last messages that could not be delivered, oldest first. */
  get deadLetters(): readonly DeadLetter[] {
    return [...this.#deadLetters]
  }

  async publish(actions: readonly Action[]): Promise<void> {
    for (const action of actions) this.send(action.target, formatAction(action))
  }

  /** Also to a target that is full: it must not keep a revocation from the others. */
  async announce(revocation: Revocation): Promise<void> {
    this.#sendToAll(formatRevocation(revocation))
  }

  /** Sends a message as it is, without a check. */
  send(target: string, text: string): void {
    if (target !== EVERY_TARGET) return this.#mailbox(target).put({ text, resent: false })
    for (const mailbox of this.#mailboxes.values()) mailbox.requireRoom(text)
    this.#sendToAll(text)
  }

  #sendToAll(text: string): void {
    for (const mailbox of this.#mailboxes.values()) mailbox.add({ text, resent: false })
    this.#forAll.push(text)
    this.#forAllSize += text.length
    while (this.#forAll.length > FOR_ALL_MAX || this.#forAllSize > FOR_ALL_SIZE_MAX) {
      this.#forAllSize -= this.#forAll.shift()?.length ?? 0
    }
  }

  /**
   * Sends a dead letter again, to the target it failed at. It is carried out although later actions were, unless it
   * was carried out itself.
   */
  async resend(id: string): Promise<void> {
    const at = this.#deadLetters.findIndex((letter) => letter.id === id)
    const letter = this.#deadLetters[at]
    if (letter === undefined) throw invalid('id', 'must be that of a dead letter', id)
    this.#mailbox(letter.target).put({ text: letter.message, resent: true })
    this.#deadLetters.splice(at, 1)
  }

  async subscribe(target: string, listener: Listener): Promise<Subscription> {
    return this.#mailbox(parseOwnTarget(target)).subscribe(requireListener(listener))
  }

  /** Resolves when everything that was sent has been delivered, or has become a dead letter. */
  async idle(): Promise<void> {
    await Promise.all([...this.#mailboxes.values()].map((mailbox) => mailbox.idle()))
  }

  /** Messages to a target, or to all, wait in the mailbox for its first listener. */
  #mailbox(target: string): Mailbox {
    const known = this.#mailboxes.get(target)
    if (known !== undefined) return known
    const mailbox = new Mailbox(target, this.#options, (letter) => {
      this.#deadLetterCount += 1
      this.#deadLetters.push({ id: String(this.#deadLetterCount), ...letter })
      if (this.#deadLetters.length > DEAD_LETTERS_MAX) this.#deadLetters.shift()
    })
    this.#mailboxes.set(target, mailbox)
    for (const text of this.#forAll) mailbox.put({ text, resent: false })
    return mailbox
  }
}

const WAITING_MAX = 100_000
/** Characters of all messages that wait for one target. */
const WAITING_SIZE_MAX = 256 * 1_024 * 1_024

/** While there is always something new, what failed and is due again is looked for this often. */
const LOOK_MS = 10

interface SentMessage {
  readonly text: string
  readonly resent: boolean
}

/** The messages for one target; its listeners get them round-robin. */
class Mailbox {
  readonly #target: string
  readonly #runtime: Runtime
  readonly #bury: (letter: Omit<DeadLetter, 'id'>) => void
  readonly #deadLetterFault: DeadLetterFault
  readonly #retries: RetryQueues<SentMessage>
  readonly #waiting = new Fifo<SentMessage>()
  #waitingSize = 0
  #listeners: Deliveries[] = []
  #nextIndex = 0
  #running: Promise<void> | null = null
  #retry: Timer | null = null
  #idle: (() => void)[] = []

  constructor(
    target: string,
    options: Required<LocalBusOptions>,
    bury: (letter: Omit<DeadLetter, 'id'>) => void,
  ) {
    this.#target = target
    this.#runtime = options.runtime
    this.#bury = bury
    this.#deadLetterFault = new DeadLetterFault(target, options.runtime)
    this.#retries = new RetryQueues(options)
  }

  put(sent: SentMessage): void {
    this.requireRoom(sent.text)
    this.add(sent)
  }

  requireRoom(text: string): void {
    if (this.#waiting.length + this.#retries.length >= WAITING_MAX) {
      throw this.#full(WAITING_MAX, 'actions')
    }
    if (this.#waitingSize + this.#retries.size + text.length > WAITING_SIZE_MAX) {
      throw this.#full(WAITING_SIZE_MAX, 'characters of actions')
    }
  }

  add(sent: SentMessage): void {
    this.#waiting.push(sent)
    this.#waitingSize += sent.text.length
    this.#start()
  }

  #full(limit: number, what: string): LeaseError {
    const message = `at most ${limit} ${what} may wait for ${this.#target}`
    return new LeaseError('LIMIT_EXCEEDED', message, { details: { limit } })
  }

  subscribe(listener: Listener): Subscription {
    const deliveries = new Deliveries(listener, this.#runtime)
    this.#listeners.push(deliveries)
    this.#start()
    return {
      close: async () => {
        this.#listeners = this.#listeners.filter((one) => one !== deliveries)
        if (!deliveries.isInside) await deliveries.ended()
      },
    }
  }

  async idle(): Promise<void> {
    if (this.#isIdle) return
    await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  get #isIdle(): boolean {
    const nothingToDo = this.#waiting.length === 0 && this.#retries.length === 0
    return (nothingToDo || this.#listeners.length === 0) && this.#running === null
  }

  #start(): void {
    // The publisher may be inside a scope; the delivery is not part of it.
    this.#running ??= runOutsideScopes(() => this.#run()).finally(() => {
      this.#running = null
      if (this.#waiting.length > 0 && this.#listeners.length > 0) return this.#start()
      this.#scheduleRetry()
      if (!this.#isIdle) return
      for (const resolve of this.#idle) resolve()
      this.#idle = []
    })
  }

  /** Schedules the next retry. */
  #scheduleRetry(): void {
    this.#retry?.cancel()
    const { dueMs } = this.#retries
    if (dueMs === null || this.#listeners.length === 0) return
    const delayMs = Math.max(0, dueMs - this.#runtime.monotonicMs())
    this.#retry = this.#runtime.setTimer(delayMs, () => this.#start(), { keepAlive: true })
  }

  async #run(): Promise<void> {
    // Asynchronous: the publisher must not run the processors.
    await Promise.resolve()
    let lookMs = -Infinity
    while (this.#listeners.length > 0) {
      const nowMs = this.#runtime.monotonicMs()
      if (nowMs >= lookMs) {
        lookMs = nowMs + LOOK_MS
        for (const key of this.#retries.due(nowMs)) await this.#retryQueue(key)
        continue
      }
      const sent = this.#waiting.shift()
      if (sent === undefined) return
      this.#waitingSize -= sent.text.length
      await this.#handle(sent)
    }
  }

  async #handle(sent: SentMessage): Promise<void> {
    const message = readMessage(sent.text)
    if ('reason' in message) return this.#buryText(sent, message.reason)
    const order = orderOf(message)
    if (order !== null && this.#retries.enqueueBehind(order, sent)) return
    const failure = await this.#nextListener().deliver(message, sent.resent)
    if (failure === null || this.#retries.add(order, sent, failure)) return
    this.#buryText(sent, reasonOf(failure.error))
  }

  async #retryQueue(key: string): Promise<void> {
    for (let sent = this.#retries.first(key); sent !== undefined; sent = this.#retries.first(key)) {
      const message = readMessage(sent.text)
      if (this.#listeners.length === 0 || 'reason' in message) return
      const failure = await this.#nextListener().deliver(message, sent.resent)
      if (failure !== null && this.#retries.failed(key, failure)) return
      if (failure !== null) this.#buryText(sent, reasonOf(failure.error))
      this.#retries.shift(key)
    }
  }

  #nextListener(): Deliveries {
    const listener = this.#listeners[this.#nextIndex % this.#listeners.length]
    this.#nextIndex += 1
    if (listener === undefined) throw new Error(`no listener for ${this.#target}`)
    return listener
  }

  #buryText({ text }: SentMessage, reason: string): void {
    this.#bury({ target: this.#target, reason, message: text })
    this.#deadLetterFault.report(reason)
  }
}
