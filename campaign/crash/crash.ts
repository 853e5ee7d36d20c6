/**
 * A process that is killed at every system call of a commit that changes a file: each write, sync, truncation, rename and
 * removal, one after the other. What it had answered is in the store afterwards, and the rest is there whole or not at all.
 */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { firstOddLease } from '../../src/cli/ledger-verdict.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { openApi } from '../../src/open.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { ManualTicks } from '../../src/testing/manual-ticks.ts'
import { makeOldStore } from '../../test/fixtures/sqlite-old-layout.ts'
import { ROOT, type Part, type Step, type StepOutcome } from '../part.ts'
import {
  COMMIT_KINDS,
  LEASE_ID,
  NEXT_ID,
  RECEIVER,
  SEVERAL,
  type CommitKind,
  type CrashOrder,
} from './crash-subject.ts'

const SUBJECT = path.join(ROOT, 'dist-dev', 'campaign', 'crash', 'crash-process.js')
const CALLS = 'pwrite64,pwritev,fsync,fdatasync,ftruncate,rename,renameat,renameat2,unlink,unlinkat'
const WHOLE_MINUTES = 15
const OLD_EVENTS = 40
const AT_ONCE = 2

type Synchronous = 'full' | 'normal'

interface Ended {
  readonly isAnswered: boolean
  readonly isKilled: boolean
  readonly file: string
  /** What strace wrote down, one call a line. */
  readonly calls: readonly string[]
}

