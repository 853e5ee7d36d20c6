/**
 * What `npm start` and `npm test` do before their own work: install when the lockfile asks for something else
 * than what is there, and check that the SQLite driver loads. Runs on a fresh clone, so it uses nothing but
 * Node itself. The second time it reads two small files and is done.
 */
import { createHash } from 'node:crypto'
import { accessSync, constants, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runQuietly } from './processes.mjs'
import { withSetupGuard } from './setup-guard.mjs'

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

const NODE_MINIMUM = [20, 19]
const DRIVER = 'better-sqlite3'

/** A set-up that cannot go on; its message is meant for the person at the terminal. */
export class SetupError extends Error {
  /** @override */
  name = 'SetupError'
}

/**
 * Installs if need be and then runs `build` under the same guard, so that two commands started together
 * neither install nor compile into each other's files.
 *
 * @template T
 * @param {() => Promise<T>} build
 * @returns {Promise<T>}
 */
export async function setUp(build) {
  const tooOld = nodeComplaint(process.versions.node)
  if (tooOld !== null) throw new SetupError(tooOld)
  const onWait = (/** @type {{ pid: number } | null} */ owner) =>
    say(
      `Waiting for another set-up in this tree${owner === null ? '' : ` (process ${owner.pid})`}…`,
    )
  return withSetupGuard(join(ROOT, '.setup-guard'), () => install().then(build), { onWait })
}

async function install() {
  const stampFile = join(ROOT, 'node_modules', '.tenure-setup')
  const lockText = readFileSync(join(ROOT, 'package-lock.json'), 'utf8')
  const wanted = fingerprint(lockText, process)
  const stamp = readOptional(stampFile)
  const installed = readOptional(join(ROOT, 'node_modules', '.package-lock.json'))
  const action = decideInstall({ stamp, wanted, lockText, installed })
  if (action === 'keep') return
  if (action === 'install' || (await driverFailure()) !== null)
    await installAfresh(installed === null)
  writeFileSync(stampFile, wanted)
}

/** @param {boolean} first */
async function installAfresh(first) {
  const when = first ? 'first run, ' : ''
  say(`Installing (${when}about 2 minutes where ${DRIVER} must be compiled)…`)
  // Development tools are needed even where the environment says production.
  const { status, output } = await runNpmCi(ROOT, ['--include=dev', '--include=optional'])
  if (status !== 0)
    throw new SetupError(`${output.trimEnd()}\nnpm ci failed with status ${status}.`)
  const cause = await driverFailure()
  if (cause !== null) throw new SetupError(driverAdvice({ ...surroundings(), cause }))
}

/**
 * @param {string} folder with a lockfile
 * @param {readonly string[]} options
 */
export function runNpmCi(folder, options) {
  const npm = process.env['npm_execpath']
  const command = npm === undefined ? ['npm'] : [process.execPath, npm]
  const args = ['ci', ...options, '--no-progress', '--loglevel=error']
  const shell = npm === undefined && process.platform === 'win32'
  return runQuietly([...command, ...args], { cwd: folder, shell })
}

/** Loads the driver in a process of its own: a half-built addon can do worse than throw. */
async function driverFailure() {
  const program = `new (require('${DRIVER}'))(':memory:').close()`
  const { status, output } = await runQuietly(
    [process.execPath, '--input-type=commonjs', '-e', program],
    { cwd: ROOT },
  )
  if (status === 0) return null
  return output.split('\n').find((line) => /^\w*Error\b/.test(line)) ?? `exit status ${status}`
}

function surroundings() {
  return {
    platform: process.platform,
    missing: ['python3', 'make', 'g++'].filter((program) => !isOnPath(program)),
    scriptsIgnored: process.env['npm_config_ignore_scripts'] === 'true',
  }
}

/**
 * What decides whether an installed tree still fits: the lockfile, and the platform and addon interface that
 * the driver was compiled for.
 *
 * @param {string} lockText
 * @param {{ platform: string, arch: string, versions: { modules: string } }} host
 */
export function fingerprint(lockText, host) {
  const addonTarget = `${host.platform}-${host.arch}-${host.versions.modules}`
  return createHash('sha256').update(addonTarget).update('\0').update(lockText).digest('hex')
}

/**
 * `keep`: our stamp says that this very lockfile was installed. `adopt`: what is there is
 * what the lockfile asks for (somebody ran npm themselves, or Node changed), so it will do if the driver loads.
 * `install`: anything else.
 *
 * @param {{ stamp: string | null, wanted: string, lockText: string, installed: string | null }} state
 *   `installed` is what npm notes about the tree it installed (node_modules/.package-lock.json)
 * @returns {'keep' | 'adopt' | 'install'}
 */
export function decideInstall({ stamp, wanted, lockText, installed }) {
  if (stamp === wanted) return 'keep'
  if (installed === null) return 'install'
  return isInstalled(packagesOf(lockText), packagesOf(installed)) ? 'adopt' : 'install'
}

/** @typedef {Record<string, { version?: string, optional?: boolean, devOptional?: boolean }>} Packages */

/**
 * @param {Packages} wanted
 * @param {Packages} installed
 */
function isInstalled(wanted, installed) {
  const same = (/** @type {string} */ path) => installed[path]?.version === wanted[path]?.version
  const isNeeded = (/** @type {string} */ path) =>
    path === `node_modules/${DRIVER}` ||
    !(path === '' || wanted[path]?.optional === true || wanted[path]?.devOptional === true)
  return Object.keys(wanted).filter(isNeeded).every(same) && Object.keys(installed).every(same)
}

/**
 * @param {string} lockText
 * @returns {Packages}
 */
function packagesOf(lockText) {
  return JSON.parse(lockText).packages
}

/**
 * The message for a machine on which the SQLite driver has no prebuilt binary and cannot be compiled.
 *
 * @param {{ platform: string, missing: readonly string[], scriptsIgnored: boolean, cause: string }} situation
 */
export function driverAdvice({ platform, missing, scriptsIgnored, cause }) {
  if (scriptsIgnored) {
    return [
      `The SQLite driver ${DRIVER} is not built, because npm is configured with ignore-scripts=true.`,
      `Build it once with: npm rebuild ${DRIVER} --ignore-scripts=false`,
    ].join('\n')
  }
  return [
    `The SQLite driver ${DRIVER} does not load (${cause}).`,
    'No prebuilt binary could be fetched for this platform, and compiling it needs a C++ toolchain:',
    `  ${toolchainAdvice(platform, missing)}`,
    'Then run the same command again.',
  ].join('\n')
}

/**
 * @param {string} platform
 * @param {readonly string[]} missing
 */
function toolchainAdvice(platform, missing) {
  if (platform === 'darwin') return 'xcode-select --install'
  if (platform === 'win32') {
    return 'Visual Studio Build Tools with "Desktop development with C++", and Python 3'
  }
  const found =
    missing.length === 0 ? 'all three are on the PATH' : `missing: ${missing.join(', ')}`
  return `Debian, Ubuntu: apt-get install python3 make g++ (${found})`
}

/**
 * @param {string} version as in process.versions.node
 * @returns {string | null}
 */
export function nodeComplaint(version) {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [neededMajor = 0, neededMinor = 0] = NODE_MINIMUM
  const isEnough = major > neededMajor || (major === neededMajor && minor >= neededMinor)
  return isEnough
    ? null
    : `Tenure needs Node ${NODE_MINIMUM.join('.')} or later, this is ${version}.`
}

/** @param {string} program */
function isOnPath(program) {
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** @param {string} file */
function readOptional(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

/** @param {string} line */
function say(line) {
  process.stderr.write(`${line}\n`)
}
