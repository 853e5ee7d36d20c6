/**
 * A process that does what a client with a coding agent does: it reads and edits files of a checkout and calls `tenure hook
 * claude` before and after, as the client would, with events on stdin. It ends a session every few edits and begins another.
 *
 * From the first edit of a file to the end of its session the agent counts on being alone. A file in `holds/` says so to
 * the other agents of the test, which have nothing to do with Tenure: who finds another's there has trampled.
 */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export interface AgentTask {
  readonly name: string
  readonly tree: string
  readonly state: string
  readonly holds: string
  readonly files: readonly string[]
  readonly edits: number
  readonly editsPerSession: number
  readonly seed: number
  /** Null: the agent works without hooks. */
  readonly tenure: string | null
}

export type AgentReport =
  | { readonly kind: 'session'; readonly session: string }
  | { readonly kind: 'edited'; readonly file: string; readonly line: string }
  | { readonly kind: 'denied'; readonly reason: string }
  | { readonly kind: 'trampled'; readonly file: string; readonly other: string }
  | { readonly kind: 'broken'; readonly output: string }

/** So long an edit takes: time for another to come between its reading and its writing. */
const EDIT_MS = 5

class ScriptedAgent {
  readonly #task: AgentTask
  #random: number
  #sessions = 0
  #session = ''
  #edits = 0

  constructor(task: AgentTask) {
    this.#task = task
    this.#random = task.seed
  }

  async run(): Promise<void> {
    const { edits, editsPerSession } = this.#task
    while (this.#edits < edits) {
      this.#begin()
      for (let left = editsPerSession; left > 0 && this.#edits < edits; left -= 1)
        await this.#edit()
      this.#end()
    }
  }

  #begin(): void {
    this.#sessions += 1
    this.#session = `${this.#task.name}-${process.pid}-${this.#sessions}`
    report({ kind: 'session', session: this.#session })
    this.#hook('SessionStart', { source: 'startup' })
  }

  #end(): void {
    const { holds } = this.#task
    for (const name of fs.readdirSync(holds)) {
      const file = path.join(holds, name)
      if (holderIn(file) === this.#session) fs.rmSync(file, { force: true })
    }
    this.#hook('SessionEnd', { reason: 'other' })
  }

  async #edit(): Promise<void> {
    const { tree, files } = this.#task
    const name = files[Math.floor(this.#next() * files.length)] ?? ''
    const file_path = path.join(tree, name)
    this.#hook('PreToolUse', { tool_name: 'Read', tool_input: { file_path } })
    const call = { tool_name: 'Edit', tool_input: { file_path, old_string: '', new_string: '' } }
    const denied = this.#hook('PreToolUse', call)
    if (denied !== null) {
      // Changed between reading and asking: the agent reads it again, some time later.
      if (!denied.includes('read it again before you edit it')) {
        report({ kind: 'denied', reason: denied })
      }
      return
    }
    this.#claim(name)
    this.#edits += 1
    const line = `${this.#session} ${this.#edits}`
    await appendLine(file_path, line)
    report({ kind: 'edited', file: name, line })
    this.#hook('PostToolUse', { ...call, tool_response: {} })
  }

  #claim(name: string): void {
    const file = path.join(this.#task.holds, name)
    try {
      fs.writeFileSync(file, this.#session, { flag: 'wx' })
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
      const other = holderIn(file)
      if (other !== this.#session) report({ kind: 'trampled', file: name, other: other ?? '' })
    }
  }

  /** Why the call is denied; null if it is not. */
  #hook(hook_event_name: string, more: object): string | null {
    const { tenure, tree, state } = this.#task
    if (tenure === null) return null
    const event = { session_id: this.#session, cwd: tree, hook_event_name, ...more }
    const { stdout, stderr, status } = spawnSync(process.execPath, [tenure, 'hook', 'claude'], {
      cwd: tree,
      input: JSON.stringify(event),
      encoding: 'utf8',
      env: { ...process.env, XDG_STATE_HOME: state },
    })
    if (status !== 0 || stderr !== '') report({ kind: 'broken', output: `${status} ${stderr}` })
    if (!stdout.startsWith('{')) return null
    const { hookSpecificOutput } = JSON.parse(stdout) as {
      readonly hookSpecificOutput: { readonly permissionDecisionReason?: string }
    }
    return hookSpecificOutput.permissionDecisionReason ?? null
  }

  #next(): number {
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0
    return this.#random / 4_294_967_296
  }
}

/** Reads all, and writes all a little later, as editors do. The new content is there at once or not at all. */
async function appendLine(file: string, line: string): Promise<void> {
  const text = fs.readFileSync(file, 'utf8')
  await sleep(EDIT_MS)
  const fresh = `${file}.${process.pid}`
  fs.writeFileSync(fresh, `${text}${line}\n`)
  fs.renameSync(fresh, file)
}

function holderIn(file: string): string | null {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}

function report(line: AgentReport): void {
  fs.writeSync(1, `${JSON.stringify(line)}\n`)
}

const [task] = process.argv.slice(2)
if (task !== undefined) await new ScriptedAgent(JSON.parse(task) as AgentTask).run()
