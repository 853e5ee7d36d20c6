/** A server under load, and under whatever somebody may send. */
import { randomUUID } from 'node:crypto'
import http from 'node:http'
import { expect, it } from 'vitest'
import { fuzz } from './fuzz.ts'
import { ask, serving, type Answer } from './serving.ts'
import { openStream, type Reader } from './stream-reader.ts'

const STREAMS = 1_000
const WAITS = 2_000
const RESOURCES = 20
const BODIES = 100_000

interface LeaseAnswer {
  readonly lease: { readonly id: string; readonly fence: number; readonly holder: string }
}

interface Posted {
  /** Resolves when the request has left. */
  readonly sent: Promise<void>
  readonly answer: Promise<Answer<LeaseAnswer>>
}

/** One connection each: a pool would queue them on this side. */
function post(url: string, body: object): Posted {
  let leave: () => void = () => undefined
  const sent = new Promise<void>((resolve) => (leave = resolve))
  const answer = new Promise<Answer<LeaseAnswer>>((resolve, reject) => {
    const request = http.request(`${url}/v1/leases`, {
      method: 'POST',
      agent: false,
      headers: { 'Content-Type': 'application/json' },
    })
    request.once('error', reject)
    request.once('finish', leave)
    request.once('response', (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (part: string) => (text += part))
      response.once('end', () => {
        const status = response.statusCode ?? 0
        resolve({ status, headers: new Headers(), body: JSON.parse(text) as LeaseAnswer })
      })
    })
    request.end(JSON.stringify(body))
  })
  return { sent, answer }
}

it(`${STREAMS} streams and ${WAITS} waits at once: each stream sees all, each wait is served in turn`, async () => {
  const server = await serving()
  const hot = (index: number) => ({ resource: `work:${index % RESOURCES}`, ttlMs: 3_600_000 })
  const held: string[] = []
  while (held.length < RESOURCES) {
    const asked = { ...hot(held.length), holder: 'first' }
    held.push((await post(server.url, asked).answer).body.lease.id)
  }
  const streams: Reader[] = []
  for (let count = 0; count < STREAMS; count += 1) {
    // A few see every grant, the others the releases that they begin with.
    const type = count % 100 === 0 ? 'lease.issued' : 'lease.released'
    streams.push(await openStream(server.url, `/v1/events?types=${type}`))
  }
  const waits: Promise<Answer<LeaseAnswer>>[] = []
  while (waits.length < WAITS) {
    const asked = { id: randomUUID(), holder: `h-${waits.length}`, mode: 'shared', waitMs: 60_000 }
    const { sent, answer } = post(server.url, { ...hot(waits.length), ...asked })
    waits.push(answer)
    if (waits.length % 100 === 0) await sent
  }
  const answered = Promise.race(waits).then(({ status }) => {
    throw new Error(`a wait was answered with ${status} before all of them had been queued`)
  })
  const queued = async (): Promise<void> => {
    for (;;) {
      const { body } = await ask<string>(server.url, 'GET /metrics')
      if (body.includes(`tenure_waiting{kind="work"} ${WAITS}\n`)) return
    }
  }
  const filed = queued()
  await Promise.race([filed, answered])
  answered.catch(() => undefined)
  for (const id of held) {
    await ask(server.url, `POST /v1/leases/${id}/release`, { body: { holder: 'first' } })
  }
  const granted = await Promise.all(waits)
  expect(new Set(granted.map(({ status }) => status))).toEqual(new Set([201]))
  const expected = new Set(granted.map(({ body }) => body.lease.id))
  for (const [index, stream] of streams.entries()) {
    const wanted = index % 100 === 0 ? expected : new Set(held)
    const seen = new Set<string>()
    while (seen.size < wanted.size) seen.add((await stream.next()).data.event.leaseId)
    expect(seen).toEqual(wanted)
  }
})

it(`${BODIES} random bodies over all routes: no 500, no hang`, async () => {
  await fuzz(await serving({ role: 'operator' }), BODIES)
})
