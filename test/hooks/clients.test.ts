/** Events as the clients send them, and answers as they take them. */
import { describe, expect, it } from 'vitest'
import {
  answerText,
  hearsText,
  readEvent,
  CLIENTS,
  type Client,
  type HookEvent,
  type JsonObject,
} from '../../src/hooks/hook-clients.ts'
import { RECORDED_EVENTS } from './recorded-events.ts'

const HOST = { cwd: '/where/the/hook/runs', processId: 7 }

function eventOf(client: Client, name: string): HookEvent {
  const found = RECORDED_EVENTS.find((one) => {
    return one.client === client && readEvent(client, one.input, HOST).name === name
  })
  if (found === undefined) throw new Error(`no ${name} of ${client} was recorded`)
  return readEvent(client, found.input, HOST)
}

describe('an event', () => {
  it.each(RECORDED_EVENTS)('of $client is understood: $what', ({ client, input, means }) => {
    expect(readEvent(client, input, HOST)).toMatchObject({ client, ...means })
  })

  it.each(CLIENTS)('of %s that has no session, no name or no sense is refused', (client) => {
    const nonsense: readonly JsonObject[] = [{}, { hook_event_name: 7 }, { tool_name: 'Edit' }]
    for (const input of nonsense) {
      expect(() => readEvent(client, input, HOST)).toThrow(/ must be /)
    }
  })

  it.each(CLIENTS)('of %s that is not known yet is none of ours', (client) => {
    const ids = { session_id: 's', sessionId: 's', conversation_id: 's' }
    const names = { hook_event_name: 'SomethingNew', hookEventName: 'SomethingNew' }
    const event = readEvent(client, { ...ids, ...names }, HOST)
    expect(event).toMatchObject({ moment: 'other', act: { kind: 'other' } })
  })

  const ids = { session_id: 's', sessionId: 's', conversation_id: 's' }
  it.each<[Client, JsonObject, readonly string[]]>([
    [
      'claude',
      { hook_event_name: 'PreToolUse' },
      ['Edit', 'MultiEdit', 'Write', 'NotebookEdit', 'Bash'],
    ],
    ['codex', { hook_event_name: 'PreToolUse' }, ['apply_patch', 'Bash', 'shell']],
    [
      'gemini',
      { hook_event_name: 'BeforeTool' },
      ['write_file', 'replace', 'edit', 'run_shell_command'],
    ],
    [
      'cursor',
      { hook_event_name: 'preToolUse' },
      ['Write', 'Edit', 'StrReplace', 'Delete', 'Shell'],
    ],
    ['copilot', {}, ['edit', 'create', 'write', 'str_replace_editor', 'bash']],
  ])(
    'of %s that writes is refused where it cannot be read what it writes to',
    (client, name, tools) => {
      for (const tool of tools) {
        for (const given of [
          undefined,
          null,
          [],
          {},
          { file_path: '' },
          { path: 7, command: {} },
        ]) {
          const call = { tool_name: tool, toolName: tool, tool_input: given, toolArgs: given }
          const input = { ...ids, ...name, ...call }
          expect(() => readEvent(client, input, HOST)).toThrow(/ must be a /)
        }
      }
    },
  )

  it('of a read that cannot be read is let through', () => {
    const read = { hook_event_name: 'PreToolUse', tool_name: 'Read', tool_input: { file_path: 7 } }
    expect(readEvent('claude', { ...ids, ...read }, HOST).act).toEqual({ kind: 'other' })
  })

  it('of Copilot CLI whose arguments are no JSON is refused', () => {
    const input = { toolName: 'edit', toolArgs: '{path', sessionId: 's' }
    expect(() => readEvent('copilot', input, HOST)).toThrow(/^toolArgs must be a JSON object/)
  })
})

const DENIAL = { kind: 'deny', reason: 'a.ts is held by bob' } as const
const TOLD = { kind: 'tell', text: 'a.ts is held by bob' } as const

describe('an answer', () => {
  it.each<[Client, string, JsonObject]>([
    [
      'claude',
      'PreToolUse',
      {
        hookSpecificOutput: {
          hookEventName: 'PreToolUse',
          permissionDecision: 'deny',
          permissionDecisionReason: DENIAL.reason,
        },
      },
    ],
    [
      'codex',
      'PreToolUse',
      {
        hookSpecificOutput: {
          hookEventName: 'PreToolUse',
          permissionDecision: 'deny',
          permissionDecisionReason: DENIAL.reason,
        },
      },
    ],
    ['gemini', 'BeforeTool', { decision: 'deny', reason: DENIAL.reason }],
    [
      'cursor',
      'preToolUse',
      { permission: 'deny', user_message: DENIAL.reason, agent_message: DENIAL.reason },
    ],
    [
      'copilot',
      'preToolUse',
      { permissionDecision: 'deny', permissionDecisionReason: DENIAL.reason },
    ],
  ])('to %s denies as it is denied there', (client, name, output) => {
    expect(JSON.parse(answerText(eventOf(client, name), DENIAL))).toEqual(output)
  })

  it.each<[Client, string, string]>([
    ['claude', 'SessionStart', TOLD.text],
    ['codex', 'SessionStart', TOLD.text],
  ])('to %s at the start of a session is plain text', (client, name, output) => {
    expect(answerText(eventOf(client, name), TOLD)).toBe(output)
  })

  it.each<[Client, string, JsonObject]>([
    [
      'claude',
      'PostToolUse',
      { hookSpecificOutput: { hookEventName: 'PostToolUse', additionalContext: TOLD.text } },
    ],
    [
      'codex',
      'PostToolUse',
      { hookSpecificOutput: { hookEventName: 'PostToolUse', additionalContext: TOLD.text } },
    ],
    [
      'gemini',
      'AfterTool',
      { hookSpecificOutput: { hookEventName: 'AfterTool', additionalContext: TOLD.text } },
    ],
    ['cursor', 'postToolUse', { additional_context: TOLD.text }],
    ['copilot', 'postToolUse', { additionalContext: TOLD.text }],
  ])('to %s tells the model afterwards', (client, name, output) => {
    const event = eventOf(client, name)
    expect(hearsText(event)).toBe(true)
    expect(JSON.parse(answerText(event, TOLD))).toEqual(output)
  })

  it.each(RECORDED_EVENTS)(
    'to $client is nothing where there is nothing to say: $what',
    ({ client, input }) => {
      const event = readEvent(client, input, HOST)
      expect(answerText(event, { kind: 'nothing' })).toBe('')
      for (const verdict of [DENIAL, TOLD]) expect(answerText(event, verdict)).not.toMatch(/allow/)
    },
  )
})
