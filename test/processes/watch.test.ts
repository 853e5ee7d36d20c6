import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openTenure, type Tenure } from '../../src/index.ts'
import { nowUs } from './chaos-log.ts'
import { quantile, takeTurns } from './handover.ts'

const WORKER = path.resolve(import.meta.dirname, '../../dist-dev/test/processes/watch-worker.js')

interface Heard {
  readonly position: string
  readonly type: string
  readonly leaseId: string
  readonly atUs: number
}

interface Watching {
  readonly process: ChildProcess
  readonly heard: Heard[]
  /** Resolves as soon as so many events were heard. */
  hears(count: number): Promise<void>
  kill(): Promise<void>
}

let directory: string
let store: string
let tenure: Tenure

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-watch-'))
  store = `sqlite:${path.join(directory, 'leases.db')}`
  tenure = await openTenure(store, { holder: 'parent' })
})

afterEach(async () => {
  await tenure.close()
  fs.rmSync(directory, { recursive: true, force: true })
})

async function startWatching(after = ''): Promise<Watching> {
  const child = spawn(process.execPath, [WORKER, store, after], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const heard: Heard[] = []
  let rest = ''
  let ready = false
  child.stdout.on('data', (chunk: Buffer) => {
    const lines = `${rest}${chunk.toString()}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const said = JSON.parse(line) as { readonly kind: string } & Heard
      if (said.kind === 'watching') ready = true
      else heard.push(said)
    }
  })
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await once(child.stdout, 'data')
  }
  await until(() => ready)
  return {
    ...{ process: child, heard },
    hears: async (count) => until(() => heard.length >= count),
    kill: async () => {
      child.kill('SIGKILL')
      await once(child, 'close')
    },
  }
}

it('a watcher in another process is called when something is committed', async () => {
  const watching = await startWatching()
  const committedUs = new Map<string, number>()
  for (let index = 0; index < 60; index += 1) {
    const lease = await tenure.acquire(`work:${index}`, { ttlMs: 60_000 })
    committedUs.set(lease.id, nowUs())
    // Apart, so that each is a call of its own and none is found by the way.
    await sleep(15)
  }
  await watching.hears(60)
  await watching.kill()
  const delays = watching.heard.map(({ leaseId, atUs }) => {
    return (atUs - (committedUs.get(leaseId) ?? Number.NaN)) / 1000
  })
  const [median, most] = [quantile(delays, 0.5), quantile(delays, 0.9)]
  process.stdout.write(
    `watch: ${delays.length} events of another process, median ${median.toFixed(1)} ms, p90 ${most.toFixed(1)} ms\n`,
  )
  // The poll looks every 500 ms: half of that would be the median without calls.
  expect(median).toBeLessThan(20)
}, 60_000)

it('nothing is lost or repeated when watchers are killed and go on from where they were', async () => {
  const takers = ['left', 'right'].map((holder) =>
    takeTurns({ store, resource: `work:${holder}`, holder, sessions: 4, rounds: 40, holdMs: 1 }),
  )
  const heard: Heard[] = []
  let position = '0'
  let working = true
  const done = Promise.all(takers.map((taker) => taker.turns)).finally(() => (working = false))
  let restarts = 0
  // Each gets no further than a hundred events: however late it starts, there are some left for the next.
  for (; working || restarts < 3; restarts += 1) {
    const watching = await startWatching(position)
    await (restarts < 3 ? watching.hears(100) : Promise.race([watching.hears(100), done]))
    await watching.kill()
    heard.push(...watching.heard.slice(0, 100))
    position = heard.at(-1)?.position ?? position
  }
  await done
  const ledger = await tenure.history({ limit: 10_000 })
  const last = await startWatching(position)
  await last.hears(ledger.length - heard.length)
  await last.kill()
  heard.push(...last.heard)
  process.stdout.write(`watch: ${heard.length} events over ${restarts} kills\n`)
  expect(heard.map((one) => one.position)).toEqual(ledger.map((one) => one.position))
}, 60_000)

it('a watch leaves nothing beside the database', async () => {
  const end = new AbortController()
  const watched = (async () => {
    for await (const { event } of tenure.watch({ signal: end.signal })) {
      if (event.type === 'lease.released') end.abort()
    }
  })()
  const lease = await tenure.acquire('work:A')
  expect(fs.readdirSync(directory)).toContain('leases.db-watch')
  await lease.release()
  await watched
  expect(fs.readdirSync(directory)).not.toContain('leases.db-watch')
})
