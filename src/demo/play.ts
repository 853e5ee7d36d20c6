/**
 * The course of the demo. Nothing here looks into an agent or tells it what to do beyond its start and end: the agents
 * work, and what befalls two of them comes from outside, as signals.
 *
 *  1. Five agents go round the files and wait for each other.
 *  2. One is killed while it holds a file that others wait for. After its TTL the next one has it.
 *  3. One is stopped just before a write. Its lease runs out, another agent takes the file and writes.
 *  4. The stopped one goes on where it was and writes too late: its fence is too low.
 *  5. All finish their turn and end.
 */
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Cast } from './cast.ts'
import type { AgentReport, AgentRole } from './report.ts'

export const AGENT_NAMES = ['ada', 'ben', 'cleo', 'dan', 'eve'] as const
export const FILE_NAMES = ['notes.md', 'plan.md', 'server.ts', 'schema.sql'] as const
export const DEMO_TTL_MS = 2_000
export const KILLED = 'ben'
export const STOPPED = 'dan'

/** After which part of the demo an agent plays its role; an ordinary one has none to play. */
const CUES: Readonly<Record<AgentRole, number>> = { worker: 0, killed: 0.15, stopped: 0.4 }

/** Longer than anything should take, even on a machine that has other things to do. */
const PATIENCE_MS = 30_000
/** After this, a report that was on its way when the agent was stopped has arrived. */
const STOP_MS = 150

export interface DemoStage {
  readonly cast: Cast
  readonly storeUrl: string
  readonly directory: string
  readonly durationMs: number
  /** Whether an agent waits for a file at this moment, according to the store. */
  readonly isAwaited: (file: string) => Promise<boolean>
  readonly announce: (text: string) => void
}

export async function play(stage: DemoStage): Promise<void> {
  const { cast, durationMs } = stage
  const over = pause(durationMs)
  startAll(stage)
  await killWhileHolding(stage)
  await stopPastItsTtl(stage)
  await over
  await cast.finish(PATIENCE_MS)
}

function startAll({ cast, storeUrl, directory, durationMs }: DemoStage): void {
  const files = FILE_NAMES.map((name) => path.join(directory, name))
  AGENT_NAMES.forEach((name, firstFile) => {
    const role: AgentRole = name === KILLED ? 'killed' : name === STOPPED ? 'stopped' : 'worker'
    const cueMs = Math.round(durationMs * CUES[role])
    cast.start({ name, role, storeUrl, files, firstFile, ttlMs: DEMO_TTL_MS, cueMs })
  })
}

/** The agent clings to a lease and renews it; once another waits for that file, it dies. */
async function killWhileHolding(stage: DemoStage): Promise<void> {
  const { cast, durationMs, isAwaited, announce } = stage
  const clinging = await cast.report(hasRenewedTwice(cast), durationMs * CUES.killed + PATIENCE_MS)
  if (clinging === null) return
  const giveUpMs = performance.now() + 2 * DEMO_TTL_MS
  while (!(await isAwaited(clinging.file)) && performance.now() < giveUpMs) await pause(50)
  cast.kill(KILLED)
  announce(`${KILLED} is killed (SIGKILL) while it holds ${clinging.file}`)
}

/** Ordinary work is over before a lease is renewed twice: only the one that clings gets there. */
function hasRenewedTwice(cast: Cast): (report: AgentReport) => boolean {
  return ({ agent, kind, fence }) => {
    if (agent !== KILLED || kind !== 'renewed') return false
    return (
      cast.reports.filter((each) => each.kind === 'renewed' && each.fence === fence).length >= 2
    )
  }
}

/** On a machine that has other things to do the signal may come after the write; then the next write is the one. */
async function stopPastItsTtl(stage: DemoStage): Promise<void> {
  const patienceMs = stage.durationMs * CUES.stopped + PATIENCE_MS
  const giveUpMs = performance.now() + patienceMs
  let lastFence = 0
  while (performance.now() < giveUpMs) {
    const aboutToWrite = await stage.cast.report(({ agent, kind, fence }) => {
      return agent === STOPPED && kind === 'about_to_write' && fence > lastFence
    }, patienceMs)
    if (aboutToWrite === null || (await stopBeforeWrite(stage, aboutToWrite))) return
    lastFence = aboutToWrite.fence
  }
}

/** Stops the agent until another has written, and lets it go on; tells whether its write came too late. */
async function stopBeforeWrite(
  { cast, announce }: DemoStage,
  { file, fence }: AgentReport,
): Promise<boolean> {
  const ownWrite = async (timeoutMs: number): Promise<AgentReport | null> =>
    cast.report((report) => {
      return report.fence === fence && (report.kind === 'wrote' || report.kind === 'refused')
    }, timeoutMs)
  cast.stop(STOPPED)
  if ((await ownWrite(STOP_MS)) !== null) {
    cast.resume(STOPPED)
    return false
  }
  announce(`${STOPPED} is stopped (SIGSTOP) just before it writes to ${file}`)
  const overtaken = await cast.report((report) => {
    return report.kind === 'wrote' && report.file === file && report.fence > fence
  }, PATIENCE_MS)
  cast.resume(STOPPED)
  const by =
    overtaken === null ? 'no other agent wrote meanwhile' : `${overtaken.agent} wrote meanwhile`
  announce(`${STOPPED} goes on (SIGCONT) with its write; ${by}`)
  return (await ownWrite(PATIENCE_MS))?.kind === 'refused'
}
