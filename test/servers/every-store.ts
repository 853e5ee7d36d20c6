/** An empty store of every kind, for as long as a test runs. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { randomUUID } from 'node:crypto'
import { onTestFinished } from 'vitest'
import { freshDatabase, freshRedis, type Place } from './shared-servers.ts'

export const EVERY_STORE = ['memory', 'sqlite', 'redis', 'postgres'] as const

const OPEN: Readonly<Record<(typeof EVERY_STORE)[number], () => Promise<string>>> = {
  memory: async () => `memory:${randomUUID()}`,
  sqlite: async () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-store-'))
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
    return `sqlite:${directory}/leases.db`
  },
  redis: () => served(freshRedis()),
  postgres: () => served(freshDatabase()),
}

/** The URL of an empty store of this kind; it goes with the test that asked for it. */
export function freshStoreOf(kind: (typeof EVERY_STORE)[number]): Promise<string> {
  return OPEN[kind]()
}

async function served(opening: Promise<Place>): Promise<string> {
  const place = await opening
  onTestFinished(async () => place.remove())
  return place.url
}
