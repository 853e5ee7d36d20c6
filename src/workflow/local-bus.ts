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

interface Delivery {
  readonly text: string
  readonly deliveries: number
}

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
    for (const name of names) this.#mailbox(name).put({ text, deliveries: 0 })
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
  readonly #options: Required<LocalBusOptions>
  readonly #bury: (letter: DeadLetter) => void
  #waiting: Delivery[] = []
  #listeners: Listener[] = []
  #turn = 0
  #running: Promise<void> | null = null
  readonly #retries = new Set<Timer>()
  #idle: (() => void)[] = []

  constructor(
    target: string,
    options: Required<LocalBusOptions>,
    bury: (letter: DeadLetter) => void,
  ) {
    this.#target = target
    this.#options = options
    this.#bury = bury
  }

  put(delivery: Delivery): void {
    if (this.#waiting.length >= WAITING_MAX) {
      const message = `at most ${WAITING_MAX} actions may wait for ${this.#target}`
      throw new LeaseError('LIMIT_EXCEEDED', message, { details: { limit: WAITING_MAX } })
    }
    this.#waiting.push(delivery)
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
    const nothingToDo = this.#waiting.length === 0 || this.#listeners.length === 0
    return nothingToDo && this.#running === null && this.#retries.size === 0
  }

  #start(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = null
      if (this.#waiting.length > 0 && this.#listeners.length > 0) return this.#start()
      if (!this.#isIdle) return
      for (const resolve of this.#idle) resolve()
      this.#idle = []
    })
  }

  async #run(): Promise<void> {
    // Delivered from a turn of its own: whoever publishes must not run its processors.
    await Promise.resolve()
    for (;;) {
      const listener = this.#listeners[this.#turn % Math.max(1, this.#listeners.length)]
      const delivery = listener === undefined ? undefined : this.#waiting.shift()
      if (listener === undefined || delivery === undefined) return
      this.#turn += 1
      await this.#deliver(listener, delivery)
    }
  }

  async #deliver(listener: Listener, { text, deliveries }: Delivery): Promise<void> {
    const message = readMessage(text)
    if ('reason' in message) {
      return this.#bury({ target: this.#target, reason: message.reason, message: text })
    }
    try {
      if (message.kind === 'action') await listener.onAction(message.action)
      else await listener.onRevoked?.(message.revocation)
    } catch (error) {
      this.#again({ text, deliveries: deliveries + 1 }, reasonOf(error))
    }
  }

  #again(delivery: Delivery, reason: string): void {
    const { deliveriesMax, retryAfterMs, runtime } = this.#options
    if (delivery.deliveries >= deliveriesMax) {
      return this.#bury({ target: this.#target, reason, message: delivery.text })
    }
    const put = (): void => {
      this.#retries.delete(timer)
      this.put(delivery)
    }
    const timer = runtime.setTimer(retryAfterMs, put, { keepAlive: true })
    this.#retries.add(timer)
  }
}

export function readMessage(text: string): BusMessage | { readonly reason: string } {
  try {
    return parseMessage(text)
  } catch (error) {
    return { reason: reasonOf(error) }
  }
}
