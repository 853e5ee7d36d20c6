/**
 * A fleet in a storm: instances join, leave and are killed at random while everything is polled, and the server loses its
 * data, by FLUSHALL and by a restart without them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { TestServer } from '../servers/test-server.ts'
import { nowUs } from './chaos-log.ts'
import { doublePolls, handoverGapsMs, longestRests, median } from './fleet-check.ts'
import { untilSo, type FleetStage, type FleetWorker } from './fleet-stage.ts'

export interface StormOptions {
  readonly stage: FleetStage
  /** Makes the server lose its data, one way or another; none for a storm without that. */
  readonly losses?: readonly (() => Promise<unknown>)[]
  /** How many instances there are at most. */
  readonly instances: number
  readonly durationMs: number
  /** Between two things that happen. */
  readonly everyMs: number
}

export interface StormReport {
  readonly joins: number
  readonly leaves: number
  readonly kills: number
  readonly losses: number
  readonly polls: number
  readonly doublePolls: readonly string[]
  readonly handovers: number
  readonly medianGapMs: number
  /** Of any session, from the first poll to the end. */
  readonly longestRestMs: number
  /** Sessions that were polled after the storm. */
  readonly polledAtEnd: number
}

export async function runStorm(options: StormOptions): Promise<StormReport> {
  const { stage, instances, durationMs, everyMs, losses = [] } = options
  const alive = new Set<FleetWorker>()
  const counts = { joins: 0, leaves: 0, kills: 0 }
  let lost = 0
  const underWay: Promise<void>[] = []
  // Whoever is hit while it starts neither starts nor leaves in order, and that is no failure.
  const note = (act: Promise<void>): void => void underWay.push(act.catch(() => undefined))
  const join = async (): Promise<void> => {
    const worker = stage.launch()
    alive.add(worker)
    await worker.started
  }
  // A few at a time: a process that starts takes a whole processor for half a second.
  while (alive.size < instances) await Promise.all([join(), join(), join(), join()])
  const untilMs = performance.now() + durationMs
  for (let event = 1; ; event += 1) {
    const isOver = performance.now() >= untilMs && lost >= losses.length
    if (isOver && !Object.values(counts).includes(0)) break
    await sleep(everyMs * (0.5 + Math.random()))
    const lose = losses[lost % losses.length]
    if (lose !== undefined && event % EVENTS_PER_LOSS === 0) {
      lost += 1
      await lose()
      // Instances that join right after it have nothing to know it by but the others.
      continue
    }
    const victim = [...alive][Math.floor(Math.random() * alive.size)]
    const isFew = alive.size < instances / 2
    const isFull = alive.size >= instances
    // Whoever is hit and when is up to chance; that everything happens is not.
    if (isFew || (!isFull && Math.random() < 0.5) || victim === undefined) {
      counts.joins += 1
      note(join())
      continue
    }
    alive.delete(victim)
    const isKill = counts.kills <= counts.leaves
    counts[isKill ? 'kills' : 'leaves'] += 1
    note(isKill ? victim.kill() : victim.stop())
  }
  // The last to join must have started before it can be told to stop.
  await Promise.all(underWay)
  // The test's own timeout ends the calm in which everything must be polled again.
  const calmUs = nowUs()
  await untilSo(async () => {
    await sleep(everyMs)
    return sessionsPolledSince(stage, calmUs).size === stage.sessions
  })
  return { ...counts, losses: lost, ...(await reportOf(stage, calmUs)) }
}

function sessionsPolledSince(stage: FleetStage, sinceUs: number): ReadonlySet<string> {
  const polled = [...stage.pollersSince(sinceUs).values()]
  return new Set(polled.flatMap((sessions) => [...sessions]))
}

/** FLUSHALL, and a restart of a server that keeps nothing on disk. */
export function lossesOf(server: TestServer): readonly (() => Promise<unknown>)[] {
  const flush = async (): Promise<void> => {
    const redis = new Redis(server.url)
    await redis.flushall()
    redis.disconnect()
  }
  const restart = async (): Promise<void> => {
    await server.kill()
    await server.restart()
  }
  return [flush, restart]
}

/** Of everything that happens, one in so many is a loss. */
const EVENTS_PER_LOSS = 4

async function reportOf(
  stage: FleetStage,
  calmUs: number,
): Promise<Omit<StormReport, 'joins' | 'leaves' | 'kills' | 'losses'>> {
  const endUs = nowUs()
  const polled = sessionsPolledSince(stage, calmUs)
  await stage.stopAll()
  const { polls, logs } = stage
  const gaps = handoverGapsMs(logs)
  return {
    polls: polls.length,
    doublePolls: doublePolls(polls),
    handovers: gaps.length,
    medianGapMs: median(gaps),
    longestRestMs: Math.max(...longestRests(polls, endUs).values()),
    polledAtEnd: polled.size,
  }
}
