/** The tools over standard input and output, for the one client that has started this process. */
import { createInterface } from 'node:readline'
import {
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResponse,
} from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { reportTo } from '../runtime/diagnostics.ts'
import { parseJson } from '../runtime/json-text.ts'
import type { LeaseHost } from './lease-host.ts'
import { mcpServer, type EndingConnection } from './mcp-server.ts'

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
