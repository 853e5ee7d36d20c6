/** One event of each kind that the clients send, in their own form, and what it means. */
import type { Client, HookEvent, JsonObject } from '../../src/hooks/hook-clients.ts'

export interface RecordedEvent {
  readonly client: Client
  readonly what: string
  readonly input: JsonObject
  readonly means: Partial<HookEvent>
}

const SESSION = '3f6c2b1e-5b0e-4f65-9a3b-0d7f6f1f2a11'

const CLAUDE = {
  session_id: SESSION,
  transcript_path: '/home/ada/.claude/projects/repo/3f6c2b1e.jsonl',
  cwd: '/repo',
  permission_mode: 'default',
}
const CLAUDE_CALL = { ...CLAUDE, tool_use_id: 'toolu_01ABC' }
const CODEX = {
  session_id: SESSION,
  turn_id: '2',
  transcript_path: null,
  cwd: '/repo',
  model: 'gpt-5.2-codex',
  permission_mode: 'default',
}
const GEMINI = {
  session_id: SESSION,
  transcript_path: '/home/ada/.gemini/tmp/x.json',
  cwd: '/repo',
  timestamp: '2026-11-01T12:00:00Z',
}
const CURSOR = {
  conversation_id: SESSION,
  generation_id: 'g-1',
  model: 'auto',
  cursor_version: '2.4.1',
  workspace_roots: ['/repo'],
  user_email: null,
}
const COPILOT = { timestamp: 1_794_000_000_000, cwd: '/repo', sessionId: SESSION }

const PATCH = `*** Begin Patch
*** Update File: src/a.ts
*** Move to: src/c.ts
@@
-x
+y
*** Add File: src/b.ts
+z
*** Delete File: src/d.ts
*** End Patch`
const PATCHED = ['src/a.ts', 'src/c.ts', 'src/b.ts', 'src/d.ts']

const claudeEvents: readonly Omit<RecordedEvent, 'client'>[] = [
  {
    what: 'a session begins',
    input: { ...CLAUDE, hook_event_name: 'SessionStart', source: 'startup', model: 'opus' },
    means: { moment: 'session_start', session: SESSION, agent: null, cwd: '/repo' },
  },
  {
    what: 'an edit is to come',
    input: {
      ...{ ...CLAUDE_CALL, hook_event_name: 'PreToolUse', tool_name: 'Edit' },
      tool_input: { file_path: '/repo/src/a.ts', old_string: 'x', new_string: 'y' },
    },
    means: {
      ...{ moment: 'before', callId: 'toolu_01ABC', agent: null },
      act: { kind: 'edit', tool: 'Edit', paths: ['/repo/src/a.ts'] },
    },
  },
  {
    what: 'a subagent is to write',
    input: {
      ...{ ...CLAUDE_CALL, hook_event_name: 'PreToolUse', tool_name: 'Write' },
      ...{ agent_id: 'a1b2c3d', agent_type: 'general-purpose' },
      tool_input: { file_path: '/repo/src/a.ts', content: 'x' },
    },
    means: {
      ...{ moment: 'before', agent: 'a1b2c3d' },
      act: { kind: 'edit', tool: 'Write', paths: ['/repo/src/a.ts'] },
    },
  },
  {
    what: 'a notebook is to be edited',
    input: {
      ...{ ...CLAUDE_CALL, hook_event_name: 'PreToolUse', tool_name: 'NotebookEdit' },
      tool_input: { notebook_path: '/repo/a.ipynb', new_source: 'x' },
    },
    means: { act: { kind: 'edit', tool: 'NotebookEdit', paths: ['/repo/a.ipynb'] } },
  },
  {
    what: 'a file is to be read',
    input: {
      ...{ ...CLAUDE_CALL, hook_event_name: 'PreToolUse', tool_name: 'Read' },
      tool_input: { file_path: '/repo/src/a.ts', limit: 50 },
    },
    means: { act: { kind: 'read', paths: ['/repo/src/a.ts'] } },
  },
  {
    what: 'a command is to run',
    input: {
      ...{ ...CLAUDE_CALL, hook_event_name: 'PreToolUse', tool_name: 'Bash' },
      tool_input: { command: 'npm test', description: 'Run tests', timeout: 120_000 },
    },
    means: { act: { kind: 'shell', command: 'npm test' } },
  },
  {
    what: 'an own tool is to be called',
    input: {
      ...{ ...CLAUDE_CALL, hook_event_name: 'PreToolUse', tool_name: 'mcp__tenure__lease_acquire' },
      tool_input: { resources: ['src/a.ts'] },
    },
    means: {
      act: { kind: 'lease_tool', tool: 'lease_acquire', input: { resources: ['src/a.ts'] } },
    },
  },
  {
    what: 'another tool is to be called',
    input: {
      ...{ ...CLAUDE_CALL, hook_event_name: 'PreToolUse', tool_name: 'WebSearch' },
      tool_input: { query: 'leases' },
    },
    means: { moment: 'before', act: { kind: 'other' } },
  },
  {
    what: 'a command has run',
    input: {
      ...{ ...CLAUDE_CALL, hook_event_name: 'PostToolUse', tool_name: 'Bash' },
      ...{ tool_input: { command: 'npm test' }, tool_response: { stdout: '', stderr: '' } },
    },
    means: { moment: 'after', hasFailed: false, act: { kind: 'shell', command: 'npm test' } },
  },
  {
    what: 'an edit has failed',
    input: {
      ...{ ...CLAUDE_CALL, hook_event_name: 'PostToolUseFailure', tool_name: 'Edit' },
      ...{ tool_input: { file_path: '/repo/src/a.ts' }, error: 'String to replace not found' },
    },
    means: { moment: 'after', hasFailed: true },
  },
  {
    what: 'a subagent ends',
    input: {
      ...CLAUDE,
      hook_event_name: 'SubagentStop',
      agent_id: 'a1b2c3d',
      stop_hook_active: false,
    },
    means: { moment: 'agent_end', agent: 'a1b2c3d' },
  },
  {
    what: 'the session ends',
    input: { ...CLAUDE, hook_event_name: 'SessionEnd', reason: 'prompt_input_exit' },
    means: { moment: 'session_end' },
  },
]

