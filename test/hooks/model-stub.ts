/** A model's API on loopback: it wants one edit, is told what came of it, and is done. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

export interface ModelStub {
  readonly url: string
  /** What the client sent, in order. */
  readonly requests: readonly string[]
}

/** What a request is answered with: one event of a stream after the other, as JSON. */
export type Answer = (
  request: string,
  count: number,
) => readonly Readonly<Record<string, unknown>>[]

export async function modelStub(answer: Answer): Promise<ModelStub> {
  const requests: string[] = []
  const server = http.createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const body = Buffer.concat(parts).toString()
      requests.push(body)
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      for (const event of answer(body, requests.length)) {
        const name = typeof event['type'] === 'string' ? `event: ${event['type']}\n` : ''
        response.write(`${name}data: ${JSON.stringify(event)}\n\n`)
      }
      response.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}
