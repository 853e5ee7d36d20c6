/**
 * Runs a program of this repository that is not shipped: `node scripts/run-dev.mjs sim/main.ts --seed 42`.
 * Node 20 cannot run TypeScript, so it is compiled into dist-dev/ first.
 */
import { join } from 'node:path'
import { build, checkTypes } from './compile.mjs'
import { runInForeground } from './processes.mjs'
import { runMain } from './report.mjs'
import { ROOT, SetupError, setUp } from './setup.mjs'

const [program = '', ...args] = process.argv.slice(2)

await runMain(async () => {
  const { passed, output } = await setUp(async () => {
    const built = await build()
    return built.passed ? checkTypes() : built
  })
  if (!passed) throw new SetupError(`${output.trimEnd()}\nThe build failed.`)
  const compiled = join(ROOT, 'dist-dev', program.replace(/\.ts$/, '.js'))
  const command = [process.execPath, '--enable-source-maps', compiled, ...args]
  return runInForeground(command, { cwd: process.cwd() })
})
