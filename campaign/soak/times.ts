/** Clocks at the ends of what numbers hold, by time namespaces and faketime: one process for each. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { withWallClock } from '../../test/fake-clock.ts'
import { ROOT, type Step } from '../part.ts'
import type { ClockReport } from './clock-trial.ts'

const TRIAL = path.join(ROOT, 'dist-dev', 'campaign', 'soak', 'clock-trial.js')
const DAY_S = 86_400

interface Circumstance {
  readonly name: string
  readonly wrapper: () => readonly string[]
  readonly isRefused?: boolean
}

function upFor(days: number): readonly string[] {
  const seconds = String(days * DAY_S)
  return ['unshare', '-rT', '--monotonic', seconds, '--boottime', seconds]
}

const CIRCUMSTANCES: readonly Circumstance[] = [
  { name: 'up for 120 days', wrapper: () => upFor(120) },
  { name: 'up for 20 years', wrapper: () => upFor(20 * 365) },
  {
    name: 'two seconds before 2^31 s, in 2038',
    wrapper: () => withWallClock('@2038-01-19 03:14:05'),
  },
  { name: 'in 2112, beyond 2^52 µs', wrapper: () => withWallClock('@2112-10-01 00:00:00') },
  { name: 'in May 2255', wrapper: () => withWallClock('@2255-05-01 00:00:00') },
  {
    name: 'in 2256, beyond 2^53 µs',
    wrapper: () => withWallClock('@2256-01-01 00:00:00'),
    isRefused: true,
  },
]

async function trialOf({ wrapper }: Circumstance): Promise<ClockReport> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-times-'))
  const store = `sqlite:${path.join(directory, 'leases.db')}`
  const [program, ...args] = [...wrapper(), process.execPath, TRIAL, store]
  try {
    const { stdout } = await promisify(execFile)(program, args)
    return JSON.parse(stdout) as ClockReport
  } finally {
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

export const timesStep: Step = {
  name: 'clocks at their ends',
  minutes: 2,
  run: async ({ say }) => {
    const failures: string[] = []
    for (const circumstance of CIRCUMSTANCES) {
      const { name, isRefused = false } = circumstance
      say(name)
      const { problems, refused } = await trialOf(circumstance)
      failures.push(...problems.map((problem) => `${name}: ${problem}`))
      if (refused !== isRefused) failures.push(`${name}: ${refused ? 'was' : 'was not'} refused`)
    }
    return { counts: { clocks: CIRCUMSTANCES.length }, failures, shortfalls: [] }
  },
}
