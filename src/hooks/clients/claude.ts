/** Claude Code. `agent_id` is there inside of a subagent only. */
import {
  commonFacts,
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
    return {
      ...{ client: 'claude', ...commonFacts(input, host, MOMENTS) },
      act: actOf(textOf(input, 'tool_name') ?? '', objectOf(input['tool_input'])),
      hasFailed: input['hook_event_name'] === 'PostToolUseFailure',
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

const OWN_TOOLS = 'mcp__tenure__'

function actOf(tool: string, input: JsonObject): HookAct {
  switch (tool) {
    case 'Edit':
    case 'MultiEdit':
    case 'Write':
      return editOf(tool, requireHookText(input, 'file_path'))
    case 'NotebookEdit':
      return editOf(tool, requireHookText(input, 'notebook_path'))
    case 'Read':
      return readOf(textOf(input, 'file_path'))
    case 'Bash':
      return shellOf(requireHookText(input, 'command'))
    default:
      return tool.startsWith(OWN_TOOLS)
        ? { kind: 'lease_tool', tool: tool.slice(OWN_TOOLS.length), input }
        : { kind: 'other' }
  }
}
