/**
 * What a coding agent's client tells a hook, in one form for all clients, and what the hook answers. The clients' own forms
 * are known to `hook-clients.ts` alone.
 */

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
