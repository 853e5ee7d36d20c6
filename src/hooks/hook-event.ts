/**
 * What a coding agent's client tells a hook, in one form for all clients, and what the hook answers. The clients' own forms
 * are known to their adapters in `clients/` alone.
 */
import { invalid } from '../core/errors.ts'

export const CLIENTS = ['claude', 'codex', 'gemini', 'cursor', 'copilot'] as const
export type Client = (typeof CLIENTS)[number]

/** What the agent is about to do, or has done. */
export type HookAct =
  | { readonly kind: 'edit'; readonly tool: string; readonly paths: readonly string[] }
  | { readonly kind: 'read'; readonly paths: readonly string[] }
  | { readonly kind: 'shell'; readonly command: string }
  /** A call of Tenure's own tools, which name a holder. */
  | { readonly kind: 'lease_tool'; readonly tool: string; readonly input: JsonObject }
  | { readonly kind: 'other' }

export type HookMoment =
  'session_start' | 'before' | 'after' | 'agent_end' | 'session_end' | 'other'

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

export interface Adapter {
  /** Throws `INVALID_INPUT` for what is no event of the client. */
  read(input: JsonObject, host: EventHost): HookEvent
  /** Whether text can be told to the model at this event. */
  hears(event: HookEvent): boolean
  /** What is printed; empty for nothing. Never a permission: the client's own questions to its user stay. */
  answer(event: HookEvent, decision: HookDecision): string
}

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

export function objectOf(value: unknown): JsonObject {
  return isObject(value) ? value : {}
}

/** The first of these fields that is a text with something in it. */
export function textOf(input: JsonObject, ...names: readonly string[]): string | null {
  for (const name of names) {
    const value = input[name]
    if (typeof value === 'string' && value !== '') return value
  }
  return null
}

export function requireHookText(input: JsonObject, ...names: readonly string[]): string {
  const text = textOf(input, ...names)
  if (text === null) throw invalid(names.join(' or '), 'must be a text', input[names[0] ?? ''])
  return text
}

/** What the clients that call their fields alike tell of every event. */
export function commonFacts(
  input: JsonObject,
  host: EventHost,
  moments: Readonly<Record<string, HookMoment>>,
): Omit<HookEvent, 'client' | 'act'> {
  const name = requireHookText(input, 'hook_event_name')
  return {
    ...{ name, moment: moments[name] ?? 'other', hasFailed: false },
    session: requireHookText(input, 'session_id'),
    agent: textOf(input, 'agent_id'),
    cwd: textOf(input, 'cwd') ?? host.cwd,
    callId: textOf(input, 'tool_use_id'),
  }
}

export function editOf(tool: string, path: string): HookAct {
  return { kind: 'edit', tool, paths: [path] }
}

/** Reading is never denied, not even of what cannot be told. */
export function readOf(path: string | null): HookAct {
  return path === null ? { kind: 'other' } : { kind: 'read', paths: [path] }
}

export function shellOf(command: string): HookAct {
  return { kind: 'shell', command }
}
