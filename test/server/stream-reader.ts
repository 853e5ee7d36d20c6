/** Reads server-sent events as a browser does. */
import http from 'node:http'
import { onTestFinished } from 'vitest'

export interface Received {
  readonly id?: string
  readonly type: string
  readonly data: {
    readonly position: string
    readonly event: { readonly type: string; readonly resource: string; readonly leaseId: string }
    readonly lease: { readonly state: string; readonly renewals: number } | null
    readonly leaseIds: readonly string[] | null
  }
}

export interface Reader {
  readonly status: number
  /** What was sent and is no event: comments, and why it ended. */
  readonly comments: readonly string[]
  /** The id up to which everything was seen. */
  readonly lastId: string | null
  /** In how many pieces it came: at least as many as the server has written. */
  readonly pieces: number
  next(): Promise<Received>
  /** Reads nothing until `goOn`. */
  pause(): void
  goOn(): void
  /** Resolves when the server has ended the stream. */
  readonly ended: Promise<void>
  close(): void
}

export interface ReaderOptions {
  readonly token?: string
  readonly headers?: Readonly<Record<string, string>>
}

export async function openStream(
  url: string,
  place: string,
  { token, headers = {} }: ReaderOptions = {},
): Promise<Reader> {
  const request = http.get(`${url}${place}`, {
    agent: false,
    headers: {
      Accept: 'text/event-stream',
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      ...headers,
    },
  })
  onTestFinished(() => void request.destroy())
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    request.once('response', resolve)
    request.once('error', reject)
  })
  const ready: Received[] = []
  const waiting: ((event: Received) => void)[] = []
  const comments: string[] = []
  let lastId: string | null = null
  let text = ''
  let pieces = 0
  response.setEncoding('utf8')
  response.on('data', (part: string) => {
    pieces += 1
    const blocks = (text + part).split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const lines = block.split('\n')
      const field = (name: string): string | undefined =>
        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
      comments.push(...lines.filter((line) => line.startsWith(':')))
      const id = field('id')
      lastId = id ?? lastId
      const data = field('data')
      if (data === undefined) continue
      const event: Received = {
        ...(id === undefined ? {} : { id }),
        type: field('event') ?? 'message',
        data: JSON.parse(data) as Received['data'],
      }
      const receive = waiting.shift()
      if (receive === undefined) ready.push(event)
      else receive(event)
    }
  })
  const ended = new Promise<void>((resolve) => {
    response.once('close', () => resolve())
    response.on('error', () => undefined)
  })
  return {
    status: response.statusCode ?? 0,
    comments,
    get lastId() {
      return lastId
    },
    get pieces() {
      return pieces
    },
    pause: () => void response.pause(),
    goOn: () => void response.resume(),
    next: async () => ready.shift() ?? new Promise((resolve) => waiting.push(resolve)),
    ended,
    close: () => void request.destroy(),
  }
}
