/** Workers of one process who all want one resource, again and again, until the time is over. */
import { setImmediate as giveWay } from 'node:timers/promises'
import type { OpenSystem } from '../system.ts'
import { allDone } from './all-done.ts'
import type { Turn, Turns, Waiting } from './turns.ts'

export interface ContendOptions {
  readonly resource: string
  readonly workers: number
  /** How workers of this process are called, so that those of another have other names. */
  readonly prefix: string
  readonly holdMs: number
  readonly untilUs: number
}

const TTL_MS = 60_000

export function nowUs(): number {
  return Number(process.hrtime.bigint() / 1_000n)
}

export function workerNames(prefix: string, workers: number): readonly string[] {
  return Array.from({ length: workers }, (_, worker) => `${prefix}${worker}`)
}

/**
 * Between two turns a worker lets others of its process run: a lock that answers at once would else never leave it.
 *
 * Throws nothing away: who counts from a later moment does so when it judges.
 */
export async function contend(system: OpenSystem, options: ContendOptions): Promise<Turns> {
  const names = workerNames(options.prefix, options.workers)
  const done = await allDone(names.map((name) => work(system, name, options)))
  return {
    turns: done.flatMap(({ turns }) => turns),
    waiting: done.flatMap(({ waiting }) => waiting),
  }
}

async function work(
  system: OpenSystem,
  name: string,
  { resource, holdMs, untilUs }: ContendOptions,
): Promise<Turns> {
  const turns: Turn[] = []
  const waiting: Waiting[] = []
  for (;;) {
    const askedUs = nowUs()
    if (askedUs >= untilUs) return { turns, waiting }
    const held = await system.acquire(resource, TTL_MS)
    const startUs = nowUs()
    if (startUs >= untilUs) {
      // Too late to count as a turn: it was a wait that the end of the measurement cut short.
      waiting.push({ worker: name, waitedUs: untilUs - askedUs })
      await system.release(held)
      return { turns, waiting }
    }
    if (holdMs > 0) await holdFor(holdMs)
    turns.push({ worker: name, askedUs, startUs, endUs: nowUs() })
    await system.release(held)
    await giveWay()
  }
}

/**
 * Holds to the microsecond, and lets the loop do whatever else there is meanwhile. A timer of Node knows whole
 * milliseconds only: with half a millisecond of work in the loop, 1 ms lasts 0.4 or 1.6 ms by chance, and the median of
 * such holds, of which the ideal is made, says nothing of how long all of them take. No promise for each turn of the
 * loop, nor a BigInt: the system under test would be kept waiting while they are collected.
 */
export function holdFor(holdMs: number): Promise<void> {
  const endMs = performance.now() + holdMs
  return new Promise((resolve) => {
    const look = (): void => {
      if (performance.now() < endMs) setImmediate(look)
      else resolve()
    }
    setImmediate(look)
  })
}
