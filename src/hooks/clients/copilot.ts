/**
 * Copilot CLI. Its events are told apart by their fields where none is named, and the arguments of a tool come as JSON in a
 * text or as an object. Where no session is named, the process that runs the hook stands for it.
 */
import {
  editOf,
  isObject,
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
import { invalid } from '../../core/errors.ts'
import { parseJson } from '../../runtime/json-text.ts'

const MOMENTS: Readonly<Record<string, HookMoment>> = {
  sessionStart: 'session_start',
  preToolUse: 'before',
  postToolUse: 'after',
  subagentStop: 'agent_end',
  sessionEnd: 'session_end',
}

export const copilot: Adapter = {
  read(input, host): HookEvent {
    const name = textOf(input, 'hookEventName', 'hook_event_name') ?? nameBy(input)
    return {
      client: 'copilot',
      moment: MOMENTS[name] ?? 'other',
      name,
      session: textOf(input, 'sessionId', 'session_id') ?? `process-${host.processId}`,
      agent: textOf(input, 'agentId', 'agent_id'),
      cwd: textOf(input, 'cwd') ?? host.cwd,
      callId: textOf(input, 'toolCallId', 'tool_use_id'),
      act: actOf(textOf(input, 'toolName', 'tool_name') ?? '', argumentsOf(input)),
      hasFailed: false,
    }
  },

  hears: ({ moment }) => moment === 'session_start' || moment === 'after',

  answer(_event, decision): string {
    switch (decision.kind) {
      case 'nothing':
      case 'input':
        return ''
      case 'deny': {
        const { reason: permissionDecisionReason } = decision
        return JSON.stringify({ permissionDecision: 'deny', permissionDecisionReason })
      }
      case 'tell':
        return JSON.stringify({ additionalContext: decision.text })
    }
  },
}

function nameBy(input: JsonObject): string {
  if ('toolResult' in input) return 'postToolUse'
  if ('toolName' in input) return 'preToolUse'
  if ('source' in input || 'initialPrompt' in input) return 'sessionStart'
  if ('reason' in input) return 'sessionEnd'
  throw invalid('event', 'must be one of Copilot CLI, with toolName, source or reason', input)
}

function argumentsOf(input: JsonObject): JsonObject {
  const given = input['toolArgs'] ?? input['tool_input']
  if (isObject(given)) return given
  if (typeof given !== 'string') return {}
  const parsed = parseJson(given)
  if (isObject(parsed)) return parsed
  throw invalid('toolArgs', 'must be a JSON object', given)
}

function actOf(tool: string, input: JsonObject): HookAct {
  const paths = ['path', 'file_path', 'filePath'] as const
  const isView = tool === 'view' || input['command'] === 'view'
  switch (tool) {
    case 'edit':
    case 'create':
    case 'write':
    case 'str_replace_editor':
    case 'view':
      return isView
        ? readOf(textOf(input, ...paths))
        : editOf(tool, requireHookText(input, ...paths))
    case 'bash':
    case 'shell':
    case 'powershell':
      return shellOf(requireHookText(input, 'command'))
    default:
      return { kind: 'other' }
  }
}
