/**
 * The clients of coding agents: what they tell a hook and what it answers, in one form for all of them, and how each of them
 * says it, which is known here alone. Most is a table; what a client does differently is a function beside it.
 */
import { invalid } from '../core/errors.ts'
import { parseJson } from '../runtime/json-text.ts'
import { quoted } from './hook-words.ts'
import { applyPatchPaths } from './patch-paths.ts'

export const CLIENTS = ['claude', 'codex', 'gemini', 'cursor', 'copilot'] as const
export type Client = (typeof CLIENTS)[number]

/** What the agent is about to do, or has done. */
type HookAct =
  | { readonly kind: 'edit'; readonly tool: string; readonly paths: readonly string[] }
  | { readonly kind: 'read'; readonly paths: readonly string[] }
  | { readonly kind: 'shell'; readonly command: string }
  /** A call of Tenure's own tools, which name a holder. */
  | { readonly kind: 'lease_tool'; readonly tool: string; readonly input: JsonObject }
  | { readonly kind: 'other' }

type HookMoment = 'session_start' | 'before' | 'after' | 'agent_end' | 'session_end' | 'other'

export interface HookEvent {
  readonly client: Client
  readonly moment: HookMoment
  /** As the client calls it; some answers must repeat it. */
  readonly name: string
  readonly session: string
  /** Null: the session's main agent. */
  readonly agent: string | null
  readonly cwd: string
  /** Of the call, the same before and after it; null where the client names none. */
  readonly callId: string | null
  readonly act: HookAct
  /** After a call: it came to nothing, as far as the client knows. */
  readonly hasFailed: boolean
}

export type HookDecision =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'deny'; readonly reason: string }
  | { readonly kind: 'tell'; readonly text: string }
  /** The call goes on with this input instead. */
  | { readonly kind: 'input'; readonly input: JsonObject }

/** What is known where an event does not say it. */
export interface EventHost {
  readonly cwd: string
  /** For clients that name no session. */
  readonly processId: number
}

export type JsonObject = Readonly<Record<string, unknown>>

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What every event says, as far as it says it. */
type Facts = Omit<HookEvent, 'client' | 'moment' | 'act'>

interface ClientForm {
  readonly moments: Readonly<Record<string, HookMoment>>
  readonly facts: (input: JsonObject, host: EventHost) => Facts
  readonly act: (input: JsonObject, name: string) => HookAct
  /** Whether text can be told to the model at this event. */
  readonly hears: (event: HookEvent) => boolean
  readonly deny: (reason: string, name: string) => JsonObject
  readonly tell: (text: string, event: HookEvent) => JsonObject | string
  /** What a call goes on with instead; without it, it goes on as it was. */
  readonly replace?: (input: JsonObject, name: string) => JsonObject
}

const FORMS: Readonly<Record<Client, ClientForm>> = {
  // `agent_id` is there inside of a subagent only.
  claude: {
    moments: {
      SessionStart: 'session_start',
      PreToolUse: 'before',
      PostToolUse: 'after',
      PostToolUseFailure: 'after',
      SubagentStop: 'agent_end',
      SessionEnd: 'session_end',
    },
    facts(input, host) {
      const hasFailed = input['hook_event_name'] === 'PostToolUseFailure'
      return { ...commonFacts(input, host), hasFailed }
    },
    act: claudeAct,
    hears: ({ moment }) => ['session_start', 'before', 'after'].includes(moment),
    deny: denyPermission,
    tell: (text, { name, moment }) => (moment === 'session_start' ? text : addContext(text, name)),
    replace: (updatedInput, name) => hookOutput(name, { updatedInput }),
  },
  // It refuses answers with fields that it does not know, so that before a call nothing can be told but a denial. It has no
  // event for the end of a session.
  codex: {
    moments: { SessionStart: 'session_start', PreToolUse: 'before', PostToolUse: 'after' },
    facts: commonFacts,
    act: codexAct,
    hears: hearsAfterwards,
    deny: denyPermission,
    tell: (text, { name, moment }) => (moment === 'session_start' ? text : addContext(text, name)),
  },
  // A denial is `decision`; before a call nothing else reaches the model.
  gemini: {
    moments: {
      SessionStart: 'session_start',
      BeforeTool: 'before',
      AfterTool: 'after',
      SessionEnd: 'session_end',
    },
    facts: commonFacts,
    act: geminiAct,
    hears: hearsAfterwards,
    deny: (reason) => ({ decision: 'deny', reason }),
    tell: (text, { name }) => addContext(text, name),
  },
  // `beforeShellExecution` has its command beside the common fields; `afterFileEdit` cannot deny.
  cursor: {
    moments: {
      sessionStart: 'session_start',
      preToolUse: 'before',
      beforeShellExecution: 'before',
      beforeReadFile: 'before',
      postToolUse: 'after',
      afterFileEdit: 'after',
      afterShellExecution: 'after',
      subagentStop: 'agent_end',
      sessionEnd: 'session_end',
    },
    facts: cursorFacts,
    act: cursorAct,
    hears: ({ name }) => name === 'sessionStart' || name === 'postToolUse',
    deny: (reason) => ({ permission: 'deny', user_message: reason, agent_message: reason }),
    tell: (text) => ({ additional_context: text }),
  },
  // Its events are told apart by their fields where none is named, and the arguments of a tool come as JSON in a text or as
  // an object. Where no session is named, the process that runs the hook stands for it.
  copilot: {
    moments: {
      sessionStart: 'session_start',
      preToolUse: 'before',
      postToolUse: 'after',
      subagentStop: 'agent_end',
      sessionEnd: 'session_end',
    },
    facts: copilotFacts,
    act: copilotAct,
    hears: hearsAfterwards,
    deny: (reason) => ({ permissionDecision: 'deny', permissionDecisionReason: reason }),
    tell: (text) => ({ additionalContext: text }),
  },
}

