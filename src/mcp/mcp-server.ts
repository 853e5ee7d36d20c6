/**
 * The tools behind the protocol: one server for each request over HTTP, or for the connection of stdio, to the one client that has
 * started this process.
 */
import { createInterface } from 'node:readline'
import {
  fromJsonSchema,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResponse,
  McpServer,
  type CallToolResult,
} from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import type { CallerConnection } from '../client/caller-connection.ts'
import { isLeaseError, type LeaseError } from '../core/errors.ts'
import { schemaOfShape } from '../protocol/json-schema.ts'
import type { Face, Shape } from '../protocol/shape.ts'
import { report, reportTo } from '../runtime/diagnostics.ts'
import { parseJson } from '../runtime/json-text.ts'
import type { LeaseHost } from './lease-host.ts'
import { activeLeases, LEASE_TOOLS, type LeaseTool, type View } from './lease-tools.ts'

export const ACTIVE_URI = 'lease://active'

const INSTRUCTIONS =
  'Leases keep agents from changing the same file or resource at once. Take one before you change something, and release it when you are done.'

export interface McpFace {
  readonly host: LeaseHost
  readonly version: string
  /** Of the call that is answered; `signal` aborts when its client no longer waits for the answer. */
  readonly connectionOf: (signal: AbortSignal) => EndingConnection
}

export interface EndingConnection extends CallerConnection {
  /** The answer was handed over. */
  answered(): void
}

export function mcpServer(face: McpFace): McpServer {
  const { host, version } = face
  const server = new McpServer({ name: 'tenure', version }, { instructions: INSTRUCTIONS })
  for (const [name, tool] of Object.entries(LEASE_TOOLS)) register(server, face, { name, tool })
  const facts = { description: 'All live leases', mimeType: 'application/json' }
  server.registerResource('active', ACTIVE_URI, facts, async ({ href: uri }) => {
    const text = JSON.stringify(await activeLeases(host))
    return { contents: [{ uri, mimeType: 'application/json', text }] }
  })
  return server
}

function register(
  server: McpServer,
  { host, connectionOf }: McpFace,
  { name, tool }: { readonly name: string; readonly tool: LeaseTool },
): void {
  const { says, input, output, isReading, run } = tool
  const facts = {
    description: says,
    inputSchema: readBy(input, 'library'),
    outputSchema: readBy(output, 'answer'),
    ...(isReading ? { annotations: { readOnlyHint: true } } : {}),
  }
  server.registerTool(name, facts, async (asked, { mcpReq }) => {
    const connection = connectionOf(mcpReq.signal)
    try {
      return answered(await run(host, asked as never, connection))
    } catch (error) {
      if (isLeaseError(error)) return refused(error)
      report('mcp/call', error)
      throw error
    } finally {
      connection.answered()
    }
  })
}

/** The schema that a client is told, and our own reader behind it, so that what is wrong is said in one line of ours. */
function readBy(shape: Shape<object>, face: Face) {
  const validator = (value: unknown) => {
    try {
      return { valid: true, data: shape.read(value, 'arguments'), errorMessage: undefined } as const
    } catch (error) {
      if (!isLeaseError(error)) throw error
      return { valid: false, data: undefined, errorMessage: error.message } as const
    }
  }
  const schema = schemaOfShape(shape, face) as Parameters<typeof fromJsonSchema>[0]
  return fromJsonSchema(schema, { getValidator: () => validator as never })
}

/** As text too: some clients show a model nothing else. */
function answered(view: View): CallToolResult {
  return {
    content: [{ type: 'text', text: JSON.stringify(view) }],
    structuredContent: { ...view },
  }
}

function refused({ code, message, retryable }: LeaseError): CallToolResult {
  const text = `${message} (${code})${retryable ? '; it may work later' : ''}`
  return { isError: true, content: [{ type: 'text', text }] }
}

/** Those of the process, which the SDK uses as well. */
export interface StdioStreams {
  readonly input: NodeJS.ReadableStream
  readonly write: (text: string) => void
}

export interface StdioFace {
  close(): Promise<void>
}

export function serveLeasesOnStdio(
  host: LeaseHost,
  version: string,
  { input, write }: StdioStreams,
): StdioFace {
  const connectionOf = (signal: AbortSignal): EndingConnection => new CallConnection(signal)
  createInterface({ input }).on('line', (line) => {
    const problem = line.trim() === '' ? null : problemOf(line)
    if (problem !== null) write(`${JSON.stringify(problem)}\n`)
  })
  return serveStdio(() => mcpServer({ host, version, connectionOf }), {
    onerror: reportTo('mcp/stdio'),
  })
}

/** The SDK passes over a line that is no message, and its sender would wait for an answer. */
function problemOf(line: string): object | null {
  const value = parseJson(line)
  if (value === undefined) {
    return errorAnswer(null, -32_700, 'Parse error: a line must be one JSON-RPC message')
  }
  if (MESSAGES.some((isOne) => isOne(value))) return null
  const { id } = (value ?? {}) as { readonly id?: unknown }
  const known = typeof id === 'string' || typeof id === 'number' ? id : null
  return errorAnswer(known, -32_600, 'Invalid Request: a line must be one JSON-RPC message')
}

const MESSAGES = [isJSONRPCRequest, isJSONRPCNotification, isJSONRPCResponse]

function errorAnswer(id: string | number | null, code: number, message: string): object {
  return { jsonrpc: '2.0', id, error: { code, message } }
}

/** One call. What was handed over to a pipe counts as heard: a client that dies takes this process along. */
class CallConnection implements EndingConnection {
  readonly #signal: AbortSignal
  readonly #listeners = new Set<(wasWritten: boolean) => void>()

  constructor(signal: AbortSignal) {
    this.#signal = signal
    signal.addEventListener('abort', () => this.#end(false), { once: true })
  }

  get isOpen(): boolean {
    return !this.#signal.aborted
  }

  onEnd(listener: (wasWritten: boolean) => void): void {
    if (this.#signal.aborted) listener(false)
    else this.#listeners.add(listener)
  }

  answered(): void {
    this.#end(!this.#signal.aborted)
  }

  #end(wasWritten: boolean): void {
    for (const listener of this.#listeners) listener(wasWritten)
    this.#listeners.clear()
  }
}
