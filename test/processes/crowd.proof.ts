/**
 * Crowds at full size: 2,000 in one process with leases of 5 s, and 10,000 in four with leases of 60 s, all waiting for
 * one resource under what they hold. Nothing is lost, and nobody is refused.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { CONTENDED_STORES } from './contention-stores.ts'
import { crowd } from './crowd.ts'

const CROWDS = [
  { processes: 1, tasks: 2_000, ttlMs: 5_000, forMs: 30_000 },
  { processes: 4, tasks: 2_500, ttlMs: 60_000, forMs: 60_000 },
] as const

let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-crowd-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

const CASES = CROWDS.flatMap((one) => CONTENDED_STORES.map((store) => ({ ...one, store })))

it.each(CASES)(
  '$store.name: $processes × $tasks tasks keep leases of $ttlMs ms for $forMs ms',
  async ({ store, ...options }) => {
    await using place = await store.open(directory)
    const { reports, expired, queued } = await crowd({ store: place.url, ...options })
    const longestBlockMs = Math.max(...reports.map((report) => report.longestBlockMs))
    const bytesRead = reports.reduce((sum, report) => sum + report.bytesRead, 0)
    const { processes, tasks } = options
    const figures = `longest block ${longestBlockMs} ms, ${Math.round(bytesRead / 1e6)} MB read`
    process.stdout.write(`${store.name} ${processes} × ${tasks}: ${figures}\n`)
    const kept = { lost: 0, refused: 0 }
    expect(reports).toMatchObject(Array.from({ length: processes }, () => kept))
    expect([expired, queued]).toEqual([0, processes * tasks])
  },
)
