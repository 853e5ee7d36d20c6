/**
 * Mutation testing by Stryker, in a copy of the sources, one source file a step. Every mutant that no test notices is a
 * failure, unless it is explained in `explained.json`; what is explained there and does not survive any more is one as well.
 */
import fs from 'node:fs'
import path from 'node:path'
import { ROOT, type Part, type Step, type StepOutcome } from '../part.ts'
import { SourceCopy } from '../source-copy.ts'
import { isInThird } from './random-third.ts'
import type { MeantTests } from './mutation-tests.config.ts'

const FOLDER = path.join(ROOT, 'campaign', 'mutation')
const STRYKER = path.join(FOLDER, 'node_modules', '@stryker-mutator', 'core', 'bin', 'stryker.js')
const WHOLE_MINUTES = 15
const CONCURRENCY = 2

interface Tested {
  /** What is mutated: a folder, or a file. */
  readonly place: string
  /** The folders of the tests that are meant for it, those that notice most first. */
  readonly tests: readonly string[]
  readonly isWhole: boolean
  /** The share that tests must kill; of the others, even if every one is explained, there would be too many. */
  readonly killedShare: number
}

const TESTED: readonly Tested[] = [
  {
    place: 'src/core',
    tests: [
      ...['test/core', 'test/docs/errors', 'test/client', 'test/delegation', 'test/service'],
      'test/store/memory',
    ],
    isWhole: true,
    killedShare: 0.95,
  },
  { place: 'src/guard', tests: ['test/guard'], isWhole: true, killedShare: 0.95 },
  { place: 'src/ledger', tests: ['test/ledger'], isWhole: false, killedShare: 0.9 },
  {
    place: 'src/protocol',
    tests: ['test/protocol', 'test/core'],
    isWhole: false,
    killedShare: 0.9,
  },
  {
    place: 'src/registrar/grant.ts',
    tests: ['test/registrar'],
    isWhole: true,
    killedShare: 0.95,
  },
  { place: 'src/client/holding.ts', tests: ['test/client'], isWhole: false, killedShare: 0.9 },
]

interface Mutant {
  readonly id: string
  readonly status: string
  readonly mutatorName: string
  /** Run when the module is loaded. */
  readonly static?: boolean
  readonly replacement?: string
  readonly location: { readonly start: Place; readonly end: Place }
}

interface Place {
  readonly line: number
  readonly column: number
}

/** By source file. */
type MutantReport = Readonly<
  Record<string, { readonly source: string; readonly mutants: readonly Mutant[] }>
>

/** By source file: what survives, as `line of source: original → replacement`, and why that is right. */
type Explained = Readonly<Record<string, Readonly<Record<string, string>>>>

function filesOf(place: string): readonly string[] {
  if (place.endsWith('.ts')) return [place]
  const names = fs.readdirSync(path.join(ROOT, place), { recursive: true, encoding: 'utf8' })
  const sources = names.filter((name) => name.endsWith('.ts') && name !== 'index.ts')
  return sources.toSorted().map((name) => `${place}/${name.replaceAll(path.sep, '/')}`)
}

function stepOf(file: string, tested: Tested): Step {
  return { name: file, minutes: WHOLE_MINUTES, run: ({ seed }) => mutate(file, tested, seed) }
}

