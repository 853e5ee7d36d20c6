/**
 * Starting other programs, for the scripts of this folder. Uses nothing but Node: these scripts run before
 * anything is installed.
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'

/**
 * Runs a program to its end and keeps what it prints, so that the caller shows it only when it matters.
 *
 * @param {readonly string[]} command
 * @param {{ cwd: string, shell?: boolean }} options
 * @returns {Promise<{ status: number, output: string }>}
 */
export function runQuietly([program = '', ...args], options) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    const keep = (/** @type {string} */ text) => {
      output += text
    }
    child.stdout.setEncoding('utf8').on('data', keep)
    child.stderr.setEncoding('utf8').on('data', keep)
    child.once('error', (error) => resolve({ status: 127, output: `${output}${error.message}\n` }))
    child.once('close', (code, signal) => resolve({ status: statusOf(code, signal), output }))
  })
}

/**
 * Runs a program in this terminal. Ctrl-C reaches it directly, so this process only stays out of the way
 * until it has ended; SIGTERM and SIGHUP come to this process alone and are handed on.
 *
 * @param {readonly string[]} command
 * @param {{ cwd: string, env?: NodeJS.ProcessEnv }} options
 * @returns {Promise<number>} the exit status, 128 + n after signal n as shells have it
 */
export function runInForeground([program = '', ...args], options) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...options, stdio: 'inherit' })
    const ignore = () => {}
    const handOn = (/** @type {NodeJS.Signals} */ signal) => child.kill(signal)
    process.on('SIGINT', ignore).on('SIGTERM', handOn).on('SIGHUP', handOn)
    child.once('error', reject)
    child.once('close', (code, signal) => {
      process.off('SIGINT', ignore).off('SIGTERM', handOn).off('SIGHUP', handOn)
      resolve(statusOf(code, signal))
    })
  })
}

/**
 * The command line that starts an installed tool without a shell, and without the `.cmd` files that Windows
 * needs one for.
 *
 * @param {string} root
 * @param {string} packageName
 * @param {string} [binary] the package's name unless the package names its program otherwise
 * @returns {string[]}
 */
export function installedTool(root, packageName, binary = packageName) {
  const folder = join(root, 'node_modules', packageName)
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  return [process.execPath, join(folder, typeof bin === 'string' ? bin : bin[binary])]
}

/**
 * @param {number | null} code
 * @param {NodeJS.Signals | null} signal
 */
function statusOf(code, signal) {
  return code ?? 128 + (signal === null ? 0 : constants.signals[signal])
}
