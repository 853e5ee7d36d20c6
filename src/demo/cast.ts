/** The agents as the demo sees them: child processes, what they reported, and how they ended. */
import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { report } from '../runtime/diagnostics.ts'
import { hasCode } from '../runtime/file-system.ts'
import { isReport, type Assignment, type AgentReport } from './report.ts'

export type Condition = 'running' | 'killed' | 'stopped' | 'ended' | 'crashed'

interface Agent {
  readonly name: string
  readonly process: ChildProcess
  readonly ended: Promise<void>
  condition: Condition
  /** The last words on stderr, for the case that it crashed. */
  words: string
}

type Listener = (report: AgentReport) => void

export class Cast {
  readonly reports: AgentReport[] = []
  readonly #agents: Agent[] = []
  readonly #listeners = new Set<Listener>()

  start(assignment: Assignment): void {
    const script = fileURLToPath(new URL('./agent.js', import.meta.url))
    const child = spawn(process.execPath, [script], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
    const agent: Agent = {
      name: assignment.name,
      process: child,
      condition: 'running',
      words: '',
      ended: new Promise((resolve) => {
        // No fault: what the error says is kept below, with the agent's condition.
        child.once('error', () => resolve())
        child.once('exit', () => resolve())
      }),
    }
    child.stderr?.on('data', (text: Buffer) => {
      agent.words = `${agent.words}${text.toString()}`.slice(-500)
    })
    child.on('message', (message) => this.#hear(message))
    child.once('exit', (code) => {
      if (agent.condition !== 'killed') agent.condition = code === 0 ? 'ended' : 'crashed'
    })
    child.once('error', (error) => {
      agent.condition = 'crashed'
      agent.words = error.message
    })
    this.#agents.push(agent)
    tellAgent(child, assignment)
  }

  get conditions(): readonly { readonly name: string; readonly condition: Condition }[] {
    return this.#agents.map(({ name, condition }) => ({ name, condition }))
  }

  /** Agents that ended otherwise than they should have, with their last words. */
  get crashed(): readonly string[] {
    return this.#agents
      .filter(({ condition }) => condition === 'crashed')
      .map(({ name, words }) => `${name}: ${words.trim().split('\n')[0] ?? ''}`)
  }

  onReport(listener: Listener): void {
    this.#listeners.add(listener)
  }

  /** The first report that fits, past or to come; null if none comes in time. */
  async report(
    fits: (report: AgentReport) => boolean,
    timeoutMs: number,
  ): Promise<AgentReport | null> {
    const heard = this.reports.find(fits)
    if (heard !== undefined) return heard
    return new Promise((resolve) => {
      const answer = (report: AgentReport | null): void => {
        clearTimeout(timer)
        this.#listeners.delete(listener)
        resolve(report)
      }
      const listener = (report: AgentReport): void => {
        if (fits(report)) answer(report)
      }
      const timer = setTimeout(() => answer(null), timeoutMs)
      this.#listeners.add(listener)
    })
  }

  kill(name: string): void {
    this.#signal(name, 'SIGKILL', 'killed')
  }

  stop(name: string): void {
    this.#signal(name, 'SIGSTOP', 'stopped')
  }

  resume(name: string): void {
    this.#signal(name, 'SIGCONT', 'running')
  }

  /** Lets every agent finish the turn it is in; one that does not end in time is ended, and counts as crashed. */
  async finish(timeoutMs: number): Promise<void> {
    const late = setTimeout(() => this.abandon(), timeoutMs)
    for (const { process: child } of this.#agents) {
      if (child.connected) tellAgent(child, 'finish')
    }
    await Promise.all(this.#agents.map(async ({ ended }) => ended))
    clearTimeout(late)
  }

  /** Ends every agent at once, also those that are stopped. */
  abandon(): void {
    for (const { process: child } of this.#agents) child.kill('SIGKILL')
  }

  #signal(name: string, signal: NodeJS.Signals, condition: Condition): void {
    const agent = this.#agents.find((each) => each.name === name)
    if (agent === undefined) return
    agent.condition = condition
    agent.process.kill(signal)
  }

  #hear(message: unknown): void {
    if (!isReport(message)) return
    this.reports.push(message)
    for (const listener of [...this.#listeners]) listener(message)
  }
}

/** One that has ended, or is about to, cannot be told anything; how it ended is its condition. */
export function tellAgent(child: ChildProcess, message: Assignment | 'finish'): void {
  child.send(message, (error) => {
    if (error === null || hasCode(error, 'ERR_IPC_CHANNEL_CLOSED', 'EPIPE')) return
    report('cli/demo', error)
  })
}