async function mutate(file: string, tested: Tested, seed: number): Promise<StepOutcome> {
  if (!fs.existsSync(STRYKER)) {
    const advice = 'npm ci --ignore-scripts --prefix campaign/mutation'
    return { counts: {}, failures: [], shortfalls: [`Stryker is not installed: ${advice}`] }
  }
  const thirdOf = tested.isWhole ? null : `${seed} ${file}`
  const copy = new SourceCopy()
  try {
    const report = path.join(copy.folder, 'mutants.json')
    const config = path.join(copy.folder, 'stryker.json')
    const earlier = earlierOf(file)
    fs.writeFileSync(config, JSON.stringify(configOf(file, { report, earlier, thirdOf })))
    const tests: MeantTests = { source: file, places: tested.tests }
    const order = path.join(copy.folder, 'campaign', 'mutation', 'tests.json')
    fs.writeFileSync(order, JSON.stringify(tests))
    const { output } = await copy.run(process.execPath, [STRYKER, 'run', config])
    const { mutants, source } = reportIn(report, output)[file] ?? { mutants: [], source: '' }
    const tried = triedOf(mutants, thirdOf)
    const explained = explanations()[file] ?? {}
    const outcome = outcomeOf(file, { source, mutants, tried, explained })
    const [, reused = '0'] = /(\d+)\S* of \d+ mutant result\(s\) are reused/.exec(output) ?? []
    const notes = [
      ...(tested.isWhole ? [] : [`a random third of ${mutants.length} mutants`]),
      ...(reused === '0' ? [] : [`${reused} known from an earlier run`]),
    ]
    return notes.length === 0 ? outcome : { ...outcome, note: notes.join('; ') }
  } finally {
    copy.close()
  }
}

/** With a “RuntimeError” something failed outside of the tests, such as the loading of their file: it was noticed. */
export function triedOf(mutants: readonly Mutant[], thirdOf: string | null): readonly Mutant[] {
  return mutants.filter(({ id, status }) => {
    if (thirdOf !== null && !isInThird(thirdOf, id)) return false
    return status !== 'Ignored' && status !== 'CompileError'
  })
}

/** Of a file with types alone Stryker makes no report, because no test runs it. */
function reportIn(file: string, output: string): MutantReport {
  if (fs.existsSync(file)) {
    return (JSON.parse(fs.readFileSync(file, 'utf8')) as { files: MutantReport }).files
  }
  if (output.includes('with 0 mutant(s)')) return {}
  if (output.includes('No tests were found')) throw new Error('no test meets it')
  throw new Error(`Stryker made no report: ${errorsIn(output)}`)
}

/**
 * Where Stryker keeps what it learnt of a source file. It tries again what survived, where a test was added, and what was killed
 * by a test of a name that is there no more; of a source that changed itself, everything. It does not know which tests meet
 * what is run when a module is loaded, so that those survivors are tried again in any case, and so is what a busy machine may
 * have ended by its time limit. What was in no third has to be asked for again.
 */
function earlierOf(file: string): string {
  const earlier = path.join(FOLDER, 'node_modules', '.cache', `${file.replaceAll('/', '-')}.json`)
  if (!fs.existsSync(earlier)) return earlier
  const report = JSON.parse(fs.readFileSync(earlier, 'utf8')) as { readonly files: MutantReport }
  const source = fs.readFileSync(path.join(ROOT, file), 'utf8')
  const known = report.files[file]
  const mutants = (known?.source === source ? known.mutants : []).filter((mutant) => {
    if (mutant.status === 'Timeout' || mutant.status === 'CompileError') return false
    return mutant.status === 'Killed' || mutant.static !== true
  })
  fs.writeFileSync(earlier, JSON.stringify({ ...report, files: { [file]: { source, mutants } } }))
  return earlier
}

/** What failed is said in the line after, behind a tab. */
function errorsIn(output: string): string {
  const lines = output.split('\n').filter((line) => /ERROR|^\t/.test(line))
  return lines
    .map((line) => line.trim())
    .join(' ')
    .slice(0, 600)
}

interface Files {
  readonly report: string
  readonly earlier: string
  readonly thirdOf: string | null
}

