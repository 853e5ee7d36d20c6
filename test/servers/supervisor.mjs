/**
 * The parent of one server of the tests. It lives as long as its standard input is open, so that the server ends
 * and its data goes however the run of the tests ends, SIGKILL included; nothing is ever looked up by name.
 *
 * Its one argument is a {@link Supervised} as JSON. Lines on standard input are `start`, or the name of a signal
 * for the server; lines on standard output are JSON: {@link Report}.
 */
import { spawn, spawnSync } from 'node:child_process'
import { openSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/**
 * @typedef {object} Supervised
 * @property {string} folder holds everything the server writes; removed at the end
 * @property {string[]} command
 * @property {string[] | null} prepare run to its end once, before the first start
 * @property {NodeJS.Signals} endSignal what ends the server quickly and leaves nothing behind
 * @property {{ uid: number, gid: number } | null} user
 */
/**
 * @typedef {{ kind: 'started', pid: number } | { kind: 'exited' } | { kind: 'failed', message: string } |
 *   { kind: 'paused' } | { kind: 'resumed' }} Report
 */

const END_PATIENCE_MS = 5_000
const LOOK_EVERY_MS = 1

/** @type {Supervised} */
const spec = JSON.parse(process.argv[2] ?? '')
const surroundings = {
  cwd: spec.folder,
  env: { PATH: process.env['PATH'] ?? '', LC_ALL: 'C' },
  ...spec.user,
}
const log = openSync(join(spec.folder, 'server.log'), 'a')
let isPrepared = spec.prepare === null
/** @type {import('node:child_process').ChildProcess | null} */
let server = null

// The reader may be gone before the server is.
process.stdout.on('error', () => {})
createInterface({ input: process.stdin })
  .on('line', (line) => {
    if (line === 'start') start()
    else signalServer(/** @type {NodeJS.Signals} */ (line))
  })
  .once('close', end)

function start() {
  try {
    if (!isPrepared) prepare(spec.prepare ?? [])
  } catch (error) {
    report({ kind: 'failed', message: String(error) })
    return
  }
  const [program = '', ...args] = spec.command
  const child = spawn(program, args, { ...surroundings, stdio: ['ignore', log, log] })
  child.once('spawn', () => report({ kind: 'started', pid: child.pid ?? -1 }))
  child.once('error', (error) => report({ kind: 'failed', message: error.message }))
  child.once('exit', () => {
    server = null
    report({ kind: 'exited' })
  })
  server = child
}

/** @param {string[]} command */
function prepare([program = '', ...args]) {
  const { status, error } = spawnSync(program, args, {
    ...surroundings,
    stdio: ['ignore', log, log],
  })
  if (error !== undefined) throw error
  if (status !== 0) throw new Error(`${program} ended with status ${status}`)
  isPrepared = true
}

/**
 * Stopping, resuming and killing mean every process of the server: PostgreSQL answers from children that would go
 * on. It is stopped first, so that it starts no child that the list does not have. A signal is sent, not obeyed,
 * when `kill` returns: who is told that the server is paused may rely on every one of them having stopped, and who is
 * told that it was killed on every one of them having ended. PostgreSQL does not start again while one that is left has
 * its shared memory.
 *
 * @param {NodeJS.Signals} signal
 */
function signalServer(signal) {
  const pid = server?.pid
  if (pid === undefined) return report({ kind: 'exited' })
  if (signal === 'SIGSTOP' || signal === 'SIGKILL') {
    signalProcess(pid, 'SIGSTOP')
    until(pid, isStopped)
  }
  if (signal === 'SIGSTOP' || signal === 'SIGCONT' || signal === 'SIGKILL') {
    const children = childrenOf(pid)
    for (const child of children) signalProcess(child, signal)
    if (signal === 'SIGSTOP') for (const child of children) until(child, isStopped)
    if (signal === 'SIGKILL') for (const child of children) until(child, () => false)
  }
  signalProcess(pid, signal)
  if (signal === 'SIGSTOP') report({ kind: 'paused' })
  if (signal === 'SIGCONT') {
    until(pid, (state) => !isStopped(state))
    report({ kind: 'resumed' })
  }
}

/**
 * Until a process is in such a state, or has ended.
 *
 * @param {number} pid
 * @param {(state: string) => boolean} isSo
 */
function until(pid, isSo) {
  const pause = new Int32Array(new SharedArrayBuffer(4))
  for (;;) {
    const state = statusOf(pid)[0]
    // Nothing is there, or what is there ends without being scheduled again.
    if (state === undefined || state === 'Z' || state === 'X') return
    if (isSo(state)) return
    Atomics.wait(pause, 0, 0, LOOK_EVERY_MS)
  }
}

/** @param {string} state */
function isStopped(state) {
  return state === 'T'
}

/** @param {number} parent */
function childrenOf(parent) {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(statusOf(name)[1]) === parent)
    .map(Number)
}

/**
 * The state of a process, its parent, and what follows them in `/proc`; nothing when it has ended.
 *
 * @param {string | number} pid
 */
function statusOf(pid) {
  try {
    // The name of the program, in brackets, may hold anything: the fields after it are counted from its end.
    const status = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return status.slice(status.lastIndexOf(')') + 2).split(' ')
  } catch {
    return []
  }
}

/**
 * @param {number} pid
 * @param {NodeJS.Signals} signal
 */
function signalProcess(pid, signal) {
  try {
    process.kill(pid, signal)
  } catch {
    // It ended by itself.
  }
}

function end() {
  const finish = () => {
    releaseSharedMemory()
    rmSync(spec.folder, { recursive: true, force: true })
    process.exit(0)
  }
  if (server === null) return finish()
  server.once('exit', finish)
  signalServer('SIGCONT')
  server.kill(spec.endSignal)
  setTimeout(() => signalServer('SIGKILL'), END_PATIENCE_MS)
}

/** PostgreSQL killed with SIGKILL leaves a small segment of shared memory, which the next start would remove. */
function releaseSharedMemory() {
  try {
    const lines = readFileSync(join(spec.folder, 'data', 'postmaster.pid'), 'utf8').split('\n')
    const segment = lines[6]?.trim().split(/\s+/)[1]
    if (segment !== undefined) spawnSync('ipcrm', ['-m', segment], { stdio: 'ignore' })
  } catch {
    // Not PostgreSQL, or it ended in order.
  }
}

/** @param {Report} report */
function report(report) {
  process.stdout.write(`${JSON.stringify(report)}\n`)
}
