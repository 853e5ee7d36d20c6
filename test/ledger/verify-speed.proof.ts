/**
 * How many chained events are verified in a second of processor time, and what sealing costs beside the work that
 * fills the ledger. What neighbours on the same machine take is not counted.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { openApi } from '../../src/open.ts'
import { parseResource } from '../../src/core/resource.ts'
import { LedgerChain } from '../../src/ledger/sealed-ledger.ts'
import { verifyLedger } from '../../src/ledger/verify-ledger.ts'
import type { LedgerEntry } from '../../src/store-port/store.ts'
import { livedWorld, wholeHistory } from './ledger-world.ts'
import { SEAL_KEYS, sealed } from './sealed-worlds.ts'

const EVENTS_PER_SECOND_MIN = 100_000
const EVENTS = 50_000
const ROUNDS = 5
const SEAL_SHARE_MAX = 0.1

function cpuUs(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}

it(`verifies ${EVENTS_PER_SECOND_MIN} chained events a second on one core`, async () => {
  const { store } = await livedWorld(21, 400)
  const history = await wholeHistory(store)
  const entries: LedgerEntry[] = []
  while (entries.length < EVENTS) {
    for (const { event } of history) entries.push({ position: `${entries.length + 1}`, event })
  }
  const ledger = sealed(entries, EVENTS)
  const rates: number[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = cpuUs()
    expect(verifyLedger(ledger, SEAL_KEYS).ok).toBe(true)
    rates.push((entries.length / (cpuUs() - before)) * 1e6)
  }
  const best = Math.round(Math.max(...rates))
  process.stdout.write(`ledger: ${best} chained events verified/s\n`)
  expect(best).toBeGreaterThanOrEqual(EVENTS_PER_SECOND_MIN)
})

it(`seals what a SQLite store records for less than ${SEAL_SHARE_MAX * 100} % of the work`, async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-seal-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const api = await openApi(`sqlite:${path.join(directory, 'a.db')}`, { holder: 'ada' })
  onTestFinished(() => api.close())
  const shares: number[] = []
  const chain = new LedgerChain()
  for (let round = 0; round < ROUNDS; round += 1) {
    const workUs = await measured(() => work(api, round))
    const sealUs = await measured(async () => {
      const after = chain.lastPosition === null ? {} : { after: chain.lastPosition }
      const entries = await api.history({ ...after, limit: 10_000 })
      const lines = entries.map((entry) => chain.append(entry))
      fs.appendFileSync(path.join(directory, 'events.ndjson'), `${lines.join('\n')}\n`)
    })
    shares.push(sealUs / (workUs + sealUs))
  }
  const share = shares.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? 1
  process.stdout.write(`sealing: ${(share * 100).toFixed(1)} % of the work it seals\n`)
  expect(chain.count).toBe(ROUNDS * PAIRS * 2)
  expect(share).toBeLessThan(SEAL_SHARE_MAX)
})

const PAIRS = 300

async function work(api: Awaited<ReturnType<typeof openApi>>, round: number): Promise<void> {
  for (let index = 0; index < PAIRS; index += 1) {
    const id = (round * PAIRS + index).toString(16).padStart(12, '0')
    const leaseId = `00000000-0000-4000-8000-${id}`
    const resource = parseResource(`work:${index % 10}`)
    const request = { id: leaseId, resource, holder: 'ada', session: 'ada', waitMs: 0 } as const
    await api.acquire({ ...request, ttlMs: 30_000 })
    await api.release({ id: leaseId, resource, holder: 'ada' })
  }
}

async function measured(act: () => Promise<void>): Promise<number> {
  const before = cpuUs()
  await act()
  return cpuUs() - before
}
