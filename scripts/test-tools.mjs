/**
 * Programs of the operating system that the tests use. What is missing is installed where that is possible without
 * asking anybody (root on a Debian-like system); elsewhere the person is told the command. A test that needs a tool
 * is never skipped for want of it.
 */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { runQuietly } from './processes.mjs'
import { ROOT, SetupError } from './setup.mjs'

/** @typedef {{ program: string, debianPackage: string }} Tool */

/** @type {readonly Tool[]} */
export const TEST_TOOLS = [
  { program: 'faketime', debianPackage: 'faketime' },
  { program: 'unshare', debianPackage: 'util-linux' },
]

/** Sees to it that every tool is there, or throws with the command that gets what is missing. */
export async function provideTestTools() {
  const missing = missingTools(TEST_TOOLS, process.env['PATH'] ?? '')
  if (missing.length === 0) return
  const packages = missing.map(({ debianPackage }) => debianPackage)
  if (!mayInstall(process.env['PATH'] ?? '', process.getuid?.() ?? -1)) {
    throw new SetupError(advice(missing))
  }
  process.stdout.write(`Installing for the tests: ${packages.join(', ')}…\n`)
  await runQuietly(['apt-get', 'update', '-q'], { cwd: ROOT })
  const install = ['apt-get', 'install', '-y', '-q', '--no-install-recommends', ...packages]
  const { status, output } = await runQuietly(install, { cwd: ROOT })
  if (status !== 0) throw new SetupError(`${output.trimEnd()}\n${advice(missing)}`)
}

/**
 * @param {readonly Tool[]} tools
 * @param {string} path
 */
export function missingTools(tools, path) {
  return tools.filter(({ program }) => !isOnPath(program, path))
}

/** @param {readonly Tool[]} missing */
export function advice(missing) {
  const programs = missing.map(({ program }) => program).join(', ')
  const packages = missing.map(({ debianPackage }) => debianPackage).join(' ')
  return `The tests need ${programs}. On Debian or Ubuntu: sudo apt-get install ${packages}`
}

/**
 * @param {string} path
 * @param {number} userId
 */
export function mayInstall(path, userId) {
  return userId === 0 && isOnPath('apt-get', path)
}

/**
 * @param {string} program
 * @param {string} path
 */
function isOnPath(program, path) {
  return path.split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}
