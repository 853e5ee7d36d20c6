/** A process that is killed between any two statements of a commit leaves what is live and the ledger as before it or after it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { firstOddLease } from '../../src/cli/ledger-verdict.ts'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

const PROGRAM = path.resolve(import.meta.dirname, '../../dist-dev/test/store/killed-commit.js')
let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-killed-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

async function open(file: string): Promise<LeaseService> {
  const store = await SqliteStore.open({ path: file })
  return new LeaseService({ store, runtime: systemRuntime })
}

/** What is left of a store that held `work:a` when its process was killed before a statement, and null if it was not. */
async function killedBefore(statement: number): Promise<readonly string[] | null> {
  const file = path.join(directory, `${statement}.db`)
  const id = systemRuntime.uuid()
  const before = await open(file)
  const resource = parseResource('work:a')
  await before.acquire({ id, resource, holder: 'ada', session: 's', waitMs: 0 })
  await before.close()
  const child = spawn(process.execPath, [PROGRAM, file, id, String(statement)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [[code, signal], printed] = await Promise.all([once(child, 'exit'), text(child.stdout)])
  if (signal === null) {
    expect([code, Number(printed) < statement]).toEqual([0, true])
    return null
  }
  const after = await open(file)
  expect(await firstOddLease(after)).toBeNull()
  const events = (await after.history({})).map(({ event }) => event.type)
  const live = (await after.list({})).leases
  const held = live.map((lease) => `${lease.resource} renewed ${lease.renewals}`)
  await after.close()
  return [...held, ...events.slice(1)]
}

it('is whole after a kill at every statement of a renewal, a release and an acquire', async () => {
  const states: string[] = []
  for (let statement = 1; ; statement += 1) {
    const left = await killedBefore(statement)
    if (left === null) break
    if (states.at(-1) !== left.join(', ')) states.push(left.join(', '))
  }
  expect(states).toEqual([
    'work:a renewed 0',
    'work:a renewed 1, lease.renewed',
    'lease.renewed, lease.released',
  ])
})
