import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openTenure, type Lease, type Tenure } from '../../src/index.ts'
import { CLAIM_WINDOW_MS_DEFAULT } from '../../src/core/limits.ts'
import { gapsMs, takeTurns, type Turn } from './handover.ts'

const RESOURCE = 'work:baton'
let directory: string
let store: string
let tenure: Tenure

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-handover-'))
  store = `sqlite:${path.join(directory, 'leases.db')}`
  tenure = await openTenure(store, { holder: 'parent' })
})

afterEach(async () => {
  await tenure.close()
  fs.rmSync(directory, { recursive: true, force: true })
})

async function holdUntilQueued(count: number): Promise<Lease> {
  const lease = await tenure.acquire(RESOURCE, { ttlMs: 60_000 })
  void waitForQueue(count).then(() => lease.release())
  return lease
}

async function waitForQueue(count: number): Promise<void> {
  for await (const { event } of tenure.watch({ types: ['lease.queued'] })) {
    const { queue } = await tenure.inspect(event.resource)
    if (queue.length >= count) return
  }
}

it('two processes take turns: whoever asks again stands behind the other', async () => {
  const rounds = 10
  // Both begin together, however long each takes to start.
  await holdUntilQueued(2)
  const takers = ['left', 'right'].map((holder) =>
    takeTurns({ store, resource: RESOURCE, holder, rounds, holdMs: 15 }),
  )
  const turns = (await Promise.all(takers.map((taker) => taker.turns))).flat()
  expect(turns).toHaveLength(2 * rounds)
  expect(gapsMs(turns).length).toBeGreaterThan(rounds)
})

it('100 waiters from 4 processes are served in the order in which they asked', async () => {
  const first = await holdUntilQueued(100)
  const takers = ['a', 'b', 'c', 'd'].map((holder) =>
    takeTurns({ store, resource: RESOURCE, holder, sessions: 25 }),
  )
  const turns = (await Promise.all(takers.map((taker) => taker.turns))).flat()
  expect(turns).toHaveLength(100)
  const served = turns.toSorted((a, b) => a.startUs - b.startUs).map((turn: Turn) => turn.leaseId)
  const asked = await tenure.history({ types: ['lease.queued'], resource: RESOURCE })
  expect(served).toEqual(asked.map(({ event }) => event.leaseId))
  expect(first.state).toBe('released')
})

it('a killed waiter costs the next one at most its claim window', async () => {
  const lease = await tenure.acquire(RESOURCE, { ttlMs: 60_000 })
  const queuedOne = waitForQueue(1)
  const doomed = takeTurns({ store, resource: RESOURCE, holder: 'doomed' })
  await queuedOne
  const queuedTwo = waitForQueue(2)
  const next = takeTurns({ store, resource: RESOURCE, holder: 'next' })
  await queuedTwo
  doomed.process.kill('SIGKILL')
  await doomed.turns
  await lease.release()
  expect(await next.turns).toHaveLength(1)
  const events = (await tenure.history({ resource: RESOURCE })).map(({ event }) => event)
  const released = events.find(({ type }) => type === 'lease.released')
  const issued = events.findLast(({ type }) => type === 'lease.issued')
  const costMs = (issued?.atMs ?? Infinity) - (released?.atMs ?? 0)
  process.stdout.write(`handover: a killed waiter cost ${Math.round(costMs)} ms\n`)
  // It is not the ticket's own end, a minute later, that lets the next one in.
  expect(costMs).toBeLessThan(3 * CLAIM_WINDOW_MS_DEFAULT)
})