const codexEvents: readonly Omit<RecordedEvent, 'client'>[] = [
  {
    what: 'a session begins',
    input: { ...CODEX, hook_event_name: 'SessionStart', source: 'startup' },
    means: { moment: 'session_start', session: SESSION },
  },
  {
    what: 'a patch is to be applied',
    input: {
      ...{ ...CODEX, hook_event_name: 'PreToolUse', tool_name: 'apply_patch' },
      ...{ tool_use_id: 'call_1', tool_input: { command: PATCH } },
    },
    means: {
      ...{ moment: 'before', callId: 'call_1' },
      act: { kind: 'edit', tool: 'apply_patch', paths: PATCHED },
    },
  },
  {
    what: 'a patch inside of a command is to be applied',
    input: {
      ...{ ...CODEX, hook_event_name: 'PreToolUse', tool_name: 'Bash' },
      tool_input: { command: `apply_patch <<'EOF'\n${PATCH}\nEOF` },
    },
    means: { act: { kind: 'shell', command: `apply_patch <<'EOF'\n${PATCH}\nEOF` } },
  },
  {
    what: 'a command in words is to run',
    input: {
      ...{ ...CODEX, hook_event_name: 'PreToolUse', tool_name: 'shell' },
      tool_input: { command: ['bash', '-lc', 'ls'] },
    },
    means: { act: { kind: 'shell', command: 'ls' } },
  },
  {
    what: 'a program is to run without a shell',
    input: {
      ...{ ...CODEX, hook_event_name: 'PreToolUse', tool_name: 'shell' },
      tool_input: { command: ['rm', '-f', "src/it's.ts"] },
    },
    means: { act: { kind: 'shell', command: "rm -f 'src/it'\\''s.ts'" } },
  },
  {
    what: 'a command has run',
    input: {
      ...{ ...CODEX, hook_event_name: 'PostToolUse', tool_name: 'Bash' },
      ...{ tool_input: { command: 'ls' }, tool_response: 'a.ts' },
    },
    means: { moment: 'after', act: { kind: 'shell', command: 'ls' } },
  },
  {
    what: 'a turn ends, which is no end of the session',
    input: { ...CODEX, hook_event_name: 'Stop', stop_hook_active: false },
    means: { moment: 'other' },
  },
]

const geminiEvents: readonly Omit<RecordedEvent, 'client'>[] = [
  {
    what: 'a session begins',
    input: { ...GEMINI, hook_event_name: 'SessionStart', source: 'startup' },
    means: { moment: 'session_start', session: SESSION },
  },
  {
    what: 'a file is to be written',
    input: {
      ...{ ...GEMINI, hook_event_name: 'BeforeTool', tool_name: 'write_file' },
      tool_input: { file_path: '/repo/src/a.ts', content: 'x' },
    },
    means: {
      moment: 'before',
      act: { kind: 'edit', tool: 'write_file', paths: ['/repo/src/a.ts'] },
    },
  },
  {
    what: 'a text is to be replaced',
    input: {
      ...{ ...GEMINI, hook_event_name: 'BeforeTool', tool_name: 'replace' },
      tool_input: { file_path: 'src/a.ts', old_string: 'x', new_string: 'y' },
    },
    means: { act: { kind: 'edit', tool: 'replace', paths: ['src/a.ts'] } },
  },
  {
    what: 'a file is to be read',
    input: {
      ...{ ...GEMINI, hook_event_name: 'BeforeTool', tool_name: 'read_file' },
      tool_input: { absolute_path: '/repo/src/a.ts' },
    },
    means: { act: { kind: 'read', paths: ['/repo/src/a.ts'] } },
  },
  {
    what: 'a command has run',
    input: {
      ...{ ...GEMINI, hook_event_name: 'AfterTool', tool_name: 'run_shell_command' },
      ...{ tool_input: { command: 'ls' }, tool_response: { llmContent: 'a.ts' } },
    },
    means: { moment: 'after', act: { kind: 'shell', command: 'ls' } },
  },
  {
    what: 'the session ends',
    input: { ...GEMINI, hook_event_name: 'SessionEnd', reason: 'exit' },
    means: { moment: 'session_end' },
  },
]

