/** Several processes that contend, started once and used for every system; together they are one system under test. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { allDone } from '../measure/all-done.ts'
import type { ContendOptions } from '../measure/contend.ts'
import type { Turns } from '../measure/turns.ts'
import { within } from '../measure/within.ts'
import { messageOf } from '../result.ts'
import type { Place, SystemUnderTest } from '../system.ts'
import type { Order, Reply, SystemKey } from './contender-process.ts'

const PROGRAM = fileURLToPath(new URL('./contender-process.js', import.meta.url))
/** Shorter than everybody's, so that all is in order again when the work hears of it. */
const PATIENCE_MS = 90_000
const END_PATIENCE_MS = 5_000

type Unnumbered<One> = One extends unknown ? Omit<One, 'number'> : never
type Task = Unnumbered<Order>
type Opening = Extract<Task, { readonly kind: 'open' }>

export interface ContendersOptions {
  readonly processes: number
  /** Another program than ours, for tests. */
  readonly program?: string
  /** With whoever contends. */
  readonly patienceMs?: number
}

export class Contenders {
  readonly #options: ContendersOptions
  readonly #open = new Map<string, Opening>()
  #children: readonly ChildProcess[]
  #asked = 0

  private constructor(options: ContendersOptions) {
    this.#options = options
    this.#children = this.#fork()
  }

  static start(options: ContendersOptions): Contenders {
    return new Contenders(options)
  }

  async open(system: SystemUnderTest, place: Place, workers: number): Promise<void> {
    const opening: Opening = { kind: 'open', system: keyOf(system), place, workers }
    await this.#orStartOver(system, () => this.#askInTurn(opening))
    this.#open.set(nameOf(system), opening)
  }

  async contend(system: SystemUnderTest, options: ContendOptions): Promise<Turns> {
    const all = await this.#orStartOver(system, () =>
      this.#askAll((index) => {
        const own = { ...options, prefix: `${options.prefix}${index}.` }
        return { kind: 'contend', system: keyOf(system), options: own }
      }),
    )
    return {
      turns: all.flatMap((part) => part?.turns ?? []),
      waiting: all.flatMap((part) => part?.waiting ?? []),
    }
  }

  async close(system: SystemUnderTest): Promise<void> {
    if (!this.#open.delete(nameOf(system))) return
    const task: Task = { kind: 'close', system: keyOf(system) }
    await this.#orStartOver(system, () => this.#askAll(() => task))
  }

  async end(): Promise<void> {
    await Promise.all(this.#children.map(endOf))
  }

  /** One after the other: whoever comes first makes the tables. */
  async #askInTurn(task: Task): Promise<void> {
    for (const child of this.#children) await this.#ask(child, task)
  }

  #askAll(taskOf: (index: number) => Task): Promise<readonly (Turns | null)[]> {
    return allDone(this.#children.map((child, index) => this.#ask(child, taskOf(index))))
  }

  /** Whoever did not answer may still be at it, and must not be there in the turn of the next. */
  async #orStartOver<Answer>(
    system: SystemUnderTest,
    work: () => Promise<Answer>,
  ): Promise<Answer> {
    try {
      return await work()
    } catch (error) {
      if (error instanceof Unanswered) await this.#startOver(system)
      throw error
    }
  }

  /** New processes, with everything in them that was open but this one. */
  async #startOver(system: SystemUnderTest): Promise<void> {
    this.#open.delete(nameOf(system))
    await this.end()
    this.#children = this.#fork()
    for (const [name, opening] of this.#open) {
      await this.#askInTurn(opening).catch(() => this.#open.delete(name))
    }
  }

  #fork(): readonly ChildProcess[] {
    const { processes, program = PROGRAM } = this.#options
    return Array.from({ length: processes }, () => fork(program))
  }

  async #ask(child: ChildProcess, task: Task): Promise<Turns | null> {
    this.#asked += 1
    const reply = await this.#replyOf(child, { ...task, number: this.#asked })
    if (reply.kind === 'failed') throw new Error(reply.error)
    return reply.turns
  }

  async #replyOf(child: ChildProcess, order: Order): Promise<Reply> {
    const { patienceMs = PATIENCE_MS } = order.kind === 'contend' ? this.#options : {}
    const heard = new AbortController()
    const { signal } = heard
    const answered = new Promise<Reply>((resolve) => {
      const hear = (reply: Reply): void => {
        if (reply.number === order.number) resolve(reply)
      }
      child.on('message', hear)
      signal.addEventListener('abort', () => child.off('message', hear))
    })
    const gone = once(child, 'exit', { signal }).then(() => {
      throw new Error('it is gone')
    })
    try {
      child.send(order)
      return await within(Promise.race([answered, gone]), patienceMs)
    } catch (error) {
      throw new Unanswered(messageOf(error))
    } finally {
      heard.abort()
    }
  }
}

class Unanswered extends Error {
  override name = 'Unanswered'
}

/** Whoever is at something that never ends is not asked twice. */
async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  if (child.connected) child.disconnect()
  await within(ended, END_PATIENCE_MS).catch(async () => {
    child.kill('SIGKILL')
    await ended
  })
}

function nameOf({ store, name }: SystemUnderTest): string {
  return `${store} ${name}`
}

function keyOf({ store, name, polling }: SystemUnderTest): SystemKey {
  return { store, name, pauseMs: polling?.pauseMs ?? null }
}
