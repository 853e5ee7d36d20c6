/** File leases on a store, in memory with time that stands still, or in a real SQLite file. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import {
  FileLeases,
  type LeaseAcquisitionResponse,
  type Refused,
  type FileLease,
} from '../../src/files/index.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { TickSource } from '../../src/runtime/tick-source.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

export interface Bench {
  readonly api: LeaseApi
  readonly files: FileLeases
}

export interface StillBench extends Bench {
  readonly runtime: FakeRuntime
}

/** A memory store whose time moves only when the test says so. */
export function stillBench(): StillBench {
  const runtime = new FakeRuntime()
  const store = new MemoryStore({ ticks: runtime.ticks })
  const api = new LeaseService({ store, runtime })
  return { runtime, api, files: new FileLeases(api, { runtime }) }
}

export function temporaryDirectory(): string {
  const directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-files-')))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** A process's share of a SQLite file; closed when the test ends. */
export async function sqliteBench(databasePath: string, ticks?: TickSource): Promise<Bench> {
  const clock = ticks === undefined ? {} : { ticks }
  const store = await SqliteStore.open({ path: databasePath, ...clock })
  const api = new LeaseService({ store, runtime: systemRuntime })
  const files = new FileLeases(api)
  onTestFinished(async () => {
    await files.close()
    await api.close()
  })
  return { api, files }
}

export function granted(response: {
  readonly success: boolean
  readonly lease?: FileLease
}): FileLease {
  if (response.lease === undefined) throw new Error(`refused: ${JSON.stringify(response)}`)
  return response.lease
}

export function refusal<Response extends { readonly success: boolean }>(
  response: Response,
): Extract<Response, Refused> {
  if (response.success) throw new Error(`not refused: ${JSON.stringify(response)}`)
  return response as Extract<Response, Refused>
}

/** Makes a request that has to wait; resolves when it has joined the queue. */
export async function queued<Answer>(
  api: LeaseApi,
  request: () => Promise<Answer>,
): Promise<{ readonly answer: Promise<Answer> }> {
  const after = (await api.history({ newestFirst: true, limit: 1 }))[0]?.position ?? '0'
  const answer = request()
  for await (const _event of api.watch({ after, types: ['lease.queued'] })) break
  return { answer }
}

export type Acquired = LeaseAcquisitionResponse
