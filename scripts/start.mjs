/** `npm start`: sets up and runs the demo; what follows `--` goes to the demo. */
import { join } from 'node:path'
import { build } from './compile.mjs'
import { runInForeground } from './processes.mjs'
import { runMain } from './report.mjs'
import { ROOT, SetupError, setUp } from './setup.mjs'

await runMain(async () => {
  const { passed, output } = await setUp(build)
  if (!passed) throw new SetupError(`${output.trimEnd()}\nThe build failed.`)
  const main = join(ROOT, 'dist/cli/main.js')
  return runInForeground([process.execPath, main, 'demo', ...process.argv.slice(2)], {
    cwd: process.cwd(),
  })
})
