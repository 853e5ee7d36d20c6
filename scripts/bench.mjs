/** `npm run bench`: sets up, with the peers and the servers, and runs the benchmarks; what follows `--` goes to them. */
import { join } from 'node:path'
import { build, checkTypes } from './compile.mjs'
import { providePeers } from './more-packages.mjs'
import { runInForeground } from './processes.mjs'
import { runMain } from './report.mjs'
import { ROOT, SetupError, setUp } from './setup.mjs'
import { provideTestTools } from './test-tools.mjs'

await runMain(async () => {
  const { passed, output } = await setUp(async () => {
    await provideTestTools()
    await providePeers()
    const built = await build()
    return built.passed ? checkTypes() : built
  })
  if (!passed) throw new SetupError(`${output.trimEnd()}\nThe build failed.`)
  const main = join(ROOT, 'dist-dev/bench/bench-main.js')
  const command = [process.execPath, '--enable-source-maps', main, ...process.argv.slice(2)]
  return runInForeground(command, { cwd: process.cwd() })
})
