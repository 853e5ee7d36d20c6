/** Server-sent events (the HTML standard's `text/event-stream`), read from an answer that goes on. */
import type { IncomingMessage } from 'node:http'

export interface SentEvent {
  /** Up to here everything was sent; null where the stream has no positions. */
  readonly id: string | null
  /** Null: only the id was sent. */
  readonly data: string | null
}

/** Ends with the answer; throws when that is cut. Nothing is read ahead of who takes the events. */
export async function* readEvents(response: IncomingMessage): AsyncGenerator<SentEvent> {
  response.setEncoding('utf8')
  let rest = ''
  for await (const part of response) {
    const blocks = (rest + (part as string)).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const event = readBlock(block)
      if (event.id !== null || event.data !== null) yield event
    }
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