/** Runs the subject in a folder of its own; `killAt` counts the calls of the whole process. */
async function runOnce(
  folder: string,
  { kind, synchronous }: { readonly kind: CommitKind; readonly synchronous: Synchronous },
  killAt: number | null,
): Promise<Ended> {
  fs.mkdirSync(folder)
  const file = path.join(folder, 'leases.db')
  const marker = path.join(folder, 'marker')
  const trace = path.join(folder, 'trace')
  fs.writeFileSync(marker, '')
  if (kind === 'migration') await makeOld(file)
  const order: CrashOrder = { store: `sqlite:${file}?synchronous=${synchronous}`, kind, marker }
  const inject = killAt === null ? [] : ['-e', `inject=${CALLS}:signal=SIGKILL:when=${killAt}`]
  const traced = ['-qq', '-o', trace, '-e', `trace=${CALLS}`, ...inject]
  const args = [...traced, process.execPath, SUBJECT, JSON.stringify(order)]
  return new Promise((resolve, reject) => {
    execFile('strace', args, (error, stdout, stderr) => {
      const isKilled = error?.signal === 'SIGKILL' || error?.code === 137
      if (error !== null && !isKilled) return reject(new Error(`${kind}: ${stderr.slice(-400)}`))
      const calls = fs
        .readFileSync(trace, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
      resolve({ isAnswered: stdout.includes('answered'), isKilled, file, calls })
    })
  })
}

async function makeOld(file: string): Promise<void> {
  const Driver = await loadSqlite()
  const database = new Driver(file)
  database.pragma('journal_mode = WAL')
  makeOldStore(database, { live: 0, events: OLD_EVENTS }, new ManualTicks())
  database.close()
}

/** What is wrong with what a killed process left. */
async function problemsOf(
  { file, isAnswered }: Ended,
  kind: CommitKind,
): Promise<readonly string[]> {
  const Driver = await loadSqlite()
  const database = new Driver(file)
  const verdict = String(database.pragma('quick_check', { simple: true }))
  database.close()
  if (verdict !== 'ok') return [`quick_check says ${verdict}`]
  const api = await openApi(`sqlite:${file}`)
  try {
    const odd = await firstOddLease(api)
    if (odd !== null) return [`lease ${odd} is not what the ledger tells of it`]
    const problem = await PROBLEM[kind](api, isAnswered)
    return problem === null ? [] : [`${isAnswered ? 'answered' : 'not answered'}: ${problem}`]
  } finally {
    await api.close()
  }
}

async function stateOf(api: LeaseApi, id: string): Promise<string | null> {
  return (await api.get({ id }))?.state ?? null
}

const PROBLEM: Readonly<
  Record<CommitKind, (api: LeaseApi, isAnswered: boolean) => Promise<string | null>>
> = {
  grant: async (api, isAnswered) => {
    const state = await stateOf(api, LEASE_ID)
    if (state === 'active' || (state === null && !isAnswered)) return null
    return `the lease is ${state}`
  },
  renew: async (api, isAnswered) => {
    const lease = await api.get({ id: LEASE_ID })
    const isWell = lease?.state === 'active' && (lease.renewals === 1 || !isAnswered)
    return isWell ? null : `the lease is ${lease?.state}, renewed ${lease?.renewals} times`
  },
  'release with a hand-over': async (api, isAnswered) => {
    const [first, next] = [await stateOf(api, LEASE_ID), await stateOf(api, NEXT_ID)]
    if (first === 'released' && next === 'active') return null
    // Two commits, or one: the waiter may still have its ticket.
    const isBetween = (first === 'active' || first === 'released') && next === 'pending'
    return isBetween && !isAnswered ? null : `the leases are ${first} and ${next}`
  },
  'acquire several': async (api, isAnswered) => {
    const { leases } = await api.list({ state: 'active' })
    const isWell = leases.length === SEVERAL.length || (leases.length === 0 && !isAnswered)
    return isWell ? null : `${leases.length} of ${SEVERAL.length} are held`
  },
  transfer: async (api, isAnswered) => {
    const { leases } = await api.list({ state: 'active' })
    const holders = leases.map(({ holder }) => holder)
    if (leases.length !== 1) return `held by ${JSON.stringify(holders)}`
    return isAnswered && holders[0] !== RECEIVER ? `still held by ${holders[0]}` : null
  },
  prune: async () => null,
  migration: async (api) => {
    const events = await api.history({ limit: 1_000, refusals: false })
    return events.length === OLD_EVENTS ? null : `${events.length} of ${OLD_EVENTS} events`
  },
}

function step(synchronous: Synchronous): Step {
  return {
    name: `synchronous=${synchronous}`,
    minutes: WHOLE_MINUTES,
    run: ({ minutes, say }) => runAll(synchronous, performance.now() + minutes * 60_000, say),
  }
}

async function runAll(
  synchronous: Synchronous,
  untilMs: number,
  say: (text: string) => void,
): Promise<StepOutcome> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-crash-'))
  const failures: string[] = []
  const counts = { kills: 0, 'kinds of commit': 0, 'after the answer': 0 }
  let number = 0
  const fresh = (): string => path.join(folder, String((number += 1)))
  try {
    for (const kind of COMMIT_KINDS) {
      const subject = { kind, synchronous }
      const whole = await runOnce(fresh(), subject, null)
      const first = whole.calls.findIndex((line) => line.includes('/marker"')) + 1
      if (first === 0) throw new Error(`${kind}: the marker was not removed`)
      const ats = Array.from(
        { length: whole.calls.length - first },
        (_, index) => first + 1 + index,
      )
      const killOne = async (): Promise<void> => {
        for (
          let at = ats.shift();
          at !== undefined && performance.now() < untilMs;
          at = ats.shift()
        ) {
          const ended = await runOnce(fresh(), subject, at)
          const problems = await problemsOf(ended, kind)
          failures.push(...problems.map((problem) => `${kind}, killed at call ${at}: ${problem}`))
          if (ended.isKilled) counts.kills += 1
          if (ended.isKilled && ended.isAnswered) counts['after the answer'] += 1
          say(`${kind}, ${counts.kills} kills`)
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, killOne))
      if (ats.length === 0) counts['kinds of commit'] += 1
    }
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
  return { counts, failures, shortfalls: [] }
}

export const crash: Part = {
  name: 'crash',
  about:
    'For each kind of SQLite commit (grant, renewal, release with a hand-over, several at once, transfer, prune, migration) a process is killed at every system call that changes a file, by strace: ' +
    'what was answered is there afterwards, the rest is there whole or not at all, `quick_check` is content, and the ledger tells what the store keeps.',
  steps: [step('full'), step('normal')],
  atLeast: { kills: 100, 'kinds of commit': 2 * COMMIT_KINDS.length },
}