/** Throws `INVALID_INPUT` for what is no event of the client. */
export function readEvent(client: Client, input: JsonObject, host: EventHost): HookEvent {
  const { moments, facts, act } = FORMS[client]
  const told = facts(input, host)
  const moment = moments[told.name] ?? 'other'
  return { client, ...told, moment, act: act(input, told.name) }
}

/** Whether text can be told to the model at this event. */
export function hearsText(event: HookEvent): boolean {
  return FORMS[event.client].hears(event)
}

/** What is printed; empty for nothing. Never a permission: the client's own questions to its user stay. */
export function answerText(event: HookEvent, decision: HookDecision): string {
  const { deny, tell, replace } = FORMS[event.client]
  switch (decision.kind) {
    case 'nothing':
      return ''
    case 'deny':
      return JSON.stringify(deny(decision.reason, event.name))
    case 'input':
      return replace === undefined ? '' : JSON.stringify(replace(decision.input, event.name))
    case 'tell': {
      const told = tell(decision.text, event)
      return typeof told === 'string' ? told : JSON.stringify(told)
    }
  }
}

/** What the clients that call their fields alike tell of every event. */
function commonFacts(input: JsonObject, host: EventHost): Facts {
  return {
    name: requireText(input, 'hook_event_name'),
    session: requireText(input, 'session_id'),
    agent: textOf(input, 'agent_id'),
    cwd: textOf(input, 'cwd') ?? host.cwd,
    callId: textOf(input, 'tool_use_id'),
    hasFailed: false,
  }
}

function hearsAfterwards({ moment }: HookEvent): boolean {
  return moment === 'session_start' || moment === 'after'
}

function hookOutput(hookEventName: string, rest: JsonObject): JsonObject {
  return { hookSpecificOutput: { hookEventName, ...rest } }
}

function denyPermission(permissionDecisionReason: string, name: string): JsonObject {
  return hookOutput(name, { permissionDecision: 'deny', permissionDecisionReason })
}

function addContext(additionalContext: string, name: string): JsonObject {
  return hookOutput(name, { additionalContext })
}

const OTHER: HookAct = { kind: 'other' }

/** What a client calls its tools, and the arguments that name a file; the first that is there counts. */
interface Tools {
  readonly edit: readonly string[]
  readonly read: readonly string[]
  readonly shell: readonly string[]
  readonly path: readonly string[]
}

interface ToolCall {
  readonly tool: string
  readonly input: JsonObject
}

function actOf({ tool, input }: ToolCall, { edit, read, shell, path }: Tools): HookAct {
  if (edit.includes(tool)) return editOf(tool, input, ...path)
  if (read.includes(tool)) return readOf(input, ...path)
  return shell.includes(tool) ? shellOf(input) : OTHER
}

const OWN_TOOLS = 'mcp__tenure__'
const CLAUDE_TOOLS: Tools = {
  ...{ edit: ['Edit', 'MultiEdit', 'Write'], read: ['Read'], shell: ['Bash'] },
  path: ['file_path'],
}

function claudeAct(event: JsonObject): HookAct {
  const { tool, input } = callOf(event)
  if (tool === 'NotebookEdit') return editOf(tool, input, 'notebook_path')
  if (!tool.startsWith(OWN_TOOLS)) return actOf({ tool, input }, CLAUDE_TOOLS)
  return { kind: 'lease_tool', tool: tool.slice(OWN_TOOLS.length), input }
}

/** Edits come as `apply_patch`, on its own or inside of a shell command. */
function codexAct(event: JsonObject): HookAct {
  const { tool, input } = callOf(event)
  if (tool !== 'Bash' && tool !== 'shell' && tool !== 'apply_patch') return OTHER
  const words = input['command']
  const line = Array.isArray(words) ? lineOf(words, tool) : null
  const command = requireText(line === null ? input : { command: line }, 'command', 'input')
  if (tool !== 'apply_patch') return { kind: 'shell', command }
  const paths = applyPatchPaths(command)
  if (paths.length > 0) return { kind: 'edit', tool, paths }
  throw invalid('command', 'must be a patch that names its files', command)
}

