/** Claude Code. `agent_id` is there inside of a subagent only. */
import {
  editOf,
  objectOf,
  readOf,
  requireHookText,
  shellOf,
  textOf,
  type HookAct,
  type Adapter,
  type HookEvent,
  type JsonObject,
  type HookMoment,
} from '../hook-event.ts'

const MOMENTS: Readonly<Record<string, HookMoment>> = {
  SessionStart: 'session_start',
  PreToolUse: 'before',
  PostToolUse: 'after',
  PostToolUseFailure: 'after',
  SubagentStop: 'agent_end',
  SessionEnd: 'session_end',
}

export const claude: Adapter = {
  read(input, host): HookEvent {
    const name = requireHookText(input, 'hook_event_name')
    return {
      client: 'claude',
      moment: MOMENTS[name] ?? 'other',
      name,
      session: requireHookText(input, 'session_id'),
      agent: textOf(input, 'agent_id'),
      cwd: textOf(input, 'cwd') ?? host.cwd,
      callId: textOf(input, 'tool_use_id'),
      act: actOf(textOf(input, 'tool_name') ?? '', objectOf(input['tool_input'])),
      hasFailed: name === 'PostToolUseFailure',
    }
  },

  hears: ({ moment }) => ['session_start', 'before', 'after'].includes(moment),

  answer({ name: hookEventName, moment }, decision): string {
    const say = (rest: JsonObject): string => {
      return JSON.stringify({ hookSpecificOutput: { hookEventName, ...rest } })
    }
    switch (decision.kind) {
      case 'nothing':
        return ''
      case 'deny':
        return say({ permissionDecision: 'deny', permissionDecisionReason: decision.reason })
      case 'input':
        return say({ updatedInput: decision.input })
      case 'tell':
        return moment === 'session_start'
          ? decision.text
          : say({ additionalContext: decision.text })
    }
  },
}

export function actOf(tool: string, input: JsonObject): HookAct {
  switch (tool) {
    case 'Edit':
    case 'MultiEdit':
    case 'Write':
      return editOf(tool, textOf(input, 'file_path'))
    case 'NotebookEdit':
      return editOf(tool, textOf(input, 'notebook_path'))
    case 'Read':
      return readOf(textOf(input, 'file_path'))
    case 'Bash':
      return shellOf(textOf(input, 'command'))
    default:
      return tool.startsWith('mcp__tenure__') ? { kind: 'lease_tool', input } : { kind: 'other' }
  }
}
