/** Coding agents in one checkout: events as their clients send them, on a store whose time moves when the test says so. */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, onTestFinished } from 'vitest'
import { answerHook, type HookAnswer, type HookQuestion } from '../../src/hooks/answer-hook.ts'
import type { HookStore } from '../../src/hooks/hook-run.ts'
import { canonicalPath } from '../../src/runtime/file-system.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

export interface World {
  readonly root: string
  readonly api: LeaseApi
  readonly runtime: FakeRuntime
  readonly memoryDirectory: string
  file(name: string): string
  write(name: string, text: string): void
  git(...args: readonly string[]): string
  /** An agent of Claude Code: a session, and in it the main agent or a subagent. */
  claude(session: string, agent?: string): ClaudeAgent
  /** Any event of any client. */
  send(client: HookQuestion['client'], input: unknown, change?: Change): Promise<HookAnswer>
  /** From now on the store cannot be asked. */
  breakStore(error: Error): void
  /** From now on the store never answers. */
  hangStore(): void
  forgetStore(): void
}

export interface Change {
  readonly holder?: string
  readonly bytes?: Uint8Array
  readonly input?: Promise<Uint8Array>
}

export interface Reaction {
  /** Why it was denied; null if it was not. */
  readonly denied: string | null
  readonly told: string | null
  readonly answer: HookAnswer
}

export interface ClaudeAgent {
  event(name: string, more?: object): Promise<Reaction>
  before(tool: string, input: object): Promise<Reaction>
  after(tool: string, input: object): Promise<Reaction>
  edit(name: string): Promise<Reaction>
  read(name: string): Promise<Reaction>
  /** Before it runs. */
  shell(command: string): Promise<Reaction>
  /** After it has run. */
  ran(command: string): Promise<Reaction>
}

function gitIn(cwd: string, args: readonly string[]): string {
  const who = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.org']
  return execFileSync('git', [...who, ...args], { cwd, encoding: 'utf8' })
}

/** A checkout with one commit, made once and copied for each test. */
const TEMPLATE = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-hooks-template-'))
fs.mkdirSync(path.join(TEMPLATE, 'src'))
fs.writeFileSync(path.join(TEMPLATE, 'src/a.ts'), 'a\n')
fs.writeFileSync(path.join(TEMPLATE, 'src/b.ts'), 'b\n')
gitIn(TEMPLATE, ['init', '-q', '--template='])
gitIn(TEMPLATE, ['add', '-A'])
gitIn(TEMPLATE, ['commit', '-qm', 'begin'])
afterAll(() => fs.rmSync(TEMPLATE, { recursive: true, force: true }))

export function world(): World {
  const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-hooks-')))
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }))
  const tree = path.join(root, 'repo')
  const memoryDirectory = path.join(root, 'state')
  const runtime = new FakeRuntime({ canonicalPath, wallMs: Date.UTC(2026, 0, 1, 12) })
  const api = new LeaseService({ store: new MemoryStore({ ticks: runtime.ticks }), runtime })
  let broken: Error | null = null
  let hangs = false
  let isMade = true
  const open = async (): Promise<LeaseApi> => {
    if (broken !== null) throw broken
    if (hangs) return new Promise<never>(() => undefined)
    isMade = true
    return openOf(api)
  }
  const store: HookStore = {
    key: 'store',
    get isMade() {
      return isMade
    },
    open,
    look: open,
  }
  const send: World['send'] = (client, event, { holder, bytes, input } = {}) => {
    return answerHook({
      client,
      input: input ?? Promise.resolve(bytes ?? Buffer.from(JSON.stringify(event))),
      holder: holder ?? null,
      variables: {},
      host: {
        ...{ runtime, memoryDirectory, projectDirectory: null, cwd: tree, processId: 7 },
        storeOf: () => store,
      },
    })
  }
  fs.cpSync(TEMPLATE, tree, { recursive: true })
  const write = (name: string, text: string): void => {
    fs.writeFileSync(path.join(tree, name), text)
  }
  const git = (...args: readonly string[]): string => gitIn(tree, args)
  return {
    ...{ root: tree, api, runtime, memoryDirectory, write, git, send },
    file: (name) => path.join(tree, name),
    claude: (session, agent) => claudeAgent({ send, tree }, session, agent),
    breakStore: (error) => {
      broken = error
    },
    hangStore: () => {
      hangs = true
    },
    forgetStore: () => {
      isMade = false
    },
  }
}

/** The hook closes what it has opened; the test goes on with it. */
function openOf(api: LeaseApi): LeaseApi {
  return new Proxy(api, {
    get: (target, name) => {
      if (name === 'close') return () => Promise.resolve()
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

interface Place {
  readonly send: World['send']
  readonly tree: string
}

function claudeAgent({ send, tree }: Place, session: string, agent?: string): ClaudeAgent {
  const event: ClaudeAgent['event'] = async (name, more = {}) => {
    const who = agent === undefined ? {} : { agent_id: agent, agent_type: 'general-purpose' }
    const common = { session_id: session, transcript_path: '/t.jsonl', cwd: tree }
    const answer = await send('claude', { ...common, hook_event_name: name, ...who, ...more })
    return reactionOf(answer)
  }
  const call = (tool: string, input: object): object => {
    return { tool_name: tool, tool_input: input, tool_use_id: `toolu_${tool}` }
  }
  const before: ClaudeAgent['before'] = (tool, input) => event('PreToolUse', call(tool, input))
  const after: ClaudeAgent['after'] = (tool, input) => {
    return event('PostToolUse', { ...call(tool, input), tool_response: {} })
  }
  const at = (name: string): object => ({ file_path: path.join(tree, name) })
  return {
    ...{ event, before, after },
    edit: (name) => before('Edit', { ...at(name), old_string: 'a', new_string: 'b' }),
    read: (name) => before('Read', at(name)),
    shell: (command) => before('Bash', { command }),
    ran: (command) => after('Bash', { command }),
  }
}

interface ClaudeOutput {
  readonly hookSpecificOutput?: {
    readonly permissionDecision?: string
    readonly permissionDecisionReason?: string
    readonly additionalContext?: string
  }
}

function reactionOf(answer: HookAnswer): Reaction {
  const { stdout } = answer
  if (!stdout.startsWith('{')) return { denied: null, told: stdout.trim() || null, answer }
  const { hookSpecificOutput = {} } = JSON.parse(stdout) as ClaudeOutput
  const { permissionDecision, permissionDecisionReason, additionalContext } = hookSpecificOutput
  const denied = permissionDecision === 'deny' ? (permissionDecisionReason ?? '') : null
  return { denied, told: additionalContext ?? null, answer }
}
