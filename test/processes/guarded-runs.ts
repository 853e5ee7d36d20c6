/** What must be true of guarded writes in every kind of place, however many there are. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect } from 'vitest'
import { freshDatabase, freshRedis } from '../servers/shared-servers.ts'
import type { PlaceKind } from './guarded-place.ts'
import { runWriters, type GuardedRun } from './guarded-writers.ts'

export const PLACES: readonly PlaceKind[] = ['sqlite', 'postgres', 'redis', 'file']

/**
 * Whether anybody is late enough to be passed is up to the machine: runs in which nobody was prove nothing, and others
 * follow. The test's own timeout ends the wait.
 */
export async function expectNoLostUpdates(kind: PlaceKind, writes: number): Promise<void> {
  while (!(await wasDangerous(kind, writes)));
}

async function wasDangerous(kind: PlaceKind, writes: number): Promise<boolean> {
  const run = await runIn(kind, writes)
  process.stdout.write(
    `${kind}: ${run.accepted} guarded writes, ${run.refused} stale ones refused, ` +
      `${run.revocations} leases revoked; without a guard ` +
      `${run.unguarded - run.unguardedValue} of ${run.unguarded} were lost\n`,
  )
  // A stale write that was let through would have set the number back to what it had read.
  expect(run.guardedValue).toBe(run.accepted)
  expect(run.accepted + run.refused).toBe(run.unguarded)
  return run.refused > 0 && run.revocations > 0 && run.unguardedValue < run.unguarded
}

async function runIn(kind: PlaceKind, writes: number): Promise<GuardedRun> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-guarded-'))
  const place = await placeFor(kind, directory)
  try {
    const store = `sqlite:${path.join(directory, 'leases.db')}`
    return await runWriters({ kind, url: place.url, store, processes: 4, writes })
  } finally {
    await place.remove()
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

async function placeFor(
  kind: PlaceKind,
  directory: string,
): Promise<{ readonly url: string; remove(): Promise<void> }> {
  if (kind === 'postgres') return freshDatabase()
  if (kind === 'redis') return freshRedis()
  return { url: directory, remove: async () => undefined }
}
