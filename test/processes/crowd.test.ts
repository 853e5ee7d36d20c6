/** A short form of crowd.proof.ts: nobody in a crowd loses what it holds, or is refused for a cycle that there is not. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { CONTENDED_STORES } from './contention-stores.ts'
import { crowd } from './crowd.ts'

let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-crowd-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

it.each(CONTENDED_STORES.map((store) => [store.name, store] as const))(
  '%s: 300 tasks of one client that wait for one resource keep what they hold',
  async (_name, store) => {
    await using place = await store.open(directory)
    const options = { processes: 1, tasks: 300, ttlMs: 30_000, forMs: 6_000 }
    const { reports, expired, queued } = await crowd({ store: place.url, ...options })
    expect(reports).toMatchObject([{ lost: 0, refused: 0 }])
    expect([expired, queued]).toEqual([0, 300])
  },
)
