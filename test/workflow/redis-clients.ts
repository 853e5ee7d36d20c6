/** The clients of Redis that a bus must get along with. */
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import type { RedisBusClient } from '../../src/workflow/index.ts'

export interface Connected {
  readonly client: RedisBusClient
  close(): void
}

export const CLIENTS: Readonly<Record<string, (url: string) => Promise<Connected>>> = {
  ioredis: async (url) => {
    const client = new Redis(url)
    client.on('error', () => undefined)
    return { client, close: () => client.disconnect() }
  },
  'node-redis': async (url) => {
    const client = createClient({ url })
    client.on('error', () => undefined)
    await client.connect()
    return { client, close: () => client.destroy() }
  },
}

/** How long a busy machine may take. */
export const WITHIN = { timeout: 15_000 }