/** The script of `bash -lc` and the patch of `apply_patch` are the last word; all others make a line of shell. */
function lineOf(words: readonly unknown[], tool: string): string | null {
  const texts = words.filter((word) => typeof word === 'string')
  if (texts.length < words.length) return null
  const isLast = tool === 'apply_patch' || /^-[a-z]*c$/.test(texts.at(-2) ?? '')
  return isLast ? (texts.at(-1) ?? null) : texts.map(quoted).join(' ')
}

const GEMINI_TOOLS: Tools = {
  ...{ edit: ['write_file', 'replace', 'edit'], read: ['read_file'], shell: ['run_shell_command'] },
  path: ['file_path', 'absolute_path', 'path'],
}

function geminiAct(event: JsonObject): HookAct {
  return actOf(callOf(event), GEMINI_TOOLS)
}

function cursorFacts(input: JsonObject, host: EventHost): Facts {
  const roots = input['workspace_roots']
  const root: unknown = Array.isArray(roots) ? roots[0] : undefined
  return {
    name: requireText(input, 'hook_event_name'),
    session: requireText(input, 'conversation_id', 'session_id'),
    agent: textOf(input, 'subagent_id'),
    cwd: textOf(input, 'cwd') ?? textOf({ root }, 'root') ?? host.cwd,
    callId: textOf(input, 'tool_use_id'),
    hasFailed: false,
  }
}

const CURSOR_TOOLS: Tools = {
  ...{ edit: ['Write', 'Edit', 'StrReplace', 'Delete'], read: ['Read'], shell: ['Shell'] },
  path: ['file_path', 'path', 'target_file'],
}

function cursorAct(event: JsonObject, name: string): HookAct {
  if (name === 'afterFileEdit') return editOf('Edit', event, 'file_path')
  if (name === 'beforeReadFile') return readOf(event, 'file_path')
  return name.endsWith('ShellExecution') ? shellOf(event) : actOf(callOf(event), CURSOR_TOOLS)
}

function copilotFacts(input: JsonObject, host: EventHost): Facts {
  return {
    name: textOf(input, 'hookEventName', 'hook_event_name') ?? copilotName(input),
    session: textOf(input, 'sessionId', 'session_id') ?? `process-${host.processId}`,
    agent: textOf(input, 'agentId', 'agent_id'),
    cwd: textOf(input, 'cwd') ?? host.cwd,
    callId: textOf(input, 'toolCallId', 'tool_use_id'),
    hasFailed: false,
  }
}

function copilotName(input: JsonObject): string {
  if ('toolResult' in input) return 'postToolUse'
  if ('toolName' in input) return 'preToolUse'
  if ('source' in input || 'initialPrompt' in input) return 'sessionStart'
  if ('reason' in input) return 'sessionEnd'
  throw invalid('event', 'must be one of Copilot CLI, with toolName, source or reason', input)
}

const COPILOT_TOOLS: Tools = {
  ...{ edit: ['edit', 'create', 'write', 'str_replace_editor'], read: ['view'] },
  ...{ shell: ['bash', 'shell', 'powershell'], path: ['path', 'file_path', 'filePath'] },
}

/** The tools that edit also show a file, if that is their command. */
function copilotAct(event: JsonObject): HookAct {
  const name = textOf(event, 'toolName', 'tool_name') ?? ''
  const input = copilotArguments(event['toolArgs'] ?? event['tool_input'])
  const isView = COPILOT_TOOLS.edit.includes(name) && input['command'] === 'view'
  return actOf({ tool: isView ? 'view' : name, input }, COPILOT_TOOLS)
}

function copilotArguments(given: unknown): JsonObject {
  if (typeof given !== 'string') return objectOf(given)
  const parsed = parseJson(given)
  if (isObject(parsed)) return parsed
  throw invalid('toolArgs', 'must be a JSON object', given)
}

/** A tool and its arguments, as most clients call them. */
function callOf(event: JsonObject): ToolCall {
  return { tool: textOf(event, 'tool_name') ?? '', input: objectOf(event['tool_input']) }
}

function editOf(tool: string, input: JsonObject, ...names: readonly string[]): HookAct {
  return { kind: 'edit', tool, paths: [requireText(input, ...names)] }
}

/** Reading is never denied, not even of what cannot be told. */
function readOf(input: JsonObject, ...names: readonly string[]): HookAct {
  const path = textOf(input, ...names)
  return path === null ? OTHER : { kind: 'read', paths: [path] }
}

function shellOf(input: JsonObject): HookAct {
  return { kind: 'shell', command: requireText(input, 'command') }
}

function objectOf(value: unknown): JsonObject {
  return isObject(value) ? value : {}
}

/** The first of these fields that is a text with something in it. */
function textOf(input: JsonObject, ...names: readonly string[]): string | null {
  for (const name of names) {
    const value = input[name]
    if (typeof value === 'string' && value !== '') return value
  }
  return null
}

function requireText(input: JsonObject, ...names: readonly string[]): string {
  const text = textOf(input, ...names)
  if (text === null) throw invalid(names.join(' or '), 'must be a text', input[names[0] ?? ''])
  return text
}
