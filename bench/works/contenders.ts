/** Several processes that contend, started once and used for every system; together they are one system under test. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { allDone } from '../measure/all-done.ts'
import type { ContendOptions } from '../measure/contend.ts'
import type { Turns } from '../measure/turns.ts'
import type { Place, SystemUnderTest } from '../system.ts'
import type { Order, Reply, SystemKey } from './contender-process.ts'

const PROGRAM = fileURLToPath(new URL('./contender-process.js', import.meta.url))

export class Contenders {
  readonly #children: readonly ChildProcess[]

  private constructor(children: readonly ChildProcess[]) {
    this.#children = children
  }

  static start(processes: number): Contenders {
    return new Contenders(Array.from({ length: processes }, () => fork(PROGRAM)))
  }

  async open(system: SystemUnderTest, place: Place, workers: number): Promise<void> {
    // One after the other: whoever comes first makes the tables.
    for (const child of this.#children) {
      await ask(child, { kind: 'open', system: keyOf(system), place, workers })
    }
  }

  async contend(system: SystemUnderTest, options: ContendOptions): Promise<Turns> {
    const asked = this.#children.map((child, index) => {
      const prefix = `${options.prefix}${index}.`
      const own = { ...options, prefix }
      return ask(child, { kind: 'contend', system: keyOf(system), options: own })
    })
    const all = await allDone(asked)
    return {
      turns: all.flatMap((part) => part?.turns ?? []),
      waiting: all.flatMap((part) => part?.waiting ?? []),
    }
  }

  async close(system: SystemUnderTest): Promise<void> {
    const order = { kind: 'close', system: keyOf(system) } as const
    await allDone(this.#children.map((child) => ask(child, order)))
  }

  async end(): Promise<void> {
    const running = this.#children.filter(({ exitCode, signalCode }) => {
      return exitCode === null && signalCode === null
    })
    const ended = running.map((child) => once(child, 'exit'))
    for (const child of running) child.disconnect()
    await Promise.all(ended)
  }
}

function keyOf({ store, name, polling }: SystemUnderTest): SystemKey {
  return { store, name, pauseMs: polling?.pauseMs ?? null }
}

async function ask(child: ChildProcess, order: Order): Promise<Turns | null> {
  const heard = new AbortController()
  const { signal } = heard
  try {
    const answered = once(child, 'message', { signal })
    const gone = once(child, 'exit', { signal }).then((): [Reply] => {
      return [{ kind: 'failed', error: 'it is gone' }]
    })
    child.send(order)
    const [reply] = (await Promise.race([answered, gone])) as [Reply]
    if (reply.kind === 'failed') throw new Error(reply.error)
    return reply.turns
  } finally {
    heard.abort()
  }
}
