/**
 * Mutation testing by Stryker, in a copy of the sources, one source file a step. Every mutant that no test notices is a
 * failure, unless it is explained in `explained.json`; what is explained there and does not survive any more is one as well.
 */
import fs from 'node:fs'
import path from 'node:path'
import { ROOT, type Part, type Step, type StepOutcome } from '../part.ts'
import { SourceCopy } from '../source-copy.ts'

const FOLDER = path.join(ROOT, 'campaign', 'mutation')
const STRYKER = path.join(FOLDER, 'node_modules', '@stryker-mutator', 'core', 'bin', 'stryker.js')
const WHOLE_MINUTES = 15
const CONCURRENCY = 2

/** The folders of sources, with the folders of the tests that are meant for them. */
const TESTED: Readonly<Record<string, readonly string[]>> = {
  'src/core': ['test/core'],
  'src/guard': ['test/guard'],
  'src/ledger': ['test/ledger'],
  'src/protocol': ['test/protocol', 'test/core'],
  'src/client/holding.ts': ['test/client'],
}

interface MutantReport {
  readonly files: Readonly<
    Record<
      string,
      {
        readonly source: string
        readonly mutants: readonly {
          readonly status: string
          readonly mutatorName: string
          readonly replacement?: string
          readonly location: { readonly start: { readonly line: number; readonly column: number } }
        }[]
      }
    >
  >
}

/** By source file: what survives, as `line of source → replacement`, and why that is right. */
type Explained = Readonly<Record<string, Readonly<Record<string, string>>>>

function filesOf(place: string): readonly string[] {
  if (place.endsWith('.ts')) return [place]
  const names = fs.readdirSync(path.join(ROOT, place), { recursive: true, encoding: 'utf8' })
  const sources = names.filter((name) => name.endsWith('.ts') && name !== 'index.ts')
  return sources.toSorted().map((name) => `${place}/${name.replaceAll(path.sep, '/')}`)
}

function stepOf(file: string, tests: readonly string[]): Step {
  return { name: file, minutes: WHOLE_MINUTES, run: () => mutate(file, tests) }
}

async function mutate(file: string, tests: readonly string[]): Promise<StepOutcome> {
  if (!fs.existsSync(STRYKER)) {
    const advice = 'npm ci --ignore-scripts --prefix campaign/mutation'
    return { counts: {}, failures: [], shortfalls: [`Stryker is not installed: ${advice}`] }
  }
  const copy = new SourceCopy()
  try {
    const report = path.join(copy.folder, 'mutants.json')
    const config = path.join(copy.folder, 'stryker.json')
    fs.writeFileSync(config, JSON.stringify(configOf(file, report)))
    fs.writeFileSync(path.join(copy.folder, 'vitest.mutation.ts'), vitestConfig(tests))
    const { output } = await copy.run(process.execPath, [STRYKER, 'run', config])
    if (!fs.existsSync(report)) throw new Error(`Stryker made no report: ${output.slice(-600)}`)
    const { files } = JSON.parse(fs.readFileSync(report, 'utf8')) as MutantReport
    return outcomeOf(file, files[file]?.mutants ?? [], files[file]?.source ?? '')
  } finally {
    copy.close()
  }
}

function configOf(file: string, report: string): Readonly<Record<string, unknown>> {
  return {
    mutate: [file],
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    vitest: { configFile: 'vitest.mutation.ts', related: true },
    // It cannot read the configuration of TypeScript 7, and needs none: nothing is compiled.
    tsconfigFile: 'there-is-none.json',
    reporters: ['json'],
    jsonReporter: { fileName: report },
    coverageAnalysis: 'perTest',
    concurrency: CONCURRENCY,
    inPlace: true,
    allowEmpty: true,
    disableTypeChecks: false,
    timeoutMS: 20_000,
  }
}

function vitestConfig(tests: readonly string[]): string {
  const include = JSON.stringify(tests.map((folder) => `${folder}/**/*.test.ts`))
  return `import { defineConfig } from 'vitest/config'
export default defineConfig({
  test: { include: ${include}, exclude: ['**/*sequences.test.ts'], testTimeout: 120_000, globalSetup: 'test/servers/global-setup.ts' },
})
`
}

type Mutant = MutantReport['files'][string]['mutants'][number]

function outcomeOf(file: string, mutants: readonly Mutant[], source: string): StepOutcome {
  const tried = mutants.filter(
    ({ status }) => !/^(Ignored|CompileError|RuntimeError)$/.test(status),
  )
  const alive = tried.filter(({ status }) => status === 'Survived' || status === 'NoCoverage')
  const folder = file.split('/')[1] ?? ''
  const lines = source.split('\n')
  const names = alive.map(({ location, replacement, mutatorName }) => {
    const line = lines[location.start.line - 1]?.trim() ?? ''
    return `${line} → ${replacement ?? mutatorName}`
  })
  const explained = explanations()[file] ?? {}
  const unexplained = names.filter((name) => !(name in explained))
  const outdated = Object.keys(explained).filter((name) => !names.includes(name))
  return {
    counts: {
      mutants: tried.length,
      [`mutants of ${folder}`]: tried.length,
      [`killed of ${folder}`]: tried.length - alive.length,
      'survivors explained': names.length - unexplained.length,
    },
    failures: [
      ...unexplained.map((name) => `survived: ${name}`),
      ...outdated.map((name) => `explained, but killed now: ${name}`),
    ],
    shortfalls: [],
  }
}

function explanations(): Explained {
  return JSON.parse(fs.readFileSync(path.join(FOLDER, 'explained.json'), 'utf8')) as Explained
}

export const mutation: Part = {
  name: 'mutation',
  about:
    'Stryker changes the sources of the core, the guards, the ledger, the protocol and the holding state machine in one place at a time, and the tests that are meant for the folder must notice. A mutant that survives is a failure, unless `campaign/mutation/explained.json` says why it is right. Needs `npm ci --ignore-scripts --prefix campaign/mutation`.',
  steps: Object.entries(TESTED).flatMap(([place, tests]) => {
    return filesOf(place).map((file) => stepOf(file, tests))
  }),
  atLeast: { mutants: 5_600 },
}
