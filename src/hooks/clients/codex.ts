/**
 * Codex. Edits come as `apply_patch`, on its own or inside of a shell command. It refuses answers with fields that it does
 * not know, so that before a call nothing can be told but a denial. It has no event for the end of a session.
 */
import { applyPatchPaths } from '../patch-paths.ts'
import {
  editOf,
  objectOf,
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
}

export const codex: Adapter = {
  read(input, host): HookEvent {
    const name = requireHookText(input, 'hook_event_name')
    return {
      client: 'codex',
      moment: MOMENTS[name] ?? 'other',
      name,
      session: requireHookText(input, 'session_id'),
      agent: textOf(input, 'agent_id'),
      cwd: textOf(input, 'cwd') ?? host.cwd,
      callId: textOf(input, 'tool_use_id'),
      act: actOf(textOf(input, 'tool_name') ?? '', objectOf(input['tool_input'])),
      hasFailed: false,
    }
  },

  hears: ({ moment }) => moment === 'session_start' || moment === 'after',

  answer({ name: hookEventName, moment }, decision): string {
    switch (decision.kind) {
      case 'nothing':
      case 'input':
        return ''
      case 'deny': {
        const { reason: permissionDecisionReason } = decision
        const denial = { hookEventName, permissionDecision: 'deny', permissionDecisionReason }
        return JSON.stringify({ hookSpecificOutput: denial })
      }
      case 'tell': {
        if (moment === 'session_start') return decision.text
        const context = { hookEventName, additionalContext: decision.text }
        return JSON.stringify({ hookSpecificOutput: context })
      }
    }
  },
}

function actOf(tool: string, input: JsonObject): HookAct {
  const command = commandOf(input)
  if (tool === 'apply_patch') return editOf(tool, ...applyPatchPaths(command ?? ''))
  return tool === 'Bash' || tool === 'shell' ? shellOf(command) : { kind: 'other' }
}

/** A text, or the words of a command, of which the last is the script of `bash -lc`. */
function commandOf(input: JsonObject): string | null {
  const { command } = input
  if (!Array.isArray(command)) return textOf(input, 'command', 'input')
  const last: unknown = command.at(-1)
  return typeof last === 'string' ? last : null
}
