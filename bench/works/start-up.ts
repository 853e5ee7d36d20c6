/** Work 5: how long a command takes from nothing, beside Node that does nothing, and `flock`. */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Slice } from '../measure/load.ts'
import type { Plan } from '../plan.ts'
import { messageOf, type Result } from '../result.ts'
import { ROOT } from '../systems/load-peer.ts'
import type { Stage } from './entrants.ts'

export interface Program {
  readonly name: string
  readonly command: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** What it reads from stdin; the first round is -1. */
  readonly inputOf?: (round: number) => string
}

export const START_UP = 'start-up'
export const NODE_ALONE = 'node -e 0'

export async function measureStartUp(stage: Stage, plan: Plan): Promise<readonly Result[]> {
  stage.say('start-up')
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-bench-start-'))
  try {
    return measurePrograms(START_UP, programsOf(folder), plan.startUp.rounds)
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

function programsOf(folder: string): readonly Program[] {
  const tenure = [process.execPath, path.join(ROOT, 'dist/cli/main.js')]
  const storeNamed = (name: string): readonly string[] => {
    return ['--store', `sqlite:${path.join(folder, name)}`]
  }
  return [
    { name: NODE_ALONE, command: [process.execPath, '-e', '0'] },
    { name: 'tenure ls', command: [...tenure, 'ls', ...storeNamed('ls.db')] },
    {
      name: 'tenure run true',
      command: [...tenure, 'run', 'work:start', ...storeNamed('run.db'), '--', 'true'],
    },
    { name: 'flock true', command: ['flock', path.join(folder, 'start.lock'), 'true'] },
  ]
}

/** All programs in turn, round by round, so that a busy moment weighs on all of them. */
export function measurePrograms(
  work: string,
  programs: readonly Program[],
  rounds: number,
): readonly Result[] {
  const spans = new Map<string, number[]>(programs.map(({ name }) => [name, []]))
  const failed = new Map<string, string>()
  // The first of each is for the disk's cache.
  for (let round = -1; round < rounds; round += 1) {
    for (const program of programs) {
      const { name } = program
      if (failed.has(name)) continue
      try {
        const ms = timeOf(program, round)
        if (round >= 0) spans.get(name)?.push(ms)
      } catch (error) {
        failed.set(name, messageOf(error))
      }
    }
  }
  return programs.map(({ name }) => ({
    ...{ work, store: 'process', system: name, inFlight: 1 },
    isReference: name === NODE_ALONE,
    rounds: failed.has(name) ? [] : (spans.get(name) ?? []).map(sliceOf),
    error: failed.get(name) ?? null,
  }))
}

function sliceOf(ms: number): Slice {
  return { opsPerSecond: 1_000 / ms, p50Ms: ms, p99Ms: ms }
}

function timeOf({ command, env = {}, inputOf }: Program, round: number): number {
  const [program = '', ...args] = command
  const input = inputOf?.(round) ?? ''
  const options = { encoding: 'utf8', input, env: { ...process.env, ...env } } as const
  const startMs = performance.now()
  const { status, error, stderr } = spawnSync(program, args, options)
  const ms = performance.now() - startMs
  if (error !== undefined) throw error
  if (status !== 0) throw new Error(`${program} ended with status ${status}: ${stderr.trim()}`)
  return ms
}
