/** The tools over standard input and output, for the one client that has started this process. */
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { reportTo } from '../runtime/diagnostics.ts'
import type { LeaseHost } from './lease-host.ts'
import { mcpServer, type EndingConnection } from './mcp-server.ts'

export interface StdioFace {
  close(): Promise<void>
}

export function serveLeasesOnStdio(host: LeaseHost, version: string): StdioFace {
  const connectionOf = (signal: AbortSignal): EndingConnection => new CallConnection(signal)
  return serveStdio(() => mcpServer({ host, version, connectionOf }), {
    onerror: reportTo('mcp/stdio'),
  })
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
