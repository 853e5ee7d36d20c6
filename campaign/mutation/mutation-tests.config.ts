/**
 * How Vitest runs the tests of one mutated source file, in a copy of the sources: `mutation.ts` puts `tests.json` there.
 * A mutant ends with the first test that notices it, so that the file's own tests come first and the longest ones last.
 */
import fs from 'node:fs'
import path from 'node:path'
import { defineConfig, type Plugin, type ViteUserConfig } from 'vitest/config'
import {
  BaseSequencer,
  type Reporter,
  type TestModule,
  type TestSpecification,
  type Vitest,
} from 'vitest/node'

export interface MeantTests {
  readonly source: string
  /** What the paths of the tests begin with, those that notice most first. */
  readonly places: readonly string[]
}

/**
 * Left out. They take seconds, for each mutant that survives the others: every short sequence of moves (it noticed none of the
 * mutants of src/core/acquire.ts that others had missed), real time, whole stores, programs that must be built, and large ledgers.
 */
const WITHOUT = [
  ...[
    'core/*sequences',
    'client/default-ttl',
    'client/fake-timers',
    'client/open*',
    'client/orphans',
  ],
  ...['client/sequential', 'client/store-away', 'client/waiting-defects', 'client/words'],
  ...['delegation/authorize', 'delegation/ends-together', 'delegation/registrar-ledger'],
  ...['delegation/stores', 'service/list-all', 'protocol/written-from-table'],
].map((name) => `test/${name}.test.ts`)
/** Of the cases that a property plays in `npm test`. More of them find rare states, hardly ever a mutant. */
const PROPERTY_RUNS_DIVISOR = 10

const FILE = path.join(import.meta.dirname, 'tests.json')
const { source, places } = JSON.parse(fs.readFileSync(FILE, 'utf8')) as MeantTests

class OwnFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files.toSorted((a, b) => rankOf(a.moduleId) - rankOf(b.moduleId))
  }
}

function rankOf(file: string): number {
  if (file.endsWith(`/${path.basename(source, '.ts')}.test.ts`)) return -1
  if (file.endsWith('/properties.test.ts')) return places.length
  return places.findIndex((place) => file.includes(`/${place}`))
}

/** Stryker looks at tests alone, and would take a mutant with which a file of them does not load for one that lives. */
class LoadFailures implements Reporter {
  #vitest: Vitest | null = null

  onInit(vitest: Vitest): void {
    this.#vitest = vitest
  }

  onTestModuleEnd(file: TestModule): void {
    for (const { message } of [file, ...file.children.allSuites()].flatMap((at) => at.errors())) {
      // An error of its own: Stryker cannot print what came from another process.
      this.#vitest?.state.catchError(new Error(message), 'Load Failure')
    }
  }
}

const underMutation: Plugin = {
  name: 'under-mutation',
  transform: (code) => {
    return code.replaceAll(/\bnumRuns: ([\d_]+)/g, (_, runs: string) => {
      return `numRuns: ${Math.ceil(Number(runs.replaceAll('_', '')) / PROPERTY_RUNS_DIVISOR)}`
    })
  },
  // Stryker wants threads, in which a test cannot set the mask of the process.
  configureVitest: ({ project }) => {
    project.config.pool = 'forks'
  },
}

const config: ViteUserConfig = defineConfig({
  plugins: [underMutation],
  test: {
    include: places.map((place) => `${place}{/**/*,}.test.ts`),
    exclude: WITHOUT,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    reporters: [new LoadFailures()],
    expect: { poll: { timeout: 60_000 } },
    // One worker loads the modules once for all test files of a mutant: half the time of a worker for each.
    isolate: false,
    setupFiles: 'campaign/mutation/stop-at-first.ts',
    sequence: { sequencer: OwnFirst },
    globalSetup: 'test/servers/global-setup.ts',
  },
})

export default config
