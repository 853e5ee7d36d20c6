/** Two scripted agents in one checkout, killed now and then in the middle of what they do. */
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { onTestFinished } from 'vitest'
import { MAIN } from '../cli/tenure-process.ts'
import type { AgentReport, AgentTask } from './scripted-agent.ts'

const AGENT = path.resolve(import.meta.dirname, '../../dist-dev/test/hooks/scripted-agent.js')

export interface Play {
  readonly edits: number
  readonly files: number
  /** An agent is killed after so many of its edits. */
  readonly killEvery: number
  readonly editsPerSession: number
  readonly hasHooks: boolean
}

export interface Outcome {
  readonly edits: number
  readonly kills: number
  readonly denials: readonly string[]
  /** Edits of a file that another counted on having alone. */
  readonly tramplings: number
  /** Edits that are in no file any more. */
  readonly lost: number
  readonly broken: readonly string[]
  /** What is left when all sessions have ended. */
  readonly leases: number
  readonly memories: number
}

export async function playTwoAgents(play: Play): Promise<Outcome> {
  const stage = new TwoAgents(play)
  await Promise.all([stage.play('ada'), stage.play('bob')])
  return stage.outcome()
}

class TwoAgents {
  readonly #play: Play
  readonly #root: string
  readonly #reports: AgentReport[] = []
  readonly #files: readonly string[]
  #kills = 0

  constructor(play: Play) {
    this.#play = play
    this.#root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-agents-')))
    onTestFinished(() => fs.rmSync(this.#root, { recursive: true, force: true }))
    for (const name of ['tree', 'holds']) fs.mkdirSync(path.join(this.#root, name))
    execFileSync('git', ['init', '-q', '--template='], { cwd: this.#tree })
    this.#files = Array.from({ length: play.files }, (_, index) => `f${index}.txt`)
    for (const name of this.#files) fs.writeFileSync(path.join(this.#tree, name), '')
  }

  get #tree(): string {
    return path.join(this.#root, 'tree')
  }

  get #state(): string {
    return path.join(this.#root, 'state')
  }

  /** One agent, which begins again with the rest of its edits whenever it was killed. */
  async play(name: string): Promise<void> {
    let left = Math.ceil(this.#play.edits / 2)
    for (let life = 1; left > 0; life += 1) {
      left -= await this.#live({ name, edits: left, seed: life * (name === 'ada' ? 7 : 11) })
    }
  }

  async #live(who: Pick<AgentTask, 'name' | 'edits' | 'seed'>): Promise<number> {
    const task: AgentTask = {
      ...who,
      ...{ tree: this.#tree, state: this.#state, holds: path.join(this.#root, 'holds') },
      ...{ files: this.#files, editsPerSession: this.#play.editsPerSession },
      ...{ tenure: this.#play.hasHooks ? MAIN : null },
    }
    const child = spawn(process.execPath, [AGENT, JSON.stringify(task)], {
      detached: true,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = once(child, 'close')
    let edits = 0
    let session = ''
    for await (const line of createInterface({ input: child.stdout })) {
      const report = JSON.parse(line) as AgentReport
      this.#reports.push(report)
      if (report.kind === 'session') session = report.session
      if (report.kind === 'edited') edits += 1
      if (report.kind === 'edited' && edits === this.#play.killEvery) this.#kill(child)
    }
    await ended
    if (child.signalCode !== null) this.#bury(session)
    return edits
  }

  /** The agent and the hook that it may be waiting for. */
  #kill(child: ChildProcess): void {
    if (child.pid === undefined) return
    this.#kills += 1
    process.kill(-child.pid, 'SIGKILL')
  }

  /** What the client of a killed agent does when it finds its session again: it ends it. */
  #bury(session: string): void {
    const holds = path.join(this.#root, 'holds')
    for (const name of fs.readdirSync(holds)) {
      const file = path.join(holds, name)
      if (fs.readFileSync(file, 'utf8') === session) fs.rmSync(file)
    }
    if (!this.#play.hasHooks) return
    const event = { session_id: session, cwd: this.#tree, hook_event_name: 'SessionEnd' }
    this.#tenure(['hook', 'claude'], JSON.stringify(event))
  }

  #tenure(args: readonly string[], input = ''): string {
    const env = { ...process.env, XDG_STATE_HOME: this.#state }
    const options = { cwd: this.#tree, input, env, encoding: 'utf8' } as const
    const { stdout, stderr, status } = spawnSync(process.execPath, [MAIN, ...args], options)
    if (status !== 0) this.#reports.push({ kind: 'broken', output: `${args.join(' ')} ${stderr}` })
    return stdout
  }

  outcome(): Outcome {
    const texts = new Map(
      this.#files.map((name) => [name, fs.readFileSync(path.join(this.#tree, name), 'utf8')]),
    )
    const edited = this.#reports.filter((report) => report.kind === 'edited')
    const memories = path.join(this.#state, 'tenure/hooks')
    return {
      edits: edited.length,
      kills: this.#kills,
      denials: this.#reports.flatMap((report) => (report.kind === 'denied' ? [report.reason] : [])),
      tramplings: this.#reports.filter(({ kind }) => kind === 'trampled').length,
      lost: edited.filter(({ file, line }) => !texts.get(file)?.includes(`${line}\n`)).length,
      broken: this.#reports.flatMap((report) => (report.kind === 'broken' ? [report.output] : [])),
      leases: this.#play.hasHooks ? this.#leases() : 0,
      memories: fs.existsSync(memories) ? fs.readdirSync(memories).length : 0,
    }
  }

  #leases(): number {
    const { leases } = JSON.parse(this.#tenure(['ls', '--json'])) as { leases: readonly unknown[] }
    return leases.length
  }
}
