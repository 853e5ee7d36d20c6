/**
 * Codex. Edits come as `apply_patch`, on its own or inside of a shell command. It refuses answers with fields that it does
 * not know, so that before a call nothing can be told but a denial. It has no event for the end of a session.
 */
import { invalid } from '../../core/errors.ts'
import { applyPatchPaths } from '../patch-paths.ts'
import {
  commonFacts,
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
    return {
      ...{ client: 'codex', ...commonFacts(input, host, MOMENTS) },
      act: actOf(textOf(input, 'tool_name') ?? '', objectOf(input['tool_input'])),
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
  if (tool === 'Bash' || tool === 'shell') return shellOf(commandOf(input))
  if (tool !== 'apply_patch') return { kind: 'other' }
  const patch = commandOf(input)
  const paths = applyPatchPaths(patch)
  if (paths.length === 0) throw invalid('command', 'must be a patch that names its files', patch)
  return { kind: 'edit', tool, paths }
}

/** A text, or the words of a command, of which the last is the script of `bash -lc`. */
function commandOf(input: JsonObject): string {
  const { command } = input
  const last: unknown = Array.isArray(command) ? command.at(-1) : undefined
  return requireHookText(typeof last === 'string' ? { command: last } : input, 'command', 'input')
}
