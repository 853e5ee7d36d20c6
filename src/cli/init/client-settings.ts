/**
 * Which file tells a coding agent's client to ask Tenure, and what must be in it. Events of one client and of another differ
 * in name only: a session begins and ends, a subagent ends, a tool is about to be used and was used.
 */
import { shellWord } from '../output.ts'
import type { HookEntries, IsOwnHook } from './hook-settings.ts'

export interface ClientSettings {
  /** From the top of the worktree. */
  readonly file: string
  /** What a file that is made has beside the hooks. */
  readonly head: Readonly<Record<string, unknown>>
  /** `command`: the words that call `tenure`. */
  readonly entries: (command: readonly string[]) => HookEntries
  /** The event before a tool is used: the one that can be denied. */
  readonly before: string
  /** Something before which the hook is called, on a file. */
  readonly trial: (file: string, cwd: string) => Readonly<Record<string, unknown>>
}

/** Far more than a hook takes, which ends by itself after five seconds. */
const TIMEOUT_SECONDS = 10
const TIMEOUT_MS = 10_000

const TRIAL = { session_id: 'tenure-doctor' } as const

/** The groups of those clients that have them; a matcher goes with events of tools only. */
function groups(
  events: Readonly<Record<string, string | null>>,
  hook: (event: string) => Readonly<Record<string, unknown>>,
): HookEntries {
  const entries = Object.entries(events).map(([event, matcher]) => {
    const hooks = [hook(event)]
    return [event, matcher === null ? { hooks } : { matcher, hooks }]
  })
  return Object.fromEntries(entries) as HookEntries
}

/** One line of shell. */
function shellLine(command: readonly string[], client: string): string {
  return [...command, 'hook', client].map(shellWord).join(' ')
}

/** Tools that read are asked about before only: what an agent has read must not have changed when it edits. */
const CLAUDE_WRITES = 'Edit|Write|NotebookEdit|Bash'
const CODEX_TOOLS = 'apply_patch|Bash|shell'
const GEMINI_WRITES = 'write_file|replace|edit|run_shell_command'
const CURSOR_WRITES = 'Write|Edit|StrReplace|Delete|Shell'

const claude: ClientSettings = {
  file: '.claude/settings.json',
  head: {},
  before: 'PreToolUse',
  entries: ([program = '', ...words]) => {
    const events = {
      SessionStart: null,
      PreToolUse: `Read|${CLAUDE_WRITES}|mcp__tenure__.*`,
      PostToolUse: CLAUDE_WRITES,
      PostToolUseFailure: CLAUDE_WRITES,
      SubagentStop: null,
      SessionEnd: null,
    }
    return groups(events, (event) => ({
      ...{ type: 'command', command: program, args: [...words, 'hook', 'claude'] },
      timeout: TIMEOUT_SECONDS,
      ...(event === 'PreToolUse' ? { onFailure: 'block' } : {}),
    }))
  },
  trial: (file, cwd) => ({
    ...{ ...TRIAL, cwd, transcript_path: '', hook_event_name: 'PreToolUse', tool_use_id: 'trial' },
    ...{ tool_name: 'Write', tool_input: { file_path: file, content: '' } },
  }),
}

const codex: ClientSettings = {
  file: '.codex/hooks.json',
  head: {},
  before: 'PreToolUse',
  entries: (words) => {
    const events = { SessionStart: null, PreToolUse: CODEX_TOOLS, PostToolUse: CODEX_TOOLS }
    const command = shellLine(words, 'codex')
    return groups(events, () => ({ type: 'command', command, timeout: TIMEOUT_SECONDS }))
  },
  trial: (file, cwd) => {
    const command = `*** Begin Patch\n*** Update File: ${file}\n@@\n-held\n+changed\n*** End Patch\n`
    const event = { ...TRIAL, cwd, hook_event_name: 'PreToolUse', tool_use_id: 'trial' }
    return { ...event, tool_name: 'apply_patch', tool_input: { command } }
  },
}

const gemini: ClientSettings = {
  file: '.gemini/settings.json',
  head: {},
  before: 'BeforeTool',
  entries: (words) => {
    const tools = { BeforeTool: `read_file|${GEMINI_WRITES}`, AfterTool: GEMINI_WRITES }
    const command = shellLine(words, 'gemini')
    return groups({ SessionStart: null, ...tools, SessionEnd: null }, () => ({
      ...{ name: 'tenure', type: 'command', command, timeout: TIMEOUT_MS },
    }))
  },
  trial: (file, cwd) => ({
    ...{ ...TRIAL, cwd, hook_event_name: 'BeforeTool' },
    ...{ tool_name: 'write_file', tool_input: { file_path: file, content: '' } },
  }),
}

const cursor: ClientSettings = {
  file: '.cursor/hooks.json',
  head: { version: 1 },
  before: 'preToolUse',
  entries: (words) => {
    const hook = { command: shellLine(words, 'cursor'), timeout: TIMEOUT_SECONDS }
    return {
      sessionStart: hook,
      preToolUse: { ...hook, matcher: `Read|${CURSOR_WRITES}`, failClosed: true },
      postToolUse: { ...hook, matcher: CURSOR_WRITES },
      subagentStop: hook,
      sessionEnd: hook,
    }
  },
  trial: (file, cwd) => ({
    ...{ conversation_id: 'tenure-doctor', workspace_roots: [cwd], hook_event_name: 'preToolUse' },
    ...{ tool_name: 'Write', tool_input: { file_path: file } },
  }),
}

const copilot: ClientSettings = {
  file: '.github/hooks/tenure.json',
  head: { version: 1 },
  before: 'preToolUse',
  entries: (words) => {
    const line = shellLine(words, 'copilot')
    const hook = { type: 'command', bash: line, powershell: line, timeoutSec: TIMEOUT_SECONDS }
    return { sessionStart: hook, preToolUse: hook, postToolUse: hook, sessionEnd: hook }
  },
  trial: (file, cwd) => {
    const toolArgs = JSON.stringify({ path: file, old_str: 'held', new_str: 'changed' })
    return { sessionId: 'tenure-doctor', timestamp: 0, cwd, toolName: 'edit', toolArgs }
  },
}

export const CLIENT_SETTINGS: Readonly<Record<string, ClientSettings>> = {
  claude,
  codex,
  gemini,
  cursor,
  copilot,
}

/** Of whatever version, and by whatever path it calls the program. */
export function isOwnHook(client: string): IsOwnHook {
  const call = new RegExp(`(?:^|[\\s/'"])(?:tenure|main\\.js)['"]?\\s+hook\\s+${client}$`)
  return (hook) => call.test(commandOf(hook).join(' '))
}

/** How the client starts the hook: its words, or one line for a shell. */
export function commandOf(hook: Readonly<Record<string, unknown>>): readonly string[] {
  const { command, bash, args } = hook
  const words = [command ?? bash, ...(Array.isArray(args) ? (args as readonly unknown[]) : [])]
  return words.filter((word) => typeof word === 'string')
}
