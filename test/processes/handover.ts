/** Runs handover workers and gathers what they logged. */
import { spawn, type ChildProcess } from 'node:child_process'
import path from 'node:path'

const WORKER = path.resolve(import.meta.dirname, '../../dist-dev/test/processes/handover-worker.js')

export interface Turn {
  readonly leaseId: string
  readonly holder: string
  readonly fence: number
  readonly startUs: number
  /** Just before the release was sent. */
  readonly endUs: number
}

export interface TurnTakerOptions {
  readonly store: string
  readonly resource: string
  readonly holder: string
  readonly sessions?: number
  readonly rounds?: number
  readonly holdMs?: number
  /** No new round begins after so long; default: only `rounds` counts. */
  readonly forMs?: number
}

export interface TurnTaker {
  readonly process: ChildProcess
  /** What it logged, once it has ended. Rejects if it ended badly, unless it was killed. */
  readonly turns: Promise<readonly Turn[]>
}

export function takeTurns(options: TurnTakerOptions): TurnTaker {
  const {
    store,
    resource,
    holder,
    sessions = 1,
    rounds = 1,
    holdMs = 1,
    forMs = Infinity,
  } = options
  const numbers = [sessions, rounds, holdMs, forMs].map(String)
  const args = [WORKER, store, resource, holder, ...numbers]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const turns = new Promise<readonly Turn[]>((resolve, reject) => {
    child.once('close', (code, signal) => {
      if (code === 0 || signal !== null) resolve(turnsIn(output))
      else reject(new Error(`${holder} ended with ${code}`))
    })
  })
  return { process: child, turns }
}

function turnsIn(output: string): readonly Turn[] {
  return output
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Turn)
}

/** Milliseconds from each release to the next start, for handovers to another holder. */
export function gapsMs(turns: readonly Turn[]): readonly number[] {
  const inOrder = turns.toSorted((a, b) => a.fence - b.fence)
  const gaps: number[] = []
  for (const [index, turn] of inOrder.entries()) {
    const earlier = inOrder[index - 1]
    if (earlier === undefined || earlier.holder === turn.holder) continue
    gaps.push((turn.startUs - earlier.endUs) / 1000)
  }
  return gaps
}

export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}
