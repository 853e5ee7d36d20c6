/**
 * One instance of a fleet as a process: polls its sessions, logs each poll, and writes to fenced files if it is told
 * to. SIGTERM ends it in order. A poll looks at its signal in small steps, as one that means to stop does. SIGUSR2 stops
 * the process in the middle of a poll, until somebody goes on with it (SIGCONT).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { FleetManager } from '../../src/fleet/fleet-manager.ts'
import { openLeaseManager, runFleet, type LeaseManager, type PollContext } from '../../src/fleet.ts'
import { nowUs } from './chaos-log.ts'
import { FencedFiles } from './fenced-files.ts'
import { FleetLog } from './fleet-log.ts'
import { sessionIds, type FleetWorkerOptions } from './fleet-stage.ts'

const options = JSON.parse(process.argv[2] ?? '{}') as FleetWorkerOptions
const STEP_MS = 5

const log = new FleetLog(options.log)
const files = options.writes === null ? null : await FencedFiles.open(options.writes)

const manager: LeaseManager = await openLeaseManager(options.url, options.manager)
const say = (name: string, event: unknown): void => {
  log.write({ kind: 'event', atUs: nowUs(), name, text: JSON.stringify(event) })
}
for (const name of ['acquired', 'lost', 'taken_over', 'uncertain', 'recovered'] as const) {
  manager.on(name, (event) => say(name, event))
}
const polling = new Set<string>()
manager.on('renewed', ({ sessionId: session, remainingMs }) => {
  if (!polling.has(session)) return
  log.write({ kind: 'renewed', session, untilUs: nowUs() + remainingMs * 1000 })
})

let isToPause = false
process.on('SIGUSR2', () => (isToPause = true))

/** It stops itself, so that a poll is under way and none is just about to begin. */
function pauseIfTold(): void {
  if (!isToPause) return
  isToPause = false
  process.kill(process.pid, 'SIGSTOP')
}

/** The runner gives a session away when its poller has stopped, and tells nobody before it has. */
if (manager instanceof FleetManager) {
  const transfer = manager.transfer.bind(manager)
  manager.transfer = (session, to) => {
    log.write({ kind: 'stopped', atUs: nowUs(), session })
    return transfer(session, to)
  }
}

async function poll(session: string, { fence, signal }: PollContext): Promise<void> {
  const untilUs = nowUs() + manager.leaseInfo(session).remainingMs * 1000
  log.write({ kind: 'begin', atUs: nowUs(), session, fence, untilUs })
  polling.add(session)
  const endMs = performance.now() + options.pollMs
  while (performance.now() < endMs && !signal.aborted) {
    pauseIfTold()
    await sleep(Math.min(STEP_MS, Math.max(0, endMs - performance.now())))
  }
  const isTaken = files === null ? null : files.write(session, fence)
  polling.delete(session)
  log.write({ kind: 'end', atUs: nowUs(), session, fence, isTaken })
}

const fleet = await runFleet(manager, sessionIds(options.sessions), {
  poll,
  intervalMs: options.intervalMs,
})
fleet.on('poll_failed', (event) => say('poll_failed', { ...event, error: String(event.error) }))
fleet.on('failed', ({ error }) => say('failed', String(error)))
process.on('SIGTERM', () => {
  void fleet.stop().then(() => process.exit(0))
})
process.stdout.write(`${manager.instanceId}\n`)
