import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Tests of what keeps nothing between two of them: they share what they import, which takes longer to load than most
 * of them take to run.
 */
const PURE = [
  'test/core/**/*.test.ts',
  'test/client/**/*.test.ts',
  'test/delegation/**/*.test.ts',
  'test/fleet/**/*.test.ts',
  'test/ledger/**/*.test.ts',
  'test/service/**/*.test.ts',
  'test/testing/**/*.test.ts',
]

/** They take longest. Begun late, one of them would keep one core busy at the end and leave the other idle. */
const LONG = [
  ...['sim/seeds', 'sim/planted-bugs', 'sim/optimistic', 'dashboard/dashboard'],
  ...['faults/refusing-servers', 'faults/load', 'faults/hung-server', 'store/postgres/postgres'],
  ...['processes/fleet', 'processes/crowd', 'processes/contention', 'processes/rich-leases'],
  ...['cli/rich-leases', 'cli/run', 'cli/same-session', 'examples/recipes', 'hooks/two-agents'],
].map((name) => `test/${name}.test.ts`)

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification): boolean => {
      return LONG.some((name) => moduleId.endsWith(name))
    }
    const sorted = await super.sort(files)
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}

export default defineConfig({
  test: {
    // For what hangs. A machine may be slow without anything being wrong.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    // More than a machine with two cores has: many of them wait for a TTL, a server or a process most of the time.
    maxWorkers: 5,
    sequence: { sequencer: LongFirst },
    globalSetup: 'test/servers/global-setup.ts',
    projects: [
      {
        extends: true,
        test: {
          name: 'pure',
          include: PURE,
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'together',
          include: ['test/**/*.test.ts'],
          exclude: [...PURE, '**/node_modules/**'],
        },
      },
    ],
  },
})
