/** What rich leases promise between processes that are real, and that are killed at the worst moment. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTenure, type LeaseInfo, type Tenure } from '../../src/index.ts'
import { startActor, type Actor, type Reply } from './script.ts'

let directory: string
let store: string
let tenure: Tenure
let actors: Actor[]

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-rich-'))
  store = `sqlite:${path.join(directory, 'leases.db')}`
  tenure = await openTenure(store, { holder: 'parent' })
  actors = []
})

afterEach(async () => {
  await Promise.all(actors.map((actor) => actor.kill()))
  await tenure.close()
  fs.rmSync(directory, { recursive: true, force: true })
})

async function actor(holder: string): Promise<Actor> {
  const started = await startActor(store, holder)
  actors.push(started)
  return started
}

async function owners(resource: string): Promise<readonly LeaseInfo[]> {
  return (await tenure.inspect(resource)).leases
}

async function queued(count: number): Promise<void> {
  while ((await tenure.list({ state: 'pending' })).length < count) await sleep(5)
}

describe('a transfer leaves exactly one owner', () => {
  it('whenever the giver is killed around it', async () => {
    const found = new Set<string>()
    let tooLate = 0
    for (let round = 0; round < 8; round += 1) {
      const resource = `work:W-${round}`
      const giver = await actor('giver')
      const held = await giver.tell('acquire', resource, { options: { ttlMs: 60_000 } })
      giver.shout('transfer', resource, { to: 'receiver' })
      // From at once, when the order may not even have been read, to long after it was carried out.
      await sleep(round * 2)
      await giver.kill()
      const [owner, ...others] = await owners(resource)
      expect(others).toEqual([])
      found.add(owner?.holder ?? 'nobody')
      if (owner?.holder === 'receiver') {
        expect(owner.fence).toBeGreaterThan(held.value?.fence ?? Infinity)
        tooLate += 1
      } else expect(owner).toMatchObject({ id: held.value?.id, holder: 'giver' })
    }
    process.stdout.write(`transfer: ${tooLate} of 8 givers were killed too late\n`)
    expect([...found].toSorted()).not.toContain('nobody')
  }, 60_000)

  it('when the receiver is killed before it takes over: its next life does', async () => {
    const giver = await actor('giver')
    const receiver = await actor('receiver')
    await giver.tell('acquire', 'work:W', { options: { ttlMs: 60_000 } })
    await receiver.tell('acquire', 'work:other', { options: { ttlMs: 60_000 } })
    const { value } = await giver.tell('transfer', 'work:W', { to: 'receiver' })
    await receiver.kill()
    expect(await owners('work:W')).toMatchObject([{ id: value?.id, adopted: false }])
    const next = await actor('receiver')
    const taken = await next.tell('adopt', 'work:W', { leaseId: value?.id ?? '' })
    expect(taken.value?.id).toBe(value?.id)
    expect(await owners('work:W')).toMatchObject([{ id: value?.id, adopted: true }])
  })

  it('when nobody takes it over: it runs out, and the next in the queue has it', async () => {
    const giver = await actor('giver')
    await giver.tell('acquire', 'work:W', { options: { ttlMs: 1_500 } })
    const { value } = await giver.tell('transfer', 'work:W', { to: 'nobody there' })
    await giver.kill()
    const next = await actor('next')
    const got = await next.tell('acquire', 'work:W', { options: { waitMs: 10_000 } })
    expect(got.value?.id).not.toBe(value?.id)
    expect(await owners('work:W')).toMatchObject([{ holder: 'next' }])
  })
})

describe('a circle of processes that wait for each other is broken within a second', () => {
  const OPTIONS = { options: { ttlMs: 60_000, waitMs: 30_000 } }

  async function refusedIn(replies: readonly Promise<Reply>[]): Promise<readonly Reply[]> {
    const refused: Reply[] = []
    for (const reply of replies) {
      void reply.then((said) => said.error !== undefined && refused.push(said))
    }
    await Promise.race(replies)
    // Whoever else was refused would have been told by now; the others wait on.
    await sleep(300)
    return refused
  }

  it.each([2, 4, 16])(
    '%i of them, closed by one',
    async (length) => {
      const ring = await Promise.all(Array.from({ length }, (_, index) => actor(`p${index}`)))
      for (const [index, one] of ring.entries()) await one.tell('acquire', `work:${index}`, OPTIONS)
      const waits: Promise<Reply>[] = []
      for (const [index, one] of ring.slice(0, -1).entries()) {
        waits.push(one.tell('acquire', `work:${index + 1}`, OPTIONS))
        await queued(index + 1)
      }
      const last = ring.at(-1)?.tell('acquire', 'work:0', OPTIONS)
      const refused = await refusedIn(last === undefined ? [] : [...waits, last])
      expect(refused.map(({ error }) => error?.code)).toEqual(['DEADLOCK'])
      expect(refused[0]).toBe(await last)
      expect(refused[0]?.error?.details.cycle).toHaveLength(length)
      const spentMs = ((refused[0]?.atUs ?? Infinity) - (refused[0]?.sentUs ?? 0)) / 1000
      process.stdout.write(`deadlock: ${length} processes, broken after ${spentMs.toFixed(0)} ms\n`)
      expect(spentMs).toBeLessThan(1_000)
    },
    60_000,
  )

  it.each([2])(
    '%i of them, all at the same moment',
    async (length) => {
      const ring = await Promise.all(Array.from({ length }, (_, index) => actor(`p${index}`)))
      for (const [index, one] of ring.entries()) await one.tell('acquire', `work:${index}`, OPTIONS)
      const waits = ring.map((one, index) => {
        return one.tell('acquire', `work:${(index + 1) % length}`, OPTIONS)
      })
      const refused = await refusedIn(waits)
      expect(refused.map(({ error }) => error?.code)).toEqual(['DEADLOCK'])
      const spentMs = ((refused[0]?.atUs ?? Infinity) - (refused[0]?.sentUs ?? 0)) / 1000
      expect(spentMs).toBeLessThan(1_000)
    },
    60_000,
  )

  it('two sharers who both wish to be alone: one is refused, and the other gets it', async () => {
    const [ann, bob] = [await actor('ann'), await actor('bob')]
    const shared = { options: { ttlMs: 60_000, mode: 'shared' } }
    for (const one of [ann, bob]) {
      await one.tell('acquire', 'work:x', shared)
      await one.tell('acquire', 'work:y', shared)
    }
    const wait = { options: { waitMs: 30_000 } }
    const wishes = [ann.tell('upgrade', 'work:x', wait), bob.tell('upgrade', 'work:y', wait)]
    const refused = await refusedIn(wishes)
    expect(refused.map(({ error }) => error?.code)).toEqual(['DEADLOCK'])
    const isAnn = refused[0]?.holder === 'ann'
    await (isAnn ? ann.tell('release', 'work:y') : bob.tell('release', 'work:x'))
    const other = await (isAnn ? wishes[1] : wishes[0])
    expect(other?.error).toBeUndefined()
  }, 60_000)
})

it('a writer is not starved by readers of other processes that never stop coming', async () => {
  const readers = await Promise.all(['r1', 'r2', 'r3'].map((holder) => actor(holder)))
  let reads = 0
  let stop = false
  const reading = readers.map(async (reader) => {
    while (!stop) {
      await reader.tell('acquire', 'work:doc', { options: { mode: 'shared', waitMs: 20_000 } })
      await sleep(30)
      await reader.tell('release', 'work:doc')
      reads += 1
    }
  })
  while (reads < 10) await sleep(10)
  const writer = await actor('writer')
  const wrote = await writer.tell('acquire', 'work:doc', { options: { waitMs: 20_000 } })
  const before = reads
  const waitedMs = (wrote.atUs - wrote.sentUs) / 1000
  expect(await owners('work:doc')).toMatchObject([{ holder: 'writer', mode: 'exclusive' }])
  await writer.tell('release', 'work:doc')
  while (reads < before + 5) await sleep(10)
  stop = true
  await Promise.all(reading)
  process.stdout.write(`writer: in after ${waitedMs.toFixed(0)} ms among ${reads} reads\n`)
  expect(wrote.error).toBeUndefined()
  expect(waitedMs).toBeLessThan(2_000)
}, 60_000)
