/** Several processes write one number through a guard, and another beside it without. */
import { fork } from 'node:child_process'
import path from 'node:path'
import { openPlace, type PlaceKind } from './guarded-place.ts'

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
    const reports = await Promise.all(names.map((holder) => runWriter(options, holder)))
    return {
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
