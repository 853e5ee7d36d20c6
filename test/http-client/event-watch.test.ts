/** What ends a watch over HTTP, and what it survives. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { watchEvents } from '../../src/http-client/event-streams.ts'
import type { HttpServers } from '../../src/http-client/http-servers.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'

const MARK = 'id: 7\n\n'

/** A server whose answers are these, one after the other. */
function answering(...answers: readonly unknown[]): {
  readonly servers: HttpServers
  asked: number
} {
  const served = {
    asked: 0,
    servers: {
      stream: async () => ({ response: answers[served.asked++] as IncomingMessage, url: null }),
    } as unknown as HttpServers,
  }
  return served
}

function watching(servers: HttpServers, stop = new AbortController()) {
  const positions: string[] = []
  const observer = {
    ...{ onAway: () => undefined, onBack: () => undefined },
    onPosition: (position: string) => {
      positions.push(position)
      if (positions.length === 2) stop.abort()
    },
  }
  const sources = { servers, runtime: systemRuntime, signal: stop.signal, observer }
  return { events: watchEvents(sources, {}), positions }
}

it('a stream that is cut is opened again', async () => {
  const cut = new Readable({ read: () => undefined })
  cut.push(MARK)
  setImmediate(() => cut.destroy(new Error('read ECONNRESET')))
  const served = answering(cut, Readable.from([MARK]))
  const { events, positions } = watching(served.servers)
  expect(await events.next()).toMatchObject({ done: true })
  expect([served.asked, positions]).toEqual([2, ['7', '7']])
})

it('a mistake of the program that reads a stream is told, not repeated', async () => {
  const served = answering({ destroy: () => undefined })
  const { events } = watching(served.servers)
  await expect(events.next()).rejects.toBeInstanceOf(TypeError)
  expect(served.asked).toBe(1)
})
