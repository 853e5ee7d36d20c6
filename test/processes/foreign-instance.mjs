/**
 * An instance that knows nothing of Tenure: `redis-cli`, `SET NX PX`, and the two conditional scripts. It takes what it
 * can get, polls it, and logs as the others do. `node foreign-instance.mjs URL LOG TTL_MS SESSION...`
 */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const [url = '', log = '', ttl = '0', ...sessions] = process.argv.slice(2)
const id = `foreign-${Date.now()}000000-0f0f0f0f`
const RENEW =
  'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end'
const RELEASE =
  'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end'

/** @param {...string} args */
const redis = (...args) =>
  execFileSync('redis-cli', ['-u', url, ...args], { encoding: 'utf8' }).trim()
const nowUs = () => Number(process.hrtime.bigint() / 1000n)
/** @param {object} line */
const write = (line) => fs.appendFileSync(log, `${JSON.stringify(line)}\n`)

let isRunning = true
process.on('SIGTERM', () => (isRunning = false))
/** @type {Set<string>} */
const owned = new Set()

while (isRunning) {
  redis('SET', `poll:node:${id}`, '1', 'PX', ttl)
  for (const session of sessions) {
    const key = `poll:lease:${session}`
    const sentUs = nowUs()
    const isOurs = owned.has(session)
      ? redis('EVAL', RENEW, '1', key, id, ttl) === '1'
      : redis('SET', key, id, 'NX', 'PX', ttl) === 'OK'
    if (!isOurs) owned.delete(session)
    else owned.add(session)
    const untilUs = sentUs + Number(ttl) * 990
    if (!isOurs || nowUs() >= untilUs) continue
    write({ kind: 'begin', atUs: nowUs(), session, fence: 0, untilUs })
    await sleep(3)
    write({ kind: 'end', atUs: nowUs(), session, fence: 0, isTaken: null })
  }
  process.stdout.write('round\n')
}
for (const session of owned) redis('EVAL', RELEASE, '1', `poll:lease:${session}`, id)
redis('DEL', `poll:node:${id}`)
