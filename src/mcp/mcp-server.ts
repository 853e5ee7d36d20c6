/** The tools behind the protocol: one server for each connection of stdio, or for each request over HTTP. */
import { fromJsonSchema, McpServer, type CallToolResult } from '@modelcontextprotocol/server'
import type { CallerConnection } from '../client/caller-connection.ts'
import { isLeaseError, type LeaseError } from '../core/errors.ts'
import { schemaOfShape } from '../protocol/json-schema.ts'
import type { Face, Shape } from '../protocol/shape.ts'
import { report } from '../runtime/diagnostics.ts'
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
