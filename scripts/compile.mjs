/** Runs the TypeScript compiler over the projects of this repository. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildDashboard } from './dashboard.mjs'
import { installedTool, runQuietly } from './processes.mjs'
import { ROOT } from './setup.mjs'

/**
 * Compiles every project under src/ into dist/; an import against the arrows fails here. The dashboard's project only
 * checks its types: its program is a bundle.
 */
export async function build() {
  const compiled = await compile('dist', sourceProjects())
  return compiled.passed ? buildDashboard() : compiled
}

/** Checks the types of tests, simulator, benchmarks and scripts, and compiles them into dist-dev/. */
export function checkTypes() {
  return compile('dist-dev', ['tsconfig.dev.json'])
}

/**
 * The compiler's incremental build notices changed sources, but not every changed option: TypeScript 7.0 keeps
 * the errors of yesterday's `lib`. So a changed configuration compiles everything once more.
 *
 * @param {string} output what is compiled, for the note of the configuration it was compiled with
 * @param {readonly string[]} projects
 */
async function compile(output, projects) {
  const stampFile = join(ROOT, 'node_modules', `.tenure-${output}`)
  const wanted = configurationFingerprint()
  const isKnown = existsSync(stampFile) && readFileSync(stampFile, 'utf8') === wanted
  const command = [...installedTool(ROOT, 'typescript', 'tsc'), '-b', ...projects]
  const result = await runQuietly(isKnown ? command : [...command, '--force'], { cwd: ROOT })
  writeFileSync(stampFile, wanted)
  return { passed: result.status === 0, output: result.output }
}

function configurationFingerprint() {
  const hash = createHash('sha256')
  const projects = sourceProjects().map((path) => join(path, 'tsconfig.json'))
  for (const file of ['tsconfig.base.json', 'tsconfig.dev.json', ...projects]) {
    hash
      .update(file)
      .update('\0')
      .update(readFileSync(join(ROOT, file)))
      .update('\0')
  }
  return hash.digest('hex')
}

function sourceProjects() {
  const folders = ['src', ...readdirSync(join(ROOT, 'src')).map((name) => join('src', name))]
  return folders.filter((path) => existsSync(join(ROOT, path, 'tsconfig.json'))).toSorted()
}
