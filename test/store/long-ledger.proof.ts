/** What a resource, a holder or a state has in a ledger of 1,000,000 events is found within 50 ms, without an index by name. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { makeLongLedger, medianMs, pruneHalf, QUESTIONS } from './long-ledger.ts'

const PAIRS = 500_000
const WITHIN_MS = 50
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-long-ledger-'))
const file = path.join(directory, 'leases.db')

beforeAll(() => makeLongLedger(file, PAIRS), 600_000)
afterAll(() => fs.rmSync(directory, { recursive: true, force: true }))

async function measure(when: string): Promise<void> {
  const store = await SqliteStore.open({ path: file })
  const api = new LeaseService({ store, runtime: systemRuntime })
  for (const [name, expected, ask] of QUESTIONS) {
    const found = await ask(api)
    const ms = await medianMs(() => ask(api))
    process.stdout.write(`${name}, ${when}: ${ms.toFixed(1)} ms\n`)
    expect([name, found]).toEqual([name, expected])
    expect([name, ms <= WITHIN_MS]).toEqual([name, true])
  }
  await api.close()
}

describe('in a ledger of 1,000,000 events', () => {
  it('each is found in time', async () => measure('among 1,000,000 events'), 600_000)

  it('also after half of it was pruned', async () => {
    await pruneHalf(file, PAIRS)
    await measure('after half was pruned')
  }, 600_000)
})
