/**
 * One step alone: `npm run build`, `npm run lint`, `npm run format`; the long proofs, `npm run proof`; and what
 * `npm pack` does first, a build from nothing, so that no file of a deleted source is shipped.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { build, checkTypes } from './compile.mjs'
import { providePeers } from './more-packages.mjs'
import { runMain, runStep } from './report.mjs'
import { ROOT, SetupError, setUp } from './setup.mjs'
import { lint, runTests, writeFormat } from './steps.mjs'
import { provideTestTools } from './test-tools.mjs'

const [name = '', ...args] = process.argv.slice(2)
const nothing = async () => ({ passed: true, output: '' })

await runMain(async () => {
  switch (name) {
    case 'build':
      return (await setUp(() => runStep(name, build))) ? 0 : 1
    case 'rebuild':
      return (await setUp(() => runStep(name, rebuild))) ? 0 : 1
    case 'lint':
      // The linter reads the types of other projects from dist/; what does not compile is not its business.
      await setUp(build)
      return (await runStep(name, lint)) ? 0 : 1
    case 'format':
      await setUp(nothing)
      return (await runStep(name, writeFormat)) ? 0 : 1
    case 'proof':
      return prove()
    default:
      throw new SetupError(`step must be build, rebuild, lint, format or proof, got ${name}`)
  }
})

function rebuild() {
  rmSync(join(ROOT, 'dist'), { recursive: true, force: true })
  return build()
}

async function prove() {
  await buildAll()
  const { passed, counts } = await runTests(['--config=vitest.proof.config.ts', ...args])
  if (counts !== null) process.stdout.write(`${counts.passed} passed, ${counts.failed} failed\n`)
  return passed ? 0 : 1
}

async function buildAll() {
  const passed = await setUp(async () => {
    await provideTestTools()
    await providePeers()
    return (await runStep('build', build)) && (await runStep('types', checkTypes))
  })
  if (!passed) throw new SetupError('The build failed.')
}
