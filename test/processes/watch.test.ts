import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openTenure, type Tenure } from '../../src/index.ts'
import { takeTurns } from './handover.ts'
import { startWatching, type Heard } from './watching.ts'

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

it('a watcher in another process hears of everything that is committed, in order', async () => {
  const watching = await startWatching(store)
  const committed: string[] = []
  for (let index = 0; index < 20; index += 1) {
    committed.push((await tenure.acquire(`work:${index}`, { ttlMs: 60_000 })).id)
    // Each is a call of its own, and none is found by the way.
    await watching.hears(index + 1)
  }
  await watching.kill()
  expect(watching.heard.map(({ leaseId }) => leaseId)).toEqual(committed)
})

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
    const watching = await startWatching(store, position)
    await (restarts < 3 ? watching.hears(100) : Promise.race([watching.hears(100), done]))
    await watching.kill()
    heard.push(...watching.heard.slice(0, 100))
    position = heard.at(-1)?.position ?? position
  }
  await done
  const ledger = await tenure.history({ limit: 10_000 })
  const last = await startWatching(store, position)
  await last.hears(ledger.length - heard.length)
  await last.kill()
  heard.push(...last.heard)
  process.stdout.write(`watch: ${heard.length} events over ${restarts} kills\n`)
  expect(heard.map((one) => one.position)).toEqual(ledger.map((one) => one.position))
})

it('a watch leaves nothing beside the database', async () => {
  const followed = (): boolean => {
    const place = path.join(directory, 'leases.db-wake')
    return fs.existsSync(place) && fs.readdirSync(place).some((name) => /^h-/.test(name))
  }
  const end = new AbortController()
  const watched = (async () => {
    for await (const { event } of tenure.watch({ signal: end.signal })) {
      if (event.type === 'lease.released') end.abort()
    }
  })()
  const lease = await tenure.acquire('work:A')
  expect(followed()).toBe(true)
  await lease.release()
  await watched
  expect(followed()).toBe(false)
})
