/**
 * `npm test`: sets up, then every check there is. All of them run even if one fails, so that one run shows
 * everything; only a build that fails ends it, because tests would run yesterday's program. What follows `--`
 * goes to Vitest. The last line counts the tests: "N passed, N failed".
 */
import { build, checkTypes } from './compile.mjs'
import { provideBundler, providePeers } from './more-packages.mjs'
import { provideNode24 } from './node-24.mjs'
import { runMain, runStep } from './report.mjs'
import { setUp } from './setup.mjs'
import { checkFormat, lint, runTests } from './steps.mjs'
import { provideTestTools } from './test-tools.mjs'

await runMain(async () => {
  /** @type {string[]} */
  const failed = []
  const step = async (
    /** @type {string} */ name,
    /** @type {Parameters<typeof runStep>[1]} */ action,
  ) => {
    const passed = await runStep(name, action)
    if (!passed) failed.push(name)
    return passed
  }

  const isBuilt = await setUp(async () => {
    await provideTestTools()
    await providePeers()
    await provideBundler()
    await provideNode24()
    const passed = await step('build', build)
    // Side by side: none of them needs what another makes. The tests come after the types, which compile them as well.
    const checks = [step('format', checkFormat), step('lint', lint)]
    await Promise.all(passed ? [step('types', checkTypes), ...checks] : checks)
    return passed
  })
  const { passed, counts } = isBuilt
    ? await runTests(process.argv.slice(2))
    : { passed: false, counts: null }
  if (!passed) failed.push(isBuilt ? 'tests' : 'tests (not run)')

  if (failed.length > 0) process.stdout.write(`npm test failed: ${failed.join(', ')}\n`)
  if (counts !== null) {
    if (counts.skipped > 0) process.stdout.write(`${counts.skipped} skipped\n`)
    process.stdout.write(`${counts.passed} passed, ${counts.failed} failed\n`)
  }
  return failed.length === 0 ? 0 : 1
})
