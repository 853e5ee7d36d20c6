/** Reads the command line of the benchmarks. What cannot be read is refused with one line. */
import fs from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { BRIEF, FULL, QUICK, WORKS, type Amounts, type Plan, type WorkName } from './plan.ts'
import { STORE_NAMES } from './system.ts'

export const HELP = `npm run bench -- [options]

Measures Tenure beside its peers, on servers of its own, and prints tables with ratios against
each store's floor or limit. A whole run writes docs/benchmarks.md and its plots, when all of it
is done.

  --quick           every ratio within a minute, too short to judge by; writes no file
  --brief           a third of the time, up to 100,000 live leases; too short to judge by as well
  --json            prints rows { work, store, system, inFlight, opsPerSecond, p50Ms, p99Ms, ratio }
                    instead of tables. ratio: that of opsPerSecond to the store's floor or limit, or
                    to node -e 0; null where there is none. Of a contended work opsPerSecond is
                    handovers per second, and p50Ms and p99Ms are gaps between two turns. Fairness,
                    waits, growth, space and processor time are in the tables only.
                    \`npm run -s bench\` keeps npm's own lines out of them
  --only WORKS      some of ${WORKS.join(', ')};
                    pauses tries which one serves best those who wait by asking again;
                    profile shows which part spends the processor's time
  --store STORES    some of ${STORE_NAMES.join(', ')}
  --rounds N        how often everybody has a turn, 1..1000
  --docs FOLDER     writes benchmarks.md and its plots there, whatever was measured, after each work
  -h, --help        this

Lists are separated by commas. What is given here follows \`--\`: npm run bench -- --quick
`

const ROUNDS_MAX = 1_000
const JUDGED_ROUNDS_MIN = 3
/** A look within a minute is at ratios. */
const WITHOUT_RATIOS: ReadonlySet<WorkName> = new Set(['pauses', 'profile'])

export class UsageError extends Error {
  override name = 'UsageError'
}

export interface BenchOptions {
  readonly plan: Plan
  readonly isJson: boolean
  readonly isHelp: boolean
  /** Where to write; null: nowhere. */
  readonly docs: string | null
  /** Whether to write there after each work: not over the page of the last whole run. */
  readonly isWrittenOften: boolean
}

export function readOptions(args: readonly string[], defaultDocs: string): BenchOptions {
  const values = parse(args)
  const usual = values.quick === true ? WORKS.filter((work) => !WITHOUT_RATIOS.has(work)) : WORKS
  const works = values.only === undefined ? usual : readList('only', values.only, WORKS)
  const stores = readList('store', values.store, STORE_NAMES)
  const amounts = readAmounts(values)
  const isAll = works.length === WORKS.length && stores.length === STORE_NAMES.length
  const rounds = readRounds(values.rounds)
  const isWhole = isAll && amounts === FULL && rounds === null
  const plan: Plan = { ...amounts, works, stores }
  return {
    plan: rounds === null ? plan : withRounds(plan, rounds),
    isJson: values.json === true,
    isHelp: values.help === true,
    docs: readFolder(values.docs) ?? (isWhole ? defaultDocs : null),
    isWrittenOften: values.docs !== undefined,
  }
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        quick: { type: 'boolean' },
        brief: { type: 'boolean' },
        json: { type: 'boolean' },
        only: { type: 'string' },
        store: { type: 'string' },
        rounds: { type: 'string' },
        docs: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values
  } catch (error) {
    const [line = ''] = String(error instanceof Error ? error.message : error).split('\n')
    throw new UsageError(`${line.replace(/\.( To specify .*)?$/, '')}; --help lists the options`)
  }
}

function readAmounts(values: { readonly quick?: boolean; readonly brief?: boolean }): Amounts {
  if (values.quick === true && values.brief === true) {
    throw new UsageError('--quick and --brief exclude each other, got both')
  }
  if (values.quick === true) return QUICK
  return values.brief === true ? BRIEF : FULL
}

function readList<Name extends string>(
  option: string,
  text: string | undefined,
  names: readonly Name[],
): readonly Name[] {
  if (text === undefined) return names
  const given = text.split(',').map((part) => part.trim())
  const unknown = given.find((part) => !names.some((name) => name === part))
  if (unknown !== undefined) {
    const expected = names.join(', ')
    throw new UsageError(`--${option} must be some of ${expected}, got ${JSON.stringify(unknown)}`)
  }
  return names.filter((name) => given.includes(name))
}

function readRounds(text: string | undefined): number | null {
  if (text === undefined) return null
  const rounds = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (rounds >= 1 && rounds <= ROUNDS_MAX) return rounds
  throw new UsageError(`--rounds must be an integer 1..${ROUNDS_MAX}, got ${JSON.stringify(text)}`)
}

function readFolder(text: string | undefined): string | null {
  if (text === undefined) return null
  try {
    makeFolder(path.resolve(text))
    fs.accessSync(text, fs.constants.W_OK)
    return text
  } catch {
    throw new UsageError(`--docs must be a folder that can be written, got ${JSON.stringify(text)}`)
  }
}

/**
 * Before anything is measured: half an hour later is too late to hear that it cannot be. Step by step, because Node's
 * own way to make all folders above never ends in some that only look like folders.
 */
function makeFolder(folder: string): void {
  if (fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return
  makeFolder(path.dirname(folder))
  fs.mkdirSync(folder)
}

function withRounds(plan: Plan, rounds: number): Plan {
  return {
    ...plan,
    isJudged: plan.isJudged && rounds >= JUDGED_ROUNDS_MIN,
    uncontended: { ...plan.uncontended, rounds },
    contended: { ...plan.contended, rounds },
    many: { ...plan.many, rounds },
    http: { ...plan.http, rounds },
    startUp: { rounds },
    hook: { ...plan.hook, rounds },
  }
}
