/**
 * One agent of the demo, a process of its own: goes round the files, waits for its turn at each, works a while, writes
 * a line and hands the file on. Each write is guarded: a line and the mark of its fence are one transaction, so that an agent that
 * was paused before it writes nothing once a later holder has. It reports what it does and ends when it is told to, or when the
 * demo is gone.
 */
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Lease, Tenure } from '../client/contract.ts'
import { isLeaseError, messageOf } from '../core/errors.ts'
import { loadSqlite, type SqliteDatabase } from '../drivers/sqlite-driver.ts'
import { guard } from '../guard/index.ts'
import { openTenure } from '../open.ts'
import {
  monotonicUs,
  type Assignment,
  type AgentReport,
  type ReportKind,
  type AgentRole,
} from './report.ts'

const WORK_MS_MIN = 300
const WORK_MS_SPREAD = 400
const REST_MS = 40
const WAIT_MS = 60_000
/** The one that is to be killed clings to its lease for so long, and renews it all the while. */
const CLING_MS = 20_000
/** The one that is to be stopped stands still for so long, well within its TTL, in case it is not stopped. */
const STILL_MS = 1_000
/** How long a write waits for that of another agent. */
const BUSY_MS = 5_000

const startedMs = performance.now()
let finishing = false
let finished = false
let played = false

process.on('SIGINT', () => undefined)
process.once('disconnect', () => process.exit(finished ? 0 : 1))
process.once('message', (assignment: Assignment) => {
  process.once('message', () => {
    finishing = true
  })
  void work(assignment).then(end, fail)
})

function end(): void {
  finished = true
  process.disconnect()
}

function fail(error: unknown): void {
  process.stderr.write(`${messageOf(error)}\n`)
  process.exit(1)
}

async function work(assignment: Assignment): Promise<void> {
  const { name, files, firstFile, storeUrl } = assignment
  const tenure = await openTenure(storeUrl, { holder: name })
  const marks = await openMarks(path.dirname(files[0] ?? ''))
  try {
    for (let turn = firstFile; !finishing; turn += 1) {
      const index = turn % files.length
      const file = files[index]
      if (file === undefined) return
      await takeTurn({ assignment, tenure, file, marks })
      await pause(REST_MS)
    }
  } finally {
    marks.close()
    await tenure.close()
  }
}

interface Turn {
  readonly assignment: Assignment
  readonly tenure: Tenure
  readonly file: string
  readonly marks: SqliteDatabase
}

async function takeTurn(turn: Turn): Promise<void> {
  const { assignment, file } = turn
  const tell = (kind: ReportKind, fence: number, value = 0): void => {
    const report = { kind, agent: assignment.name, file: path.basename(file) }
    process.send?.({ ...report, fence, value, atUs: monotonicUs() } satisfies AgentReport)
  }
  tell('asks', 0)
  const lease = await acquireInTime(turn)
  if (lease === null) return
  tell('holds', lease.fence, ownDeadlineUs(lease))
  lease.on('renewed', () => tell('renewed', lease.fence, ownDeadlineUs(lease)))
  await edit(assignment)
  if (lease.state === 'lost') return tell('lost', lease.fence)

  // Nothing looks at the lease between here and the write. However short, a process can be paused in this gap for
  // longer than its TTL, and no lease can help it: only the fence, checked where the write happens, can.
  const isPlaying = isCue(assignment, 'stopped')
  if (isPlaying) {
    tell('about_to_write', lease.fence)
    standStill()
  }
  const later = append(turn, lease)
  if (later === null) tell('wrote', lease.fence)
  else tell('refused', lease.fence, later)
  if (isPlaying && later === null) played = false
  await handOn(lease, tell)
}

/** Null for a lease that was over before it arrived, as on a disk that stands still for longer than the TTL. */
async function acquireInTime({ assignment, tenure, file }: Turn): Promise<Lease | null> {
  const reason = `editing ${path.basename(file)}`
  const { ttlMs } = assignment
  try {
    return await tenure.acquire(`file:${file}`, { ttlMs, waitMs: WAIT_MS, reason })
  } catch (error) {
    if (isLeaseError(error) && error.code === 'LEASE_EXPIRED') return null
    throw error
  }
}

/** Null when it was written; else the fence of the later holder. */
function append({ assignment, file, marks }: Turn, lease: Lease): number | null {
  const line = `${lease.fence} ${assignment.name}\n`
  try {
    guard.sqlite(marks).write(lease, () => fs.appendFileSync(file, line))
    return null
  } catch (error) {
    if (!isLeaseError(error) || error.code !== 'STALE_FENCE') throw error
    const { fence } = error.details['mark'] as { readonly fence: number }
    return fence
  }
}

async function openMarks(directory: string): Promise<SqliteDatabase> {
  const Driver = await loadSqlite()
  const marks = new Driver(path.join(directory, 'marks.db'), { timeout: BUSY_MS })
  guard.sqlite(marks).init()
  return marks
}

async function handOn(
  lease: Lease,
  tell: (kind: ReportKind, fence: number) => void,
): Promise<void> {
  if (lease.state === 'lost') return tell('lost', lease.fence)
  tell('released', lease.fence)
  await lease[Symbol.asyncDispose]()
}

function ownDeadlineUs(lease: Lease): number {
  return monotonicUs() + lease.remainingMs * 1000
}

async function edit(assignment: Assignment): Promise<void> {
  await pause(isCue(assignment, 'killed') ? CLING_MS : WORK_MS_MIN + Math.random() * WORK_MS_SPREAD)
}

/** Whether it is time for the agent to play its part; it does so until it succeeds. */
function isCue({ role, cueMs }: Assignment, part: AgentRole): boolean {
  if (played || role !== part || performance.now() - startedMs < cueMs) return false
  played = true
  return true
}

/** Blocks the whole process, timers and renewals included: it is in the middle of a system call, so to speak. */
function standStill(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, STILL_MS)
}
