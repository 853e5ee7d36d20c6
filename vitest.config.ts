import { defineConfig } from 'vitest/config'

/**
 * Tests that start processes or measure time: one file after the other, when all the rest is done, so that they
 * measure this program and not their neighbours.
 */
const ALONE = [
  'test/processes/**/*.test.ts',
  'test/faults/**/*.test.ts',
  'test/cli/same-session.test.ts',
  'test/fleet/renewal-speed.test.ts',
  'test/cli/demo/demo.test.ts',
  'test/ledger/reducer-speed.test.ts',
  'test/ledger/verify-speed.test.ts',
  'test/store/embedded-speed.test.ts',
  'test/workflow/emission-speed.test.ts',
  'test/store/many-leases.test.ts',
  'test/store/subtree-growth.test.ts',
  'test/store/sqlite-faults.test.ts',
]

export default defineConfig({
  test: {
    testTimeout: 20_000,
    hookTimeout: 20_000,
    globalSetup: 'test/servers/global-setup.ts',
    projects: [
      {
        extends: true,
        test: {
          name: 'together',
          include: ['test/**/*.test.ts'],
          exclude: ALONE,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'alone',
          include: ALONE,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
