import { defineConfig } from 'vitest/config'

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

export default defineConfig({
  test: {
    // For what hangs. A machine may be slow without anything being wrong.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    // More than a machine with two cores has: many of them wait for a TTL, a server or a process most of the time.
    maxWorkers: 4,
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
