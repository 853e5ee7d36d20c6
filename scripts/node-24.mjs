/**
 * The Node 24 that tests run programs with, installed from test/node-24 where that is not what its lockfile asks for. It is
 * in a folder of its own: at the root it would become the `node` of every script. A test that needs it is never skipped
 * for want of it: where it cannot be had, the set-up fails and says why.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withSetupGuard } from './setup-guard.mjs'
import { fingerprint, ROOT, runNpmCi, SetupError } from './setup.mjs'

const FOLDER = join(ROOT, 'test', 'node-24')
const PACKAGES = join(FOLDER, 'node_modules')
const STAMP = join(PACKAGES, '.tenure-setup')

/** Names a Node 24 to use instead, for platforms that npm has none for. */
const VARIABLE = 'TENURE_TEST_NODE_24'

/**
 * Sees to it that Node 24 is there, and resolves to its program. The second time it reads two small files and is done.
 *
 * @returns {Promise<string>}
 */
export async function provideNode24() {
  const given = process.env[VARIABLE]
  if (given !== undefined) return requireProgram(given)
  const wanted = fingerprint(readFileSync(join(FOLDER, 'package-lock.json'), 'utf8'), process)
  if (!isInstalled(wanted)) {
    await withSetupGuard(join(ROOT, '.setup-guard-node-24'), async () => {
      if (!isInstalled(wanted)) await install(wanted)
    })
  }
  return requireProgram(nodeIn(PACKAGES))
}

/** @param {string} wanted */
function isInstalled(wanted) {
  return existsSync(STAMP) && readFileSync(STAMP, 'utf8') === wanted
}

/** @param {string} wanted */
async function install(wanted) {
  process.stderr.write('Installing Node 24 for the tests…\n')
  const { status, output } = await runNpmCi(FOLDER, ['--ignore-scripts', '--include=optional'])
  if (status !== 0) {
    const why = `npm ci in test/node-24 failed with status ${status}.`
    throw new SetupError(`${output.trimEnd()}\n${why} ${ADVICE}`)
  }
  requireProgram(nodeIn(PACKAGES))
  writeFileSync(STAMP, wanted)
}

const ADVICE = `The tests need Node 24; ${VARIABLE} may name the program of one.`

/**
 * The program among the packages of npm that has it for this platform.
 *
 * @param {string} packages
 */
export function nodeIn(packages) {
  const { platform, arch } = process
  const isWindows = platform === 'win32'
  const name = `node-${isWindows ? 'win' : platform}-${arch}`
  return join(packages, name, 'bin', isWindows ? 'node.exe' : 'node')
}

/** @param {string} program */
function requireProgram(program) {
  if (existsSync(program)) return program
  throw new SetupError(`There is no ${program} on ${process.platform}-${process.arch}. ${ADVICE}`)
}