const cursorEvents: readonly Omit<RecordedEvent, 'client'>[] = [
  {
    what: 'a session begins',
    input: { ...CURSOR, hook_event_name: 'sessionStart', session_id: SESSION },
    means: { moment: 'session_start', session: SESSION, cwd: '/repo' },
  },
  {
    what: 'a file is to be written',
    input: {
      ...{ ...CURSOR, hook_event_name: 'preToolUse', tool_name: 'Write', tool_use_id: 'c1' },
      ...{ tool_input: { file_path: '/repo/src/a.ts', content: 'x' }, cwd: '/repo' },
    },
    means: {
      ...{ moment: 'before', callId: 'c1' },
      act: { kind: 'edit', tool: 'Write', paths: ['/repo/src/a.ts'] },
    },
  },
  {
    what: 'a command is to run',
    input: {
      ...{ ...CURSOR, hook_event_name: 'beforeShellExecution' },
      ...{ command: 'rm src/a.ts', cwd: '/repo/packages/x' },
    },
    means: {
      ...{ moment: 'before', cwd: '/repo/packages/x' },
      act: { kind: 'shell', command: 'rm src/a.ts' },
    },
  },
  {
    what: 'a file was edited',
    input: {
      ...{ ...CURSOR, hook_event_name: 'afterFileEdit', file_path: '/repo/src/a.ts' },
      edits: [{ old_string: 'x', new_string: 'y' }],
    },
    means: { moment: 'after', act: { kind: 'edit', tool: 'Edit', paths: ['/repo/src/a.ts'] } },
  },
  {
    what: 'a tool was called',
    input: {
      ...{ ...CURSOR, hook_event_name: 'postToolUse', tool_name: 'Shell', tool_use_id: 'c2' },
      ...{ tool_input: { command: 'ls' }, tool_output: '{}', duration: 5 },
    },
    means: { moment: 'after', act: { kind: 'shell', command: 'ls' } },
  },
  {
    what: 'the session ends',
    input: { ...CURSOR, hook_event_name: 'sessionEnd', session_id: SESSION, reason: 'completed' },
    means: { moment: 'session_end' },
  },
]

const copilotEvents: readonly Omit<RecordedEvent, 'client'>[] = [
  {
    what: 'a session begins',
    input: { ...COPILOT, source: 'new', initialPrompt: 'fix it' },
    means: { moment: 'session_start', session: SESSION, name: 'sessionStart' },
  },
  {
    what: 'a session that has no id begins',
    input: { timestamp: 1, cwd: '/repo', source: 'new' },
    means: { session: 'process-7' },
  },
  {
    what: 'an edit is to come, with its arguments in a text',
    input: { ...COPILOT, toolName: 'edit', toolArgs: '{"path":"/repo/src/a.ts","old_str":"x"}' },
    means: {
      ...{ moment: 'before', name: 'preToolUse' },
      act: { kind: 'edit', tool: 'edit', paths: ['/repo/src/a.ts'] },
    },
  },
  {
    what: 'a file is to be created, with its arguments in an object',
    input: { ...COPILOT, toolName: 'create', toolArgs: { path: 'src/a.ts', file_text: 'x' } },
    means: { act: { kind: 'edit', tool: 'create', paths: ['src/a.ts'] } },
  },
  {
    what: 'a file is to be viewed',
    input: {
      ...COPILOT,
      toolName: 'str_replace_editor',
      toolArgs: { command: 'view', path: 'a.ts' },
    },
    means: { act: { kind: 'read', paths: ['a.ts'] } },
  },
  {
    what: 'a command has run',
    input: {
      ...{ ...COPILOT, toolName: 'bash', toolArgs: '{"command":"ls"}' },
      toolResult: { resultType: 'success', textResultForLlm: 'a.ts' },
    },
    means: { moment: 'after', name: 'postToolUse', act: { kind: 'shell', command: 'ls' } },
  },
  {
    what: 'the session ends',
    input: { ...COPILOT, reason: 'complete' },
    means: { moment: 'session_end' },
  },
]

export const RECORDED_EVENTS: readonly RecordedEvent[] = [
  ...claudeEvents.map((event) => ({ client: 'claude' as const, ...event })),
  ...codexEvents.map((event) => ({ client: 'codex' as const, ...event })),
  ...geminiEvents.map((event) => ({ client: 'gemini' as const, ...event })),
  ...cursorEvents.map((event) => ({ client: 'cursor' as const, ...event })),
  ...copilotEvents.map((event) => ({ client: 'copilot' as const, ...event })),
]
