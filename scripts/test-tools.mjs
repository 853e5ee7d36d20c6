/**
 * Programs of the operating system that the tests use. What is missing is installed where that is possible without
 * asking anybody (root on a Debian-like system); elsewhere the person is told the command. A test that needs a tool
 * is never skipped for want of it.
 */
import { accessSync, constants, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { runQuietly } from './processes.mjs'
import { ROOT, SetupError } from './setup.mjs'

/**
 * @typedef {object} Tool
 * @property {string} program
 * @property {string} debianPackage
 * @property {string} [insteadOf] the variable of the environment that names a server to use instead
 */

/** @type {readonly Tool[]} */
export const TEST_TOOLS = [
  { program: 'faketime', debianPackage: 'faketime' },
  { program: 'unshare', debianPackage: 'util-linux' },
  { program: 'redis-server', debianPackage: 'redis-server', insteadOf: 'TENURE_TEST_REDIS_URL' },
  { program: 'initdb', debianPackage: 'postgresql', insteadOf: 'TENURE_TEST_POSTGRES_URL' },
  { program: 'postgres', debianPackage: 'postgresql', insteadOf: 'TENURE_TEST_POSTGRES_URL' },
  { program: 'pg_basebackup', debianPackage: 'postgresql' },
  { program: 'pgbouncer', debianPackage: 'pgbouncer' },
  { program: 'promtool', debianPackage: 'prometheus' },
  { program: 'curl', debianPackage: 'curl' },
  { program: 'jq', debianPackage: 'jq' },
  { program: 'python3', debianPackage: 'python3' },
  { program: 'openssl', debianPackage: 'openssl' },
  { program: 'chromium', debianPackage: 'chromium' },
  { program: 'git-lfs', debianPackage: 'git-lfs' },
]

/** Debian keeps the programs of each version of the PostgreSQL server in a folder that is not on the path. */
const POSTGRES_VERSIONS = '/usr/lib/postgresql'

/** Sees to it that every tool is there, or throws with the command that gets what is missing. */
export async function provideTestTools() {
  const needed = TEST_TOOLS.filter(
    ({ insteadOf }) => insteadOf === undefined || !process.env[insteadOf],
  )
  const missing = missingTools(needed, searchPath())
  if (missing.length === 0) return
  const packages = packagesOf(missing)
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
 * Where a tool is, for a test that starts it. A run of Vitest alone has not provided the tools, so they may be
 * missing; then the test fails with the command that gets them.
 *
 * @param {string} program
 */
export function requireTestTool(program) {
  const folder = folderOf(program, searchPath())
  if (folder !== undefined) return join(folder, program)
  throw new SetupError(advice(TEST_TOOLS.filter((tool) => tool.program === program)))
}

/** Where Debian keeps PgBouncer, which is not on everybody's path. */
const SYSTEM_PROGRAMS = '/usr/sbin'

/** The path, and after it the folders of PostgreSQL's server programs, the latest version first. */
function searchPath() {
  const more = [...postgresFolders(POSTGRES_VERSIONS), SYSTEM_PROGRAMS]
  return [process.env['PATH'] ?? '', ...more].join(delimiter)
}

/** @param {string} versionsFolder */
export function postgresFolders(versionsFolder) {
  try {
    return readdirSync(versionsFolder)
      .toSorted((a, b) => Number(b) - Number(a))
      .map((version) => join(versionsFolder, version, 'bin'))
  } catch {
    return []
  }
}

/**
 * @param {readonly Tool[]} tools
 * @param {string} path
 */
export function missingTools(tools, path) {
  return tools.filter(({ program }) => folderOf(program, path) === undefined)
}

/** @param {readonly Tool[]} missing */
export function advice(missing) {
  const programs = missing.map(({ program }) => program).join(', ')
  const packages = packagesOf(missing).join(' ')
  return `The tests need ${programs}. On Debian or Ubuntu: sudo apt-get install ${packages}`
}

/** @param {readonly Tool[]} tools */
function packagesOf(tools) {
  return [...new Set(tools.map(({ debianPackage }) => debianPackage))]
}

/**
 * @param {string} path
 * @param {number} userId
 */
export function mayInstall(path, userId) {
  return userId === 0 && folderOf('apt-get', path) !== undefined
}

/**
 * @param {string} program
 * @param {string} path
 */
function folderOf(program, path) {
  return path.split(delimiter).find((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}
