/** Cursor. `beforeShellExecution` has its command beside the common fields; `afterFileEdit` cannot deny. */
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
  sessionStart: 'session_start',
  preToolUse: 'before',
  beforeShellExecution: 'before',
  beforeReadFile: 'before',
  postToolUse: 'after',
  afterFileEdit: 'after',
  afterShellExecution: 'after',
  subagentStop: 'agent_end',
  sessionEnd: 'session_end',
}

export const cursor: Adapter = {
  read(input, host): HookEvent {
    const name = requireHookText(input, 'hook_event_name')
    const roots = input['workspace_roots']
    const root: unknown = Array.isArray(roots) ? roots[0] : undefined
    return {
      client: 'cursor',
      moment: MOMENTS[name] ?? 'other',
      name,
      session: requireHookText(input, 'conversation_id', 'session_id'),
      agent: textOf(input, 'subagent_id'),
      cwd: textOf(input, 'cwd') ?? (typeof root === 'string' && root !== '' ? root : host.cwd),
      callId: textOf(input, 'tool_use_id'),
      act: actOf(name, input),
      hasFailed: false,
    }
  },

  hears: ({ name }) => name === 'sessionStart' || name === 'postToolUse',

  answer(_event, decision): string {
    switch (decision.kind) {
      case 'nothing':
      case 'input':
        return ''
      case 'deny': {
        const { reason } = decision
        return JSON.stringify({ permission: 'deny', user_message: reason, agent_message: reason })
      }
      case 'tell':
        return JSON.stringify({ additional_context: decision.text })
    }
  },
}

const PATHS = ['file_path', 'path', 'target_file'] as const

function actOf(name: string, input: JsonObject): HookAct {
  if (name === 'afterFileEdit') return editOf('Edit', requireHookText(input, 'file_path'))
  if (name === 'beforeReadFile') return readOf(textOf(input, 'file_path'))
  if (name.endsWith('ShellExecution')) return shellOf(requireHookText(input, 'command'))
  const tool = textOf(input, 'tool_name') ?? ''
  const given = objectOf(input['tool_input'])
  switch (tool) {
    case 'Write':
    case 'Edit':
    case 'StrReplace':
    case 'Delete':
      return editOf(tool, requireHookText(given, ...PATHS))
    case 'Read':
      return readOf(textOf(given, ...PATHS))
    case 'Shell':
      return shellOf(requireHookText(given, 'command'))
    default:
      return { kind: 'other' }
  }
}