function configOf(
  file: string,
  { report, earlier, thirdOf }: Files,
): Readonly<Record<string, unknown>> {
  const third = path.join(import.meta.dirname, 'random-third.js')
  return {
    mutate: [file],
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner', ...(thirdOf === null ? [] : [third])],
    checkers: thirdOf === null ? [] : ['random-third'],
    thirdOf,
    vitest: { configFile: 'campaign/mutation/mutation-tests.config.ts', related: true },
    // It cannot read the configuration of TypeScript 7, and needs none: nothing is compiled.
    tsconfigFile: 'there-is-none.json',
    reporters: ['json'],
    jsonReporter: { fileName: report },
    incremental: true,
    incrementalFile: earlier,
    coverageAnalysis: 'perTest',
    concurrency: CONCURRENCY,
    inPlace: true,
    allowEmpty: true,
    disableTypeChecks: false,
    timeoutMS: 20_000,
  }
}

export interface TriedMutants {
  readonly source: string
  readonly mutants: readonly Mutant[]
  /** Those of them that tests were run with. */
  readonly tried: readonly Mutant[]
  readonly explained: Explained[string]
}

export function outcomeOf(
  file: string,
  { source, mutants, tried, explained }: TriedMutants,
): StepOutcome {
  const lines = source.split('\n')
  const alive = tried.filter(({ status }) => status === 'Survived' || status === 'NoCoverage')
  const names = new Set(alive.map((mutant) => nameOf(mutant, lines)))
  const others = mutants.filter((mutant) => !tried.includes(mutant))
  const untried = new Set(others.map((mutant) => nameOf(mutant, lines)))
  const unexplained = alive.filter((mutant) => !(nameOf(mutant, lines) in explained))
  const outdated = Object.keys(explained).filter((name) => !names.has(name) && !untried.has(name))
  const folder = file.split('/')[1] ?? ''
  return {
    counts: {
      mutants: tried.length,
      [`mutants of ${folder}`]: tried.length,
      [`killed of ${folder}`]: tried.length - alive.length,
      'survivors explained': alive.length - unexplained.length,
    },
    failures: [
      ...unexplained.map((mutant) => {
        const what = mutant.status === 'NoCoverage' ? 'met by no test' : 'survived'
        return `${what}: ${nameOf(mutant, lines)}`
      }),
      ...outdated.map((name) => `explained, but killed now: ${name}`),
    ],
    shortfalls: [],
  }
}

/** It has no number of a line in it, so that an explanation stays true when lines move. */
function nameOf({ location, replacement, mutatorName }: Mutant, lines: readonly string[]): string {
  const { start, end } = location
  const line = lines[start.line - 1] ?? ''
  const isOneLine = start.line === end.line
  const original = line.slice(start.column - 1, isOneLine ? end.column - 1 : line.length)
  const now = (replacement ?? mutatorName).replaceAll(/\s+/g, ' ')
  return `${line.trim()}: ${original}${isOneLine ? '' : ' …'} → ${now}`
}

function explanations(): Explained {
  return JSON.parse(fs.readFileSync(path.join(FOLDER, 'explained.json'), 'utf8')) as Explained
}

export const mutation: Part = {
  name: 'mutation',
  about:
    'Stryker changes the sources in one place at a time, and the tests that are meant for the folder must notice: every place of the core, the guards and the grants, and a random third, by the seed, of the ledger, the protocol and the holding state machine. Tests must kill 95 % of the mutants of core, guard and grants, and 90 % of each of the others. A mutant that survives is a failure, unless `campaign/mutation/explained.json` says why it is right. Property tests play a tenth of their cases here, and what takes long without noticing mutants that quicker tests miss is left out; `campaign/mutation/mutation-tests.config.ts` says what. Needs `npm ci --ignore-scripts --prefix campaign/mutation`; until that is run again, of an unchanged file only those mutants are tried once more that survived although a test was added since, were ended by their time limit, or were killed by a test of a name that is there no more.',
  steps: TESTED.flatMap((tested) => filesOf(tested.place).map((file) => stepOf(file, tested))),
  atLeast: { mutants: 8_000 },
  sharesAtLeast: TESTED.map(({ place, killedShare }) => {
    const folder = place.split('/')[1] ?? ''
    return { count: `killed of ${folder}`, of: `mutants of ${folder}`, least: killedShare }
  }),
}
