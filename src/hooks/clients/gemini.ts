/** Gemini CLI. A denial is `decision`; before a call nothing else reaches the model. */
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
  BeforeTool: 'before',
  AfterTool: 'after',
  SessionEnd: 'session_end',
}

export const gemini: Adapter = {
  read(input, host): HookEvent {
    return {
      ...{ client: 'gemini', ...commonFacts(input, host, MOMENTS) },
      act: actOf(textOf(input, 'tool_name') ?? '', objectOf(input['tool_input'])),
    }
  },

  hears: ({ moment }) => moment === 'session_start' || moment === 'after',

  answer({ name: hookEventName }, decision): string {
    switch (decision.kind) {
      case 'nothing':
      case 'input':
        return ''
      case 'deny':
        return JSON.stringify({ decision: 'deny', reason: decision.reason })
      case 'tell': {
        const context = { hookEventName, additionalContext: decision.text }
        return JSON.stringify({ hookSpecificOutput: context })
      }
    }
  },
}

function actOf(tool: string, input: JsonObject): HookAct {
  switch (tool) {
    case 'write_file':
    case 'replace':
    case 'edit':
      return editOf(tool, requireHookText(input, 'file_path', 'absolute_path', 'path'))
    case 'read_file':
      return readOf(textOf(input, 'file_path', 'absolute_path', 'path'))
    case 'run_shell_command':
      return shellOf(requireHookText(input, 'command'))
    default:
      return { kind: 'other' }
  }
}
