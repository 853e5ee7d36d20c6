/**
 * Several processes write one number through a guard, and another beside it without, while an operator revokes the lease
 * of whoever has it, now and then.
 */
import { fork } from 'node:child_process'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isLeaseError, openTenure } from '../../src/index.ts'
import { openPlace, RESOURCE, type PlaceKind } from './guarded-place.ts'

const WRITER = path.resolve(import.meta.dirname, '../../dist-dev/test/processes/guarded-writer.js')

export interface WriterReport {
  /** Guarded writes that were let through. */
  readonly accepted: number
  readonly refused: number
  /** Writes of the number that nobody guards; all of them went through. */
  readonly unguarded: number
}

export interface GuardedRun extends WriterReport {
  /** What the numbers were in the end. */
  readonly guardedValue: number
  readonly unguardedValue: number
  /** How often an operator took the lease from its holder. */
  readonly revocations: number
}

export interface RunOptions {
  readonly kind: PlaceKind
  /** A directory for what is kept in files, else the URL of a server. */
  readonly url: string
  readonly store: string
  readonly processes: number
  /** Of all of them together. */
  readonly writes: number
}

export async function runWriters(options: RunOptions): Promise<GuardedRun> {
  const { kind, url, processes } = options
  const place = await openPlace(kind, url)
  try {
    await place.create()
    const names = Array.from({ length: processes }, (_, index) => `writer-${index}`)
    const ending = new AbortController()
    const revoking = revokeNowAndThen(options.store, ending.signal)
    const written = Promise.all(names.map((holder) => runWriter(options, holder)))
    const reports = await written.finally(() => ending.abort())
    return {
      revocations: await revoking,
      accepted: sum(reports.map(({ accepted }) => accepted)),
      refused: sum(reports.map(({ refused }) => refused)),
      unguarded: sum(reports.map(({ unguarded }) => unguarded)),
      guardedValue: await place.read('guarded'),
      unguardedValue: await place.read('unguarded'),
    }
  } finally {
    await place.close()
  }
}

const REVOKED_WITHIN_MS = 200

async function revokeNowAndThen(store: string, signal: AbortSignal): Promise<number> {
  const tenure = await openTenure(store, { holder: 'operator' })
  let revocations = 0
  while (!signal.aborted) {
    await sleep(Math.random() * REVOKED_WITHIN_MS)
    try {
      const [lease] = (await tenure.inspect(RESOURCE)).leases
      if (lease === undefined) continue
      await tenure.revoke(lease.id, { reason: 'by an operator' })
      revocations += 1
    } catch (error) {
      // It was over already, or the store was busy.
      if (!isLeaseError(error)) throw error
    }
  }
  await tenure.close()
  return revocations
}

async function runWriter(options: RunOptions, holder: string): Promise<WriterReport> {
  const { store, kind, url, writes, processes } = options
  const args = [store, kind, url, holder, String(writes / processes)]
  const child = fork(WRITER, args, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  let stderr = ''
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  return new Promise((resolve, reject) => {
    let report: WriterReport | null = null
    child.on('message', (message) => (report = message as WriterReport))
    child.on('exit', (code) => {
      if (report !== null) resolve(report)
      else reject(new Error(`${holder} ended with ${code}: ${stderr}`))
    })
  })
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0)
}
