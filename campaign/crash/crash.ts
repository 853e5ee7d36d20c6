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
import { ManualTicks } from '../../src/testing/fake-runtime.ts'
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

/** A call of the system by its name, and how many of that name the process has made with it: strace counts each by itself. */
interface Call {
  readonly name: string
  readonly number: number
}

/** The calls of a trace, in order. */
function callsIn(lines: readonly string[]): readonly Call[] {
  const numbers = new Map<string, number>()
  return lines.map((line) => {
    const name = /^\w+/.exec(line)?.[0] ?? ''
    const number = (numbers.get(name) ?? 0) + 1
    numbers.set(name, number)
    return { name, number }
  })
}

/** Runs the subject in a folder of its own, and kills it when it makes a call, unless null. */
async function runOnce(
  folder: string,
  { kind, synchronous }: { readonly kind: CommitKind; readonly synchronous: Synchronous },
  killAt: Call | null,
): Promise<Ended> {
  fs.mkdirSync(folder)
  const file = path.join(folder, 'leases.db')
  const marker = path.join(folder, 'marker')
  const trace = path.join(folder, 'trace')
  fs.writeFileSync(marker, '')
  if (kind === 'migration') await makeOld(file)
  const order: CrashOrder = { file, synchronous, kind, marker }
  const kill = `inject=${killAt?.name}:signal=SIGKILL:when=${killAt?.number}`
  const inject = killAt === null ? [] : ['-e', kill]
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

/** After its answer the process closes its client, which releases what it holds. */
function isClosed(state: string | null | undefined, isAnswered: boolean): boolean {
  return isAnswered && state === 'released'
}

const PROBLEM: Readonly<
  Record<CommitKind, (api: LeaseApi, isAnswered: boolean) => Promise<string | null>>
> = {
  grant: async (api, isAnswered) => {
    const state = await stateOf(api, LEASE_ID)
    if (state === 'active' || isClosed(state, isAnswered)) return null
    if (state === null && !isAnswered) return null
    return `the lease is ${state}`
  },
  renew: async (api, isAnswered) => {
    const lease = await api.get({ id: LEASE_ID })
    const isThere = lease?.state === 'active' || isClosed(lease?.state, isAnswered)
    const isWell = isThere && (lease?.renewals === 1 || !isAnswered)
    return isWell ? null : `the lease is ${lease?.state}, renewed ${lease?.renewals} times`
  },
  'release with a hand-over': async (api, isAnswered) => {
    const [first, next] = [await stateOf(api, LEASE_ID), await stateOf(api, NEXT_ID)]
    if (first === 'released' && (next === 'active' || isClosed(next, isAnswered))) return null
    // Two commits, or one: the waiter may still have its ticket.
    const isBetween = (first === 'active' || first === 'released') && next === 'pending'
    return isBetween && !isAnswered ? null : `the leases are ${first} and ${next}`
  },
  'acquire several': async (api, isAnswered) => {
    const issued = await api.history({ types: ['lease.issued'], refusals: false })
    const isWell = issued.length === SEVERAL.length || (issued.length === 0 && !isAnswered)
    return isWell ? null : `${issued.length} of ${SEVERAL.length} were granted`
  },
  transfer: async (api, isAnswered) => {
    const { leases } = await api.list({ state: 'active' })
    const holders = leases.map(({ holder }) => holder)
    if (leases.length !== 1) return `held by ${JSON.stringify(holders)}`
    return isAnswered && holders[0] !== RECEIVER ? `still held by ${holders[0]}` : null
  },
  prune: async (api, isAnswered) => {
    const events = await api.history({ limit: 1_000, refusals: false })
    return isAnswered && events.length > 0 ? `${events.length} events are left` : null
  },
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
  const trial = new CrashTrial(folder, synchronous, untilMs)
  try {
    for (const kind of COMMIT_KINDS) await trial.killAtEveryCall(kind, say)
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
  const { kills, kinds, afterAnswer, failures } = trial
  const counts = { kills, 'kinds of commit': kinds, 'kills after the answer': afterAnswer }
  return { counts, failures, shortfalls: [] }
}

class CrashTrial {
  kills = 0
  /** Kinds of commit of which every call has had its kill. */
  kinds = 0
  afterAnswer = 0
  readonly failures: string[] = []
  readonly #folder: string
  readonly #synchronous: Synchronous
  readonly #untilMs: number
  #runs = 0

  constructor(folder: string, synchronous: Synchronous, untilMs: number) {
    this.#folder = folder
    this.#synchronous = synchronous
    this.#untilMs = untilMs
  }

  get #isOver(): boolean {
    return performance.now() > this.#untilMs
  }

  async killAtEveryCall(kind: CommitKind, say: (text: string) => void): Promise<void> {
    if (this.#isOver) return
    const whole = await this.#run(kind, null)
    const first = whole.calls.findIndex((line) => line.includes('/marker"')) + 1
    if (first === 0) throw new Error(`${kind}: the marker was not removed`)
    const calls = callsIn(whole.calls).slice(first)
    let next = 0
    const killSome = async (): Promise<void> => {
      for (let call = calls[next]; call !== undefined && !this.#isOver; call = calls[next]) {
        next += 1
        await this.#killAt(kind, call)
        say(`${kind}, ${this.kills} kills`)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, killSome))
    if (next === calls.length) this.kinds += 1
  }

  async #killAt(kind: CommitKind, call: Call): Promise<void> {
    const ended = await this.#run(kind, call)
    const problems = await problemsOf(ended, kind)
    const at = `killed at ${call.name} ${call.number}`
    this.failures.push(...problems.map((problem) => `${kind}, ${at}: ${problem}`))
    // Another time the process may make fewer calls: it had ended before.
    if (!ended.isKilled) return
    this.kills += 1
    if (ended.isAnswered) this.afterAnswer += 1
  }

  #run(kind: CommitKind, killAt: Call | null): Promise<Ended> {
    this.#runs += 1
    const folder = path.join(this.#folder, String(this.#runs))
    return runOnce(folder, { kind, synchronous: this.#synchronous }, killAt)
  }
}

export const crash: Part = {
  name: 'crash',
  about:
    'For each kind of SQLite commit (grant, renewal, release with a hand-over, several at once, transfer, prune, migration) a process is killed at every system call that changes a file, by strace: ' +
    'what was answered is there afterwards, the rest is there whole or not at all, `quick_check` is content, and the ledger tells what the store keeps.',
  steps: [step('full'), step('normal')],
  atLeast: { kills: 100, 'kinds of commit': 2 * COMMIT_KINDS.length },
}
