import { defineConfig } from 'vitest/config'

/**
 * Tests that measure time: one file after the other, when all the rest is done, so that they measure this program and
 * not their neighbours.
 */
const ALONE = [
  'test/processes/clocks.test.ts',
  'test/processes/contention.test.ts',
  'test/processes/fleet.test.ts',
  'test/processes/handover.test.ts',
  'test/processes/rich-leases.test.ts',
  'test/processes/watch.test.ts',
  'test/faults/hung-server.test.ts',
  'test/faults/paused-holder.test.ts',
  'test/fleet/renewal-speed.test.ts',
  // It counts the commands of a server that others use as well.
  'test/fleet/poll-layout.test.ts',
  'test/ledger/reducer-speed.test.ts',
  'test/ledger/verify-speed.test.ts',
  'test/store/embedded-speed.test.ts',
  'test/workflow/emission-speed.test.ts',
  'test/bench/processor-time.test.ts',
  'test/store/many-leases.test.ts',
  'test/store/postgres/many-leases.test.ts',
  'test/store/subtree-growth.test.ts',
  'test/store/sqlite-faults.test.ts',
]

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
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
    maxWorkers: 3,
    globalSetup: 'test/servers/global-setup.ts',
    projects: [
      {
        extends: true,
        test: {
          name: 'pure',
          include: PURE,
          exclude: ALONE,
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'together',
          include: ['test/**/*.test.ts'],
          exclude: [...PURE, ...ALONE],
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'alone',
          include: ALONE,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
