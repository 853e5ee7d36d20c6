/**
 * The museum: every patch is applied to a copy of the sources, must compile and pass the linter there, and must turn the
 * tests that it names red. Before that the same tests must be green in the copy without any patch.
 */
import fs from 'node:fs'
import path from 'node:path'
import { ROOT, type Part, type Step, type StepOutcome } from '../part.ts'
import { SourceCopy } from '../source-copy.ts'
import { exhibitsIn, type Exhibit } from './exhibit.ts'

const FOLDER = path.join(ROOT, 'campaign', 'museum')
const EXHIBITS = exhibitsIn(FOLDER)
interface TestRun {
  readonly passed: number
  /** The names of the tests that failed. */
  readonly red: readonly string[]
  /** Files that could not be loaded at all. */
  readonly broken: readonly string[]
}

interface VitestReport {
  readonly testResults: readonly {
    readonly name: string
    readonly message: string
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[]
  }[]
}

async function runTests(
  copy: SourceCopy,
  { checks, test }: Pick<Exhibit, 'checks' | 'test'>,
): Promise<TestRun> {
  const file = path.join(copy.folder, 'report.json')
  fs.rmSync(file, { force: true })
  const named = test === null ? [] : ['-t', test.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')]
  const reporter = ['--reporter=json', `--outputFile=${file}`]
  const { output } = await copy.tool('vitest', ['run', ...reporter, ...named, ...checks])
  if (!fs.existsSync(file)) throw new Error(`Vitest ended without a report: ${output.slice(-400)}`)
  const { testResults } = JSON.parse(fs.readFileSync(file, 'utf8')) as VitestReport
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults)
  return {
    passed: tests.filter(({ status }) => status === 'passed').length,
    red: tests.filter(({ status }) => status === 'failed').map(({ fullName }) => fullName),
    broken: testResults
      .filter(({ assertionResults, message }) => assertionResults.length === 0 && message !== '')
      .map(({ name, message }) => `${path.basename(name)}: ${message.split('\n')[0] ?? ''}`),
  }
}

/** Without any patch everything that a patch names is green; otherwise red would say nothing. */
const CONTROL: Step = {
  name: 'control: the tests are green without a patch',
  minutes: 15,
  run: () =>
    withCopy(async (copy) => {
      const checks = [...new Set(EXHIBITS.flatMap((exhibit) => exhibit.checks))]
      const { passed, red, broken } = await runTests(copy, { checks, test: null })
      const failures = [...red.map((name) => `red without a patch: ${name}`), ...broken]
      return { counts: { 'tests green without a patch': passed }, failures, shortfalls: [] }
    }),
}

function stepOf(exhibit: Exhibit): Step {
  return {
    name: exhibit.name,
    minutes: 1,
    run: () => withCopy((copy) => tryExhibit(copy, exhibit)),
  }
}

async function tryExhibit(copy: SourceCopy, exhibit: Exhibit): Promise<StepOutcome> {
  const patch = path.join(FOLDER, `${exhibit.name}.patch`)
  const applied = await copy.run('git', ['apply', patch])
  if (applied.status !== 0) return failed(exhibit, `does not apply: ${applied.output.trim()}`)
  const projects = [...new Set(exhibit.touched.map(projectOf))]
  const compiled = await copy.tool('tsc', ['-b', ...projects])
  if (compiled.status !== 0) return failed(exhibit, `does not compile: ${compiled.output.trim()}`)
  const linted = await copy.tool('oxlint', ['--type-aware', '--deny-warnings', ...exhibit.touched])
  if (linted.status !== 0)
    return failed(exhibit, `does not pass the linter: ${linted.output.trim()}`)
  const { red, broken } = await runTests(copy, exhibit)
  if (broken.length > 0) return failed(exhibit, `is not run: ${broken.join(', ')}`)
  if (red.length === 0) return failed(exhibit, `is not found by ${exhibit.checks.join(', ')}`)
  const counts = { patches: 1, caught: 1, 'caught by an older check': exhibit.isOlder ? 1 : 0 }
  const more = red.length > 1 ? ` and ${red.length - 1} more` : ''
  const note = `${exhibit.bug}; red: \`${exhibit.checks.join(', ')}\`, “${red[0]}”${more}`
  return { counts, failures: [], shortfalls: [], note }
}

function failed({ bug }: Exhibit, problem: string): StepOutcome {
  return { counts: { patches: 1 }, failures: [`the patch ${problem} (${bug})`], shortfalls: [] }
}

function projectOf(file: string): string {
  const [top = '', folder = ''] = file.split('/')
  return path.join(top, folder)
}

async function withCopy(work: (copy: SourceCopy) => Promise<StepOutcome>): Promise<StepOutcome> {
  const copy = new SourceCopy()
  try {
    return await work(copy)
  } finally {
    copy.close()
  }
}

export const museum: Part = {
  name: 'museum',
  about:
    'Defects of the kinds that lock and lease libraries have shipped, and some that this project has had, each as a small patch of our sources in `campaign/museum`. ' +
    'A patch is applied to a copy, compiles and passes the linter there, and a test must go red. *Older* checks were there before the patch was written.',
  steps: [CONTROL, ...EXHIBITS.map(stepOf)],
  atLeast: { patches: 30, caught: 30, 'caught by an older check': 20 },
}
