import { spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTenure } from '../../src/index.ts'
import { FencedFiles } from '../processes/fenced-files.ts'
import { freshDatabase, freshRedis, type Place } from '../servers/shared-servers.ts'
import type { PausedHolderReport } from './paused-holder.ts'

const HOLDER = path.resolve(import.meta.dirname, '../../dist-dev/test/faults/paused-holder.js')
const RESOURCE = 'work:w'
/** Long enough for a holder to see that it holds it, on a busy machine too. */
const TTL_MS = 2_000
let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-paused-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

const STORES: readonly (readonly [name: string, open: () => Promise<Place>])[] = [
  ['sqlite', async () => placeOf(`sqlite:${path.join(directory, 'leases.db')}`)],
  ['postgres', () => freshDatabase()],
  ['redis', () => freshRedis()],
]

function placeOf(url: string): Place {
  const remove = async (): Promise<void> => {}
  return { url, remove, [Symbol.asyncDispose]: remove }
}

function startHolder(store: string, writes: string) {
  const args = [HOLDER, store, writes, RESOURCE, String(TTL_MS)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (bytes: Buffer) => (output += bytes.toString()))
  const report = new Promise<PausedHolderReport>((resolve, reject) => {
    child.once('close', (code) => {
      if (code === 0) resolve(JSON.parse(output) as PausedHolderReport)
      else reject(new Error(`the holder ended with ${code}`))
    })
  })
  return { process: child, report }
}

describe.each(STORES)('%s', (_name, open) => {
  it('refuses the fenced write of a holder that slept past its TTL', async () => {
    await using place = await open()
    const writes = path.join(directory, 'writes.db')
    const files = await FencedFiles.open(writes)
    await using tenure = await openTenure(place.url, { holder: 'awake' })
    const paused = startHolder(place.url, writes)
    try {
      // The one that is awake asks second.
      while ((await tenure.history({ types: ['lease.issued'] })).length === 0) await sleep(10)
      const lease = await tenure.acquire(RESOURCE, { ttlMs: 30_000, waitMs: 10_000 })
      expect(files.write(RESOURCE, lease.fence)).toBe(true)
      paused.process.kill('SIGCONT')
      const report = await paused.report
      expect(report).toMatchObject({ stateBefore: 'held', accepted: false, stateAfter: 'lost' })
      expect(report.fence).toBeLessThan(lease.fence)
      expect(files.taken()).toEqual([{ resource: RESOURCE, fence: lease.fence }])
    } finally {
      paused.process.kill('SIGKILL')
      files.close()
    }
  })
})
