/** Server-sent events (the HTML standard's `text/event-stream`), read from an answer that goes on. */
import type { IncomingMessage } from 'node:http'
import { LeaseError } from '../core/errors.ts'

export interface SentEvent {
  /** Up to here everything was sent; null where the stream has no positions. */
  readonly id: string | null
  /** Null: only the id was sent. */
  readonly data: string | null
}

/**
 * Ends with the answer; throws `STORE_UNAVAILABLE` when that is cut, and only then. Nothing is read ahead of who takes the
 * events.
 */
export async function* readEvents(response: IncomingMessage): AsyncGenerator<SentEvent> {
  response.setEncoding('utf8')
  let rest = ''
  for await (const part of partsOf(response)) {
    const blocks = (rest + part).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const event = readBlock(block)
      if (event.id !== null || event.data !== null) yield event
    }
  }
}

/** Whatever reading a connection throws is that connection's. */
async function* partsOf(response: IncomingMessage): AsyncGenerator<string> {
  try {
    yield* response as AsyncIterable<string>
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new LeaseError('STORE_UNAVAILABLE', `the stream was cut: ${why}`, { cause })
  }
}

/** A server of ours writes each field on one line, and separates events by one empty line. */
function readBlock(block: string): SentEvent {
  const fields = new Map<string, string>()
  for (const line of block.split('\n')) {
    const colon = line.indexOf(': ')
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 2))
  }
  return { id: fields.get('id') ?? null, data: fields.get('data') ?? null }
}
