/**
 * `npm run release`: everything that comes before a release, without publishing: a clean tree, known vulnerabilities, the
 * tests, a bill of materials, and the list of what would be published. `--publish` publishes with provenance as well, which
 * npm signs for a job of continuous integration with an identity token only. `--quick` leaves the tests out, for a look.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runInForeground, runQuietly } from './processes.mjs'
import { runMain, runStep } from './report.mjs'
import { ROOT, SetupError } from './setup.mjs'

const isPublished = process.argv.includes('--publish')
const isQuick = process.argv.includes('--quick')

await runMain(async () => {
  if (isPublished && isQuick) throw new SetupError('--publish and --quick exclude each other')
  if (isPublished && process.env['ACTIONS_ID_TOKEN_REQUEST_URL'] === undefined) {
    throw new SetupError(
      '--publish needs a job with an identity token: npm signs provenance there only',
    )
  }
  const steps = /** @type {const} */ ([
    ['clean tree', isTreeClean],
    ['npm audit', () => npm(['audit', '--omit=dev', '--audit-level=low'])],
    ['bill of materials', writeBill],
    ['what would be published', () => npm(['publish', '--dry-run', '--ignore-scripts'])],
  ])
  let isWell = true
  for (const [name, step] of steps) isWell = (await runStep(name, step)) && isWell
  if (!isQuick) isWell = (await runInForeground(['npm', 'test'], { cwd: ROOT })) === 0 && isWell
  if (!isWell || !isPublished) return isWell ? 0 : 1
  return runInForeground(['npm', 'publish', '--provenance', '--access', 'public'], { cwd: ROOT })
})

async function isTreeClean() {
  const { status, output } = await runQuietly(['git', 'status', '--porcelain'], { cwd: ROOT })
  return { passed: status === 0 && output.trim() === '', output }
}

/** @param {readonly string[]} args */
async function npm(args) {
  const { status, output } = await runQuietly(['npm', ...args], { cwd: ROOT })
  return { passed: status === 0, output }
}

/** CycloneDX, of what is installed with the package and nothing else. */
async function writeBill() {
  const asked = ['sbom', '--sbom-format=cyclonedx', '--omit=dev', '--package-lock-only']
  const { passed, output } = await npm(asked)
  if (!passed) return { passed, output }
  const folder = join(ROOT, 'dist-release')
  mkdirSync(folder, { recursive: true })
  const file = join(folder, 'tenure.cdx.json')
  writeFileSync(file, output)
  const { components } = /** @type {{ components: unknown[] }} */ (JSON.parse(output))
  return { passed: components.length > 0, output: `${components.length} packages` }
}
