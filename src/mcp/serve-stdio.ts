/** The tools over standard input and output, for the one client that has started this process. */
import { createInterface } from 'node:readline'
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
    if (line.trim() !== '' && parseJson(line) === undefined) write(PARSE_ERROR)
  })
  return serveStdio(() => mcpServer({ host, version, connectionOf }), {
    onerror: reportTo('mcp/stdio'),
  })
}

/** The SDK passes over a line that is no JSON, and its sender would wait for an answer. */
const PARSE_ERROR = `${JSON.stringify({
  jsonrpc: '2.0',
  id: null,
  error: { code: -32_700, message: 'Parse error: a line must be one JSON-RPC message' },
})}\n`

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
