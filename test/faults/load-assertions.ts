/** Real processes on a store whose server is in trouble, for a short time or a long one, and what must be true then. */
import { expect } from 'vitest'
import {
  expectChaosHappened,
  expectPromisesKept,
  expectServiceResumed,
  summaryOf,
} from '../processes/chaos-assertions.ts'
import { intervalsOf } from '../processes/chaos-check.ts'
import { runChaos } from '../processes/chaos.ts'
import { Proxy } from '../servers/proxy.ts'
import type { Stage, Trouble } from './load.ts'
import type { ServerStore } from './server-stores.ts'

export interface LoadOptions {
  /** As the figures name it. */
  readonly name: string
  readonly store: ServerStore
  readonly directory: string
  readonly processes: number
  /** How long the trouble lasts; the calm comes on top of it. */
  readonly troubleMs: number
}

/** Processes that are killed, and stopped past their TTL, while the server is well. */
export async function expectChaosSurvived(options: LoadOptions): Promise<void> {
  const { name, store, directory, processes, troubleMs } = options
  await using server = await store.start()
  const report = await runChaos({
    store: server.url,
    directory,
    processes,
    durationMs: troubleMs + 1_500,
    holds: 30,
  })
  process.stdout.write(`${name}, chaos: ${summaryOf(report)}\n`)
  expectPromisesKept(report)
  expectChaosHappened(report, { holds: 30, kills: 1, stops: 1 })
}

/** A server, or the way to it, that fails while all processes are well. */
export async function expectTroubleSurvived(
  { calmMs, make }: Trouble,
  options: LoadOptions,
): Promise<void> {
  const { name, store, directory, processes, troubleMs } = options
  await using server = await store.start()
  await using proxy = await Proxy.start(server.url)
  const stage: Stage = { server, proxy }
  let faults = 0
  const report = await runChaos({
    store: proxy.through(server.url),
    ledger: server.url,
    ...{ directory, processes, calmMs, holds: 21 },
    durationMs: troubleMs + calmMs,
    trouble: async (scene) => {
      faults = await make(stage, scene)
    },
  })
  process.stdout.write(`${name} ${faults} times: ${summaryOf(report)}\n`)
  expectPromisesKept(report)
  expectServiceResumed(report)
  expect(intervalsOf(report.lines).length).toBeGreaterThan(20)
}
