/** Fleets that run on one memory store, in time that only the test moves. */
import { expect } from 'vitest'
import type { Fleet, FleetOptions, SessionSource } from '../../src/fleet/contract.ts'
import { runFleet } from '../../src/fleet/fleet-runner.ts'
import type { Instance, World } from './harness.ts'

export const SESSIONS = Array.from({ length: 20 }, (_, index) => `session-${index + 1}`)
export const INTERVAL_MS = 100
export const POLL_TIMEOUT_MS = 2_000
export const STOP_TIMEOUT_MS = 100

export interface Running extends Instance {
  readonly fleet: Fleet
  /** Session of every poll that began. */
  readonly polls: string[]
  readonly failures: string[]
}

export async function run(
  world: World,
  sessions: SessionSource = SESSIONS,
  { weight = 1, ...options }: Partial<FleetOptions> & { readonly weight?: number } = {},
): Promise<Running> {
  const instance = world.instance({ weight })
  const polls: string[] = []
  const failures: string[] = []
  const { poll, ...rest } = options
  const fleet = await runFleet(instance.manager, sessions, {
    poll: async (sessionId, context) => {
      polls.push(sessionId)
      await poll?.(sessionId, context)
    },
    ...{ intervalMs: INTERVAL_MS, pollTimeoutMs: POLL_TIMEOUT_MS },
    stopTimeoutMs: STOP_TIMEOUT_MS,
    ...rest,
  })
  fleet.on('poll_failed', ({ error, failures: count }) => {
    failures.push(`${(error as Error).message} (${count})`)
  })
  return { ...instance, fleet, polls, failures }
}

export async function stop(world: World, ...running: readonly Running[]): Promise<void> {
  const stopped = Promise.all(running.map(async ({ fleet }) => fleet.stop()))
  await world.runtime.advance(20 * STOP_TIMEOUT_MS)
  await stopped
  await world.runtime.advance(1)
  expect(world.runtime.pendingTimers).toBe(0)
}

export async function stopOne(world: World, { fleet }: Running): Promise<void> {
  const stopped = fleet.stop()
  await world.runtime.advance(20 * STOP_TIMEOUT_MS)
  await stopped
}

export const counts = (...running: readonly Running[]): readonly number[] =>
  running.map(({ fleet }) => fleet.polling.length)
