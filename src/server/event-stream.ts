/**
 * One answer that goes on: server-sent events (the HTML standard's `text/event-stream`). A comment every 15 s keeps proxies
 * from closing a stream on which nothing happens.
 *
 * What a reader has not read yet waits in the kernel, and beyond that here: `isFull` tells the sender to wait. A reader that
 * has not read all of this ten seconds later is cut off and can go on after the last event that it has read: Node does not tell
 * how much of it has gone, and coming back costs such a reader nothing. So is one for whom 1 MiB waits, because what is sent to it
 * cannot wait.
 */
import type { ServerResponse } from 'node:http'
import { STREAM_COMMENT_EVERY_MS } from '../protocol/http.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'

const QUEUE_BYTES_MAX = 1024 * 1024
const FULL_BYTES = 256 * 1024
const READ_WITHIN_MS = 10_000
/** How long a reader waits before it connects again. */
const RECONNECT_MS = 1_000

export interface StreamEvent {
  /** What the reader sends as `Last-Event-ID` to go on after this event. */
  readonly id?: string
  readonly type: string
  /** JSON. */
  readonly data: string
}

/** The text of an event: made once, however many read it. */
export function frameOf({ id, type, data }: StreamEvent): string {
  const name = id === undefined ? '' : `id: ${id}\n`
  return `${name}event: ${type}\ndata: ${data}\n\n`
}

export class EventStream {
  readonly #response: ServerResponse
  readonly #runtime: Runtime
  readonly #idle: () => string | null
  #timer: Timer | null = null

  /** `idle` gives the id up to which a reader has seen everything, although there was nothing to show of it. */
  constructor(response: ServerResponse, runtime: Runtime, idle: () => string | null) {
    this.#response = response
    this.#runtime = runtime
    this.#idle = idle
    response.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    })
    this.#write(`retry: ${RECONNECT_MS}\n\n`)
    this.#comment()
    response.once('close', () => this.#timer?.cancel())
  }

  get isOpen(): boolean {
    return !this.#response.writableEnded && !this.#response.destroyed
  }

  /** So much waits for the reader that no more should be sent before `drained`. */
  get isFull(): boolean {
    return this.isOpen && this.#response.writableLength > FULL_BYTES
  }

  /** Resolves when the reader has read what waits for it, or is gone. */
  async drained(): Promise<void> {
    const response = this.#response
    const cut = (): void => void response.destroy()
    const timer = this.#runtime.setTimer(READ_WITHIN_MS, cut, { keepAlive: false })
    await new Promise<void>((resolve) => {
      const end = (): void => {
        response.off('drain', end)
        response.off('close', end)
        resolve()
      }
      response.on('drain', end)
      response.on('close', end)
    })
    timer.cancel()
  }

  /** Frames of events, however many, in one write. */
  send(frames: string): void {
    this.#write(frames)
  }

  /** Up to here there is nothing to show. */
  mark(id: string): void {
    this.#write(`id: ${id}\n\n`)
  }

  /** Says why, and closes. */
  end(why: string): void {
    this.#write(`: ${why}\n\n`)
    this.#timer?.cancel()
    this.#response.end()
  }

  #comment(): void {
    this.#timer = this.#runtime.setTimer(
      STREAM_COMMENT_EVERY_MS,
      () => {
        const id = this.#idle()
        this.#write(id === null ? ':\n\n' : `:\nid: ${id}\n\n`)
        this.#comment()
      },
      { keepAlive: false },
    )
  }

  #write(text: string): void {
    if (!this.isOpen) return
    this.#response.write(text)
    if (this.#response.writableLength > QUEUE_BYTES_MAX) this.#response.destroy()
  }
}
