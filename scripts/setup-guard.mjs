/**
 * Lets one set-up at a time work in a tree: a directory that only one process can create. It guards against
 * two `npm test` started together, on one host; it is not a lease, has no time limit, and a set-up that was
 * killed is noticed by its process being gone.
 */
import {
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  rmdirSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const POLL_MS = 200
const OWNER_WRITTEN_WITHIN_MS = 10_000
const WAIT_MS_MAX = 15 * 60_000

/** @typedef {{ host: string, pid: number }} Owner */

/**
 * Runs `work` while no other process does so under the same guard.
 *
 * @template T
 * @param {string} guard the directory; its parent exists, it itself does not while nobody works
 * @param {() => Promise<T>} work
 * @param {{ onWait?: (owner: Owner | null) => void, waitMsMax?: number }} [options]
 * @returns {Promise<T>}
 */
export async function withSetupGuard(guard, work, options = {}) {
  await enter(guard, options)
  try {
    return await work()
  } finally {
    discard(guard)
  }
}

/**
 * @param {string} guard
 * @param {{ onWait?: (owner: Owner | null) => void, waitMsMax?: number }} options
 */
async function enter(guard, { onWait, waitMsMax = WAIT_MS_MAX }) {
  const startedAtMs = performance.now()
  let announced = false
  while (!tryEnter(guard)) {
    if (discardIfDead(guard)) continue
    const owner = ownerOf(guard)
    if (performance.now() - startedAtMs >= waitMsMax) throw new Error(stuckMessage(guard, owner))
    if (!announced) onWait?.(owner)
    announced = true
    await sleep(POLL_MS)
  }
}

/** @param {string} guard */
function tryEnter(guard) {
  try {
    mkdirSync(guard)
    writeFileSync(
      join(guard, 'owner.json'),
      JSON.stringify({ host: hostname(), pid: process.pid }),
      {
        flag: 'wx',
      },
    )
    return true
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false
    throw error
  }
}

/**
 * Two processes may find the same dead owner. Discarding what the second one sees must not hit the guard that
 * the first one has set up meanwhile:
 * 1. only one of them creates `discarding` inside a given guard;
 * 2. it looks at the owner again, now that nobody else may discard this very guard;
 * 3. a dead owner cannot leave, so what it saw in 2 is what it moves away.
 *
 * @param {string} guard
 */
function discardIfDead(guard) {
  if (!isDead(guard)) return false
  const claim = join(guard, 'discarding')
  try {
    mkdirSync(claim)
  } catch (error) {
    if (hasCode(error, 'EEXIST') || hasCode(error, 'ENOENT')) return false
    throw error
  }
  if (isDead(guard)) return discard(guard)
  rmdirSync(claim)
  return false
}

/**
 * Moves the guard away before deleting it, so that it disappears at once and whole.
 *
 * @param {string} guard
 */
function discard(guard) {
  const away = `${guard}-${randomUUID()}`
  renameSync(guard, away)
  rmSync(away, { recursive: true, force: true })
  return true
}

/** @param {string} guard */
function isDead(guard) {
  const owner = ownerOf(guard)
  if (owner === null) return ageMs(guard) > OWNER_WRITTEN_WITHIN_MS
  if (owner.host !== hostname()) return false
  try {
    process.kill(owner.pid, 0)
    return false
  } catch (error) {
    return hasCode(error, 'ESRCH')
  }
}

/**
 * @param {string} guard
 * @returns {Owner | null}
 */
function ownerOf(guard) {
  try {
    return JSON.parse(readFileSync(join(guard, 'owner.json'), 'utf8'))
  } catch {
    return null
  }
}

/** @param {string} guard */
function ageMs(guard) {
  const stats = statSync(guard, { throwIfNoEntry: false })
  return stats === undefined ? 0 : Date.now() - stats.mtimeMs
}

/**
 * @param {string} guard
 * @param {Owner | null} owner
 */
function stuckMessage(guard, owner) {
  const who = owner === null ? 'an unknown process' : `process ${owner.pid} on ${owner.host}`
  return `The set-up by ${who} has not ended. If it is not running any more, delete ${guard}`
}

/**
 * @param {unknown} error
 * @param {string} code
 */
function hasCode(error, code) {
  return error instanceof Error && 'code' in error && error.code === code
}
