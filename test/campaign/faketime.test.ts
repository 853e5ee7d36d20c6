/** The clock that a run sets for a server is set by as much as it should be, and runs on from where it stands. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { FaketimeFile } from '../../campaign/chaos/faketime.ts'

/** Prints its wall time at each line that it is sent. */
const CHILD = `
process.stdin.on('data', () => console.log(Date.now()))
console.log('ready')
`
const YEAR_MS = 365 * 24 * 3_600_000
/** More than the hundredth of a second to which the start of a process is known. */
const SLACK_MS = 100

it('a clock whose rate changes does not jump', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-faketime-'))
  onTestFinished(() => fs.rmSync(folder, { recursive: true }))
  const clock = new FaketimeFile(path.join(folder, 'time'))
  const spawnedMs = Date.now()
  const child = spawn(process.execPath, ['-e', CHILD], { env: { ...process.env, ...clock.env } })
  onTestFinished(() => void child.kill('SIGKILL'))
  const line = async (): Promise<string> =>
    String(((await once(child.stdout, 'data')) as [Buffer])[0])
  await line()
  const beganWithinMs = Date.now() - spawnedMs
  /** Its clock, by how far it is ahead of the true one at least and at most: it looked in between. */
  const ahead = async (): Promise<{ readonly atLeastMs: number; readonly atMostMs: number }> => {
    const fromMs = Date.now()
    child.stdin.write('\n')
    const saysMs = Number(await line())
    return { atLeastMs: saysMs - Date.now(), atMostMs: saysMs - fromMs }
  }
  clock.step(10 * YEAR_MS)
  const set = await ahead()
  expect(set.atMostMs).toBeGreaterThanOrEqual(10 * YEAR_MS - SLACK_MS)
  expect(set.atLeastMs).toBeLessThanOrEqual(10 * YEAR_MS + SLACK_MS)
  clock.step(-10 * YEAR_MS)
  // Counted from its start, twice the rate would be a jump by so long.
  await sleep(1_000)
  const changedMs = Date.now()
  clock.run(2, child.pid ?? -1)
  const doubled = await ahead()
  const sinceMs = Date.now() - changedMs
  expect(doubled.atLeastMs).toBeLessThanOrEqual(2 * sinceMs + SLACK_MS)
  // The library counts from its own start, which comes a little after that of the process.
  expect(doubled.atMostMs).toBeGreaterThanOrEqual(-beganWithinMs - sinceMs - SLACK_MS)
})
