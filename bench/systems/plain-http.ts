/** One call of HTTP each over kept-alive connections, as a program in any language makes them. */
import http from 'node:http'
import type { OpenSystem } from '../system.ts'

export class PlainHttp {
  readonly #agent: http.Agent
  readonly #url: string

  constructor(url: string, connections: number) {
    this.#url = url
    this.#agent = new http.Agent({ keepAlive: true, maxSockets: connections })
  }

  /** Throws what is no success. */
  post<Answer>(path: string, body: object): Promise<Answer> {
    const text = JSON.stringify(body)
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(text),
    }
    return new Promise((resolve, reject) => {
      const options = { method: 'POST', agent: this.#agent, headers }
      const request = http.request(`${this.#url}${path}`, options, (response) => {
        const parts: Buffer[] = []
        response.on('data', (part: Buffer) => parts.push(part))
        response.once('error', reject)
        response.once('end', () => {
          const told = Buffer.concat(parts).toString()
          const { statusCode = 0 } = response
          if (statusCode < 300) resolve(JSON.parse(told) as Answer)
          else reject(new Error(`${path} was answered with ${statusCode}: ${told.trim()}`))
        })
      })
      request.once('error', reject)
      request.end(text)
    })
  }

  close(): void {
    this.#agent.destroy()
  }
}

/** Against a server of Tenure. */
export function plainCalls(url: string, connections: number): OpenSystem<string> {
  const calls = new PlainHttp(url, connections)
  const holder = `process-${process.pid}`
  return {
    acquire: async (name, ttlMs) => {
      const body = { resource: `work:${name}`, holder, ttlMs, waitMs: 60_000 }
      const { lease } = await calls.post<{ lease: { id: string } }>('/v1/leases', body)
      return lease.id
    },
    release: async (id) => {
      await calls.post(`/v1/leases/${id}/release`, { holder })
    },
    close: async () => calls.close(),
  }
}
