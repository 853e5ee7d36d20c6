/**
 * A bus within one process. Messages travel as text, as on any other bus, so that nobody shares a payload with anybody.
 * Nothing survives the process.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import { parseSpanMs, refuseUnknown } from '../core/input.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { EVERY_TARGET, parseName, type Action } from './action.ts'
import {
  requireListener,
  type Bus,
  type DeadLetter,
  type Listener,
  type Subscription,
} from './bus.ts'
import { Fifo } from './fifo.ts'
import { HeldBack, type Failure } from './held-back.ts'
import {
  formatAction,
  formatRevocation,
  parseMessage,
  reasonOf,
  type BusMessage,
  type Revocation,
} from './wire/action-json.ts'

export interface LocalBusOptions {
  /** After so many failures a message becomes a dead letter. Default 5. */
  readonly deliveriesMax?: number
  /** How long a message that failed waits for its next turn. Default 100. */
  readonly retryAfterMs?: number
  readonly runtime?: Runtime
}

const DEAD_LETTERS_MAX = 1_000

export class LocalBus implements Bus {
  readonly #options: Required<LocalBusOptions>
  readonly #mailboxes = new Map<string, Mailbox>()
  readonly #deadLetters: DeadLetter[] = []

  constructor(options: LocalBusOptions = {}) {
    refuseUnknown(options, ['deliveriesMax', 'retryAfterMs', 'runtime'])
    const { deliveriesMax = 5, retryAfterMs = 100, runtime = systemRuntime } = options
    this.#options = {
      deliveriesMax: parseSpanMs({ field: 'deliveriesMax', min: 1, max: 1_000 }, deliveriesMax),
      retryAfterMs: parseSpanMs({ field: 'retryAfterMs', min: 1, max: 3_600_000 }, retryAfterMs),
      runtime,
    }
  }

  /** The last that could not be delivered, oldest first. */
  get deadLetters(): readonly DeadLetter[] {
    return [...this.#deadLetters]
  }

  async publish(actions: readonly Action[]): Promise<void> {
    for (const action of actions) this.send(action.target, formatAction(action))
  }

  async announce(revocation: Revocation): Promise<void> {
    this.send(EVERY_TARGET, formatRevocation(revocation))
  }

  /** Puts a message on the bus as it is, whatever it is. */
  send(target: string, text: string): void {
    const names = target === EVERY_TARGET ? [...this.#mailboxes.keys()] : [target]
    for (const name of names) this.#mailbox(name).put(text)
  }

  async subscribe(target: string, listener: Listener): Promise<Subscription> {
    const name = parseName(target, 'target')
    if (name === EVERY_TARGET) throw invalid('target', 'must be a target of its own', name)
    return this.#mailbox(name).subscribe(requireListener(listener))
  }

  /** Resolves when everything that was sent has been delivered, or has become a dead letter. */
  async idle(): Promise<void> {
    await Promise.all([...this.#mailboxes.values()].map((mailbox) => mailbox.idle()))
  }

  /** What is sent to a target before anybody listens waits for them. */
  #mailbox(target: string): Mailbox {
    const known = this.#mailboxes.get(target)
    if (known !== undefined) return known
    const mailbox = new Mailbox(target, this.#options, (letter) => {
      this.#deadLetters.push(letter)
      if (this.#deadLetters.length > DEAD_LETTERS_MAX) this.#deadLetters.shift()
    })
    this.#mailboxes.set(target, mailbox)
    return mailbox
  }
}

const WAITING_MAX = 100_000

/** What waits for one target; its listeners take turns. */
class Mailbox {
  readonly #target: string
  readonly #runtime: Runtime
  readonly #bury: (letter: DeadLetter) => void
  readonly #held: HeldBack<string>
  readonly #waiting = new Fifo<string>()
  #listeners: Listener[] = []
  #turn = 0
  #running: Promise<void> | null = null
  #retry: Timer | null = null
  #idle: (() => void)[] = []

  constructor(
    target: string,
    options: Required<LocalBusOptions>,
    bury: (letter: DeadLetter) => void,
  ) {
    this.#target = target
    this.#runtime = options.runtime
    this.#bury = bury
    this.#held = new HeldBack(options)
  }

  put(text: string): void {
    if (this.#waiting.length + this.#held.size >= WAITING_MAX) {
      const message = `at most ${WAITING_MAX} actions may wait for ${this.#target}`
      throw new LeaseError('LIMIT_EXCEEDED', message, { details: { limit: WAITING_MAX } })
    }
    this.#waiting.push(text)
    this.#start()
  }

  subscribe(listener: Listener): Subscription {
    this.#listeners.push(listener)
    this.#start()
    return {
      close: async () => {
        this.#listeners = this.#listeners.filter((one) => one !== listener)
        await this.#running
      },
    }
  }

  async idle(): Promise<void> {
    if (this.#isIdle) return
    await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  get #isIdle(): boolean {
    const nothingToDo = this.#waiting.length === 0 && this.#held.size === 0
    return (nothingToDo || this.#listeners.length === 0) && this.#running === null
  }

  #start(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = null
      if (this.#waiting.length > 0 && this.#listeners.length > 0) return this.#start()
      this.#arm()
      if (!this.#isIdle) return
      for (const resolve of this.#idle) resolve()
      this.#idle = []
    })
  }

  /** Comes back when what failed is due. */
  #arm(): void {
    this.#retry?.cancel()
    const { dueMs } = this.#held
    if (dueMs === null || this.#listeners.length === 0) return
    const delayMs = Math.max(0, dueMs - this.#runtime.monotonicMs())
    this.#retry = this.#runtime.setTimer(delayMs, () => this.#start(), { keepAlive: true })
  }

  async #run(): Promise<void> {
    // Delivered from a turn of its own: whoever publishes must not run its processors.
    await Promise.resolve()
    for (const key of this.#held.due(this.#runtime.monotonicMs())) await this.#retryLine(key)
    while (this.#listeners.length > 0) {
      const text = this.#waiting.shift()
      if (text === undefined) return
      await this.#handle(text)
    }
  }

  async #handle(text: string): Promise<void> {
    const message = readMessage(text)
    if ('reason' in message) return this.#buryText(text, message.reason)
    const { workflowId } = message.kind === 'action' ? message.action : message.revocation
    if (message.kind === 'action' && this.#held.join(workflowId, text)) return
    const failure = await this.#deliver(message)
    if (failure === null || this.#held.keep(workflowId, text, failure)) return
    this.#buryText(text, reasonOf(failure.error))
  }

  async #retryLine(key: string): Promise<void> {
    for (let text = this.#held.first(key); text !== undefined; text = this.#held.first(key)) {
      const message = readMessage(text)
      if (this.#listeners.length === 0 || 'reason' in message) return
      const failure = await this.#deliver(message)
      if (failure !== null && this.#held.again(key, failure)) return
      if (failure !== null) this.#buryText(text, reasonOf(failure.error))
      this.#held.next(key)
    }
  }

  /** Null, or what the listener whose turn it is threw. */
  async #deliver(message: BusMessage): Promise<Failure | null> {
    const listener = this.#listeners[this.#turn % this.#listeners.length]
    this.#turn += 1
    try {
      if (message.kind === 'action') await listener?.onAction(message.action)
      else await listener?.onRevoked?.(message.revocation)
      return null
    } catch (error) {
      return { error, atMs: this.#runtime.monotonicMs() }
    }
  }

  #buryText(message: string, reason: string): void {
    this.#bury({ target: this.#target, reason, message })
  }
}

export function readMessage(text: string): BusMessage | { readonly reason: string } {
  try {
    return parseMessage(text)
  } catch (error) {
    return { reason: reasonOf(error) }
  }
}
