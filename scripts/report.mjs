/** How the scripts tell the person at the terminal what happened. */
import { SetupError } from './setup.mjs'

/**
 * Runs one named step, prints its time, and its output only when it failed.
 *
 * @param {string} name
 * @param {() => Promise<{ passed: boolean, output: string }>} step
 */
export async function runStep(name, step) {
  const startedAtMs = performance.now()
  const { passed, output } = await step()
  const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(1)
  if (!passed) process.stdout.write(`\n${output.trimEnd()}\n\n`)
  process.stdout.write(`${name}: ${passed ? 'ok' : 'FAILED'} (${seconds} s)\n`)
  return passed
}

/**
 * Runs a script's main function; what it returns becomes the exit status. A set-up that cannot go on is
 * explained without a stack.
 *
 * @param {() => Promise<number>} main
 */
export async function runMain(main) {
  try {
    process.exitCode = await main()
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exitCode = 1
  }
}
