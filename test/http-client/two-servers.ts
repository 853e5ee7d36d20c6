/** Real processes before two servers of one store, one of which is killed again and again. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import {
  expectPromisesKept,
  expectServiceResumed,
  summaryOf,
} from '../processes/chaos-assertions.ts'
import { runChaos, type ChaosReport } from '../processes/chaos.ts'
import type { Place } from '../servers/shared-servers.ts'
import { startTenureServer } from '../servers/tenure-server.ts'

export interface TwoServersOptions {
  readonly name: string
  readonly place: Place
  readonly directory: string
  readonly processes: number
  readonly troubleMs: number
}

export async function expectKillSurvived(options: TwoServersOptions): Promise<ChaosReport> {
  const { name, place, directory, processes, troubleMs } = options
  await using one = await startTenureServer(place.url)
  await using other = await startTenureServer(place.url)
  let kills = 0
  const report = await runChaos({
    store: `http://127.0.0.1:${one.port},127.0.0.1:${other.port}`,
    ledger: place.url,
    ...{ directory, processes, holds: 30, calmMs: 2_500 },
    durationMs: troubleMs + 2_500,
    trouble: async (scene) => {
      // Each in turn, so that everybody has lost the server that it used.
      for (; kills < 2 || scene.leftMs > 2_000; kills += 1) {
        await sleep(300)
        const server = kills % 2 === 0 ? one : other
        await server.kill()
        await sleep(300)
        await server.restart()
      }
    },
  })
  process.stdout.write(`${name}, ${kills} servers killed: ${summaryOf(report)}\n`)
  expectPromisesKept(report)
  expectServiceResumed(report)
  expect(kills).toBeGreaterThan(1)
  return report
}
