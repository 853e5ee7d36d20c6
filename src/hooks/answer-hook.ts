/**
 * From the bytes of an event to what the hook prints and its exit status. Whatever goes wrong ends here in one line and in
 * a decision: to deny what cannot be checked (`closed`), or to let it through (`open`), as the store's `hook_on_failure`
 * says. Where no store exists, it is `open`.
 */
import { createHash } from 'node:crypto'
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import type { HookOnFailure } from '../core/settings.ts'
import { report } from '../runtime/diagnostics.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import {
  answerText,
  hearsText,
  readEvent,
  isObject,
  type Client,
  type EventHost,
  type HookEvent,
  type JsonObject,
} from './hook-clients.ts'
import { agentOf, intentOf, NO_INTENT, sessionName, type Intent } from './hook-plan.ts'
import { HookRun, type HookHost } from './hook-run.ts'
import { failureText } from './hook-words.ts'
import { parseJson } from '../runtime/json-text.ts'
import { MemoryFile } from './memory-file.ts'
import { NO_MEMORY, type SessionMemory } from './session-memory.ts'
import type { ShellReading } from './shell/shell-reading.ts'
import type { Variables } from './shell/shell-words.ts'
import { expandGlob, isDirectory, isThere, textOfFile } from './tree.ts'

export interface HookQuestion {
  readonly client: Client
  readonly input: Promise<Uint8Array>
  /** The holder that was named; null: the client's own session and agent. */
  readonly holder: string | null
  readonly variables: Variables
  readonly host: HookHost & EventHost
}

export interface HookAnswer {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
  /** The holder of a session that has just begun; null for every other event. */
  readonly begun: string | null
}

/** An event beyond this is refused unread. */
export const EVENT_BYTES_MAX: number = 16 * 1_048_576

/** However the store fares, the client has its answer within this. */
const WITHIN_MS = 5_000

/** Clients take it for a failure of the hook, show the line, and go on. */
const EXIT_OPEN = 1
/** Clients take it for a denial, with the line as its reason. */
const EXIT_CLOSED = 2

export async function answerHook(question: HookQuestion): Promise<HookAnswer> {
  const progress: Progress = { event: null, intent: null, memory: null }
  try {
    const answered = answer(question, progress)
    if (await endsWithin(question.host.runtime, WITHIN_MS, answered)) return await answered
    const what = progress.event === null ? 'the event did not end' : 'the store did not answer'
    throw new LeaseError('STORE_UNAVAILABLE', `${what} within ${WITHIN_MS} ms`)
  } catch (error) {
    return failed(question, progress, error)
  }
}

/** How far an event was understood before something went wrong. */
interface Progress {
  event: HookEvent | null
  intent: Intent | null
  memory: SessionMemory | null
}

async function answer(question: HookQuestion, progress: Progress): Promise<HookAnswer> {
  const { client, holder, host } = question
  const told = readEvent(client, objectIn(await question.input), host)
  progress.event = told
  const event = { ...told, cwd: host.runtime.canonicalPath(told.cwd) }
  const file = new MemoryFile(host.memoryDirectory, sessionName(event, digest))
  const memory = memoryIn(file)
  progress.memory = memory
  const intent = intentOf(event, await shellReader(question, event))
  progress.intent = intent
  const agent = agentOf(event, holder, digest)
  const isHeard = hearsText(event)
  const run = new HookRun({ event, agent, intent, memory, file, host, isHeard })
  const decision = await run.decision()
  const isMute = decision.kind === 'tell' && !isHeard
  const text = isMute ? '' : answerText(event, decision)
  const begun = event.moment === 'session_start' ? agent.holder : null
  return { stdout: text === '' ? '' : `${text}\n`, stderr: '', exitCode: 0, begun }
}

/** What cannot be read costs warnings, and no edit. */
function memoryIn(file: MemoryFile): SessionMemory {
  try {
    return file.read()
  } catch (error) {
    report('hooks/memory', error)
    return NO_MEMORY
  }
}

/** What reads shell commands is loaded where there is one. */
async function shellReader(
  { variables }: HookQuestion,
  { act, cwd }: HookEvent,
): Promise<(command: string) => ShellReading> {
  if (act.kind !== 'shell') return () => NO_INTENT
  const { readShell } = await import('./shell/shell-reading.ts')
  const files = { isThere, isDirectory, readText: textOfFile, glob: expandGlob }
  return (command) => readShell(command, { cwd, variables: { ...variables, PWD: cwd }, ...files })
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 24)
}

function objectIn(bytes: Uint8Array): JsonObject {
  if (bytes.length > EVENT_BYTES_MAX) {
    throw invalid('event', `must have at most ${EVENT_BYTES_MAX} bytes`, bytes.length)
  }
  const text = decoded(bytes)
  const value = parseJson(text)
  if (isObject(value)) return value
  throw invalid('event', 'must be a JSON object on standard input', text.slice(0, SHOWN_MAX))
}

const SHOWN_MAX = 80

function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new LeaseError('INVALID_INPUT', 'event must be UTF-8', {
      cause,
      details: { field: 'event' },
    })
  }
}

function failed(question: HookQuestion, progress: Progress, error: unknown): HookAnswer {
  const { event, intent } = progress
  const message = lineOf(error)
  const line = { stdout: '', stderr: `tenure hook: ${message}\n`, begun: null }
  if (policyOf(question, progress) === 'open') return { ...line, exitCode: EXIT_OPEN }
  if (event === null) return { ...line, exitCode: EXIT_CLOSED }
  const isAsked = event.moment === 'before' && writes(event, intent)
  if (!isAsked) return { ...line, exitCode: EXIT_OPEN }
  const action = event.act.kind === 'shell' ? 'this command' : 'this edit'
  const denial = answerText(event, {
    kind: 'deny',
    reason: failureText(event.client, action, message),
  })
  return { stdout: `${denial}\n`, stderr: '', exitCode: 0, begun: null }
}

/** Whether something would be written, as far as it was read; an edit whose path could not be read is one. */
function writes(event: HookEvent, intent: Intent | null): boolean {
  if (intent === null) return event.act.kind === 'edit' || event.act.kind === 'shell'
  return intent.writes.length > 0 || intent.checkouts.length > 0
}

function policyOf({ host }: HookQuestion, { event, memory }: Progress): HookOnFailure {
  if (memory !== null && memory.onFailure !== null) return memory.onFailure
  try {
    return host.storeOf(event?.cwd ?? host.cwd).isMade ? 'closed' : 'open'
  } catch (error) {
    // No fault: where even this cannot be read, what is already being answered is the failure.
    return isLeaseError(error) ? 'closed' : 'open'
  }
}

const LINE_MAX = 400

function lineOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.replaceAll(/\s+/g, ' ').slice(0, LINE_MAX)
}
