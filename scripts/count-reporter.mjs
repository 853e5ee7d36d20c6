/**
 * A Vitest reporter that leaves the numbers of a run in the file named by TENURE_TEST_COUNTS, for the closing
 * line of `npm test`. What failed outside of any test (a file that does not load, a hook, an unhandled
 * rejection) counts as one failure each: its tests did not run, and "0 failed" would be untrue.
 */
import { writeFileSync } from 'node:fs'

/** @typedef {import('vitest/node').TestModule} TestModule */
/** @typedef {import('vitest/node').Reporter} Reporter */

/** @implements {Reporter} */
export default class CountReporter {
  /**
   * @param {readonly TestModule[]} modules
   * @param {readonly unknown[]} unhandledErrors
   */
  onTestRunEnd(modules, unhandledErrors) {
    const file = process.env['TENURE_TEST_COUNTS']
    if (file !== undefined) writeFileSync(file, JSON.stringify(count(modules, unhandledErrors)))
  }
}

/**
 * @param {readonly TestModule[]} modules
 * @param {readonly unknown[]} unhandledErrors
 */
export function count(modules, unhandledErrors) {
  const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
  for (const module of modules) {
    counts.failed += [module, ...module.children.allSuites()].filter(
      (suite) => suite.errors().length > 0,
    ).length
    for (const test of module.children.allTests()) {
      const { state } = test.result()
      // A test that is still pending when the run ends was cut short; nothing says that it would have passed.
      counts[state === 'pending' ? 'failed' : state] += 1
    }
  }
  return counts
}
