/** What ends a watch over HTTP, and what it survives; the same of wake-ups. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { WakeStreams, watchEvents } from '../../src/http-client/event-streams.ts'
import type { HttpServers } from '../../src/http-client/http-servers.ts'
import type { Runtime } from '../../src/runtime/runtime.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { sessionDigest } from '../../src/service/session-digest.ts'

const MARK = 'id: 7\n\n'

/** A server whose answers are these, one after the other; an error is how it refuses. */
function answering(...answers: readonly unknown[]): {
  readonly servers: HttpServers
  asked: number
} {
  const served = {
    asked: 0,
    servers: {
      stream: async () => {
        const answer = answers[served.asked++]
        if (answer instanceof Error) throw answer
        return { response: answer as IncomingMessage, url: null }
      },
      onMove: () => () => undefined,
      current: null,
    } as unknown as HttpServers,
  }
  return served
}

function watching(
  servers: HttpServers,
  stop: AbortController = new AbortController(),
  runtime: Runtime = systemRuntime,
) {
  const positions: string[] = []
  const observer = {
    ...{ onAway: () => undefined, onBack: () => undefined },
    onPosition: (position: string) => {
      positions.push(position)
      if (positions.length === 2) stop.abort()
    },
  }
  const sources = { servers, runtime, signal: stop.signal, observer }
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

/** Where nothing is waited for, but written down, four times. */
function unhurried(pausesMs: number[], onFourth: () => void): Runtime {
  return {
    ...systemRuntime,
    random: () => 1,
    setTimer: (delayMs, callback, options) => {
      if (pausesMs.push(delayMs) === 4) onFourth()
      return systemRuntime.setTimer(0, callback, options)
    },
  }
}

it('a stream that ends before it begins is opened again after growing pauses', async () => {
  const stop = new AbortController()
  const pausesMs: number[] = []
  const runtime = unhurried(pausesMs, () => stop.abort())
  const served = answering(
    Readable.from([MARK]),
    ...Array.from({ length: 5 }, () => Readable.from([])),
  )
  const { events } = watching(served.servers, stop, runtime)
  expect(await events.next()).toMatchObject({ done: true })
  expect(pausesMs).toEqual([100, 200, 400, 800])
})

it('streams that are cut as soon as they stand are opened again after growing pauses', async () => {
  const stop = new AbortController()
  const pausesMs: number[] = []
  const runtime = unhurried(pausesMs, () => stop.abort())
  const served = answering(...Array.from({ length: 6 }, () => Readable.from([MARK])))
  const observer = { onAway: () => undefined, onBack: () => undefined, onPosition: () => undefined }
  const events = watchEvents({ ...served, runtime, signal: stop.signal, observer }, {})
  expect(await events.next()).toMatchObject({ done: true })
  expect([served.asked, pausesMs]).toEqual([5, [100, 200, 400, 800]])
})

it('so are those of wake-ups', async () => {
  const pausesMs: number[] = []
  const served = answering(
    ...Array.from({ length: 6 }, () => Readable.from(['data: {"leaseIds":null}\n\n'])),
  )
  let stop = (): void => undefined
  const wakes = new WakeStreams(
    served.servers,
    unhurried(pausesMs, () => stop()),
  )
  stop = await wakes.subscribe('one', () => undefined)
  await expect.poll(() => pausesMs).toEqual([0, 100, 200, 400])
  expect(served.asked).toBe(4)
})

const TOO_MANY = { details: { limit: 1 }, retryable: true }

it('a server that has too many requests of the token at the moment is asked again', async () => {
  const refusal = new LeaseError('LIMIT_EXCEEDED', 'ann must make at most 1 request', TOO_MANY)
  const served = answering(Readable.from([MARK]), refusal, Readable.from([MARK]))
  const { events, positions } = watching(served.servers)
  expect(await events.next()).toMatchObject({ done: true })
  expect([served.asked, positions]).toEqual([3, ['7', '7']])
})

it('a watch that has read nothing yet is refused as it is told', async () => {
  const refusal = new LeaseError('LIMIT_EXCEEDED', 'ann must have at most 1 stream', TOO_MANY)
  const { events } = watching(answering(refusal).servers)
  await expect(events.next()).rejects.toBe(refusal)
})

it('a first stream that ends before it begins ends the watch', async () => {
  const served = answering(Readable.from(['<html></html>']))
  const { events } = watching(served.servers)
  await expect(events.next()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
})

it('a mistake of the program that reads a stream is told, not repeated', async () => {
  const served = answering({ destroy: () => undefined })
  const { events } = watching(served.servers)
  await expect(events.next()).rejects.toBeInstanceOf(TypeError)
  expect(served.asked).toBe(1)
})

it('wake-ups whose stream ends before it begins are told of as missing, and of others the stream goes on', async () => {
  const stands = new Readable({ read: () => undefined })
  stands.push('data: {"leaseIds":null}\n\n')
  const served = answering(stands, Readable.from(['<html></html>']))
  const wakes = new WakeStreams(served.servers, systemRuntime)
  const heard: unknown[] = []
  const stop = await wakes.subscribe('one', ({ leaseIds }) => heard.push(leaseIds))
  const second = wakes.subscribe('two', () => undefined)
  await expect(second).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  const event = {
    session: sessionDigest('one'),
    leaseIds: ['00000000-0000-4000-8000-000000000001'],
  }
  stands.push(`data: ${JSON.stringify(event)}\n\n`)
  await expect.poll(() => heard).toEqual([event.leaseIds])
  expect(stands.destroyed).toBe(false)
  stop()
  expect(stands.destroyed).toBe(true)
  expect(served.asked).toBe(2)
})
