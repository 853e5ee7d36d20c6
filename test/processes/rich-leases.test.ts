/** What rich leases promise between processes that are real, and that are killed at the worst moment. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTenure, type LeaseInfo, type Tenure } from '../../src/index.ts'
import { closeRing, PATIENT, refusedIn } from './rings.ts'
import { startActor, type Actor } from './script.ts'

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
  })

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
    const got = await next.tell('acquire', 'work:W', { options: { waitMs: 50_000 } })
    expect(got.value?.id).not.toBe(value?.id)
    expect(await owners('work:W')).toMatchObject([{ holder: 'next' }])
  })
})

describe('a cycle of processes that wait for each other is broken', () => {
  it.each([2, 4])('%i of them, closed by one', async (length) => {
    const names = Array.from({ length }, (_, index) => `p${index}`)
    await closeRing(await Promise.all(names.map((name) => actor(name))), tenure)
  })

  it('two of them, at the same moment', async () => {
    const ring = [await actor('p0'), await actor('p1')]
    for (const [index, one] of ring.entries()) await one.tell('acquire', `work:${index}`, PATIENT)
    const waits = ring.map((one, index) => one.tell('acquire', `work:${1 - index}`, PATIENT))
    const refused = await refusedIn(waits)
    expect(refused.map(({ error }) => error?.code)).toEqual(['DEADLOCK'])
  })

  it('two sharers who both wish to be alone: one is refused, and the other gets it', async () => {
    const [ann, bob] = [await actor('ann'), await actor('bob')]
    const shared = { options: { ttlMs: 60_000, mode: 'shared' } }
    for (const one of [ann, bob]) {
      await one.tell('acquire', 'work:x', shared)
      await one.tell('acquire', 'work:y', shared)
    }
    const wait = { options: { waitMs: 50_000 } }
    const wishes = [ann.tell('upgrade', 'work:x', wait), bob.tell('upgrade', 'work:y', wait)]
    const refused = await refusedIn(wishes)
    expect(refused.map(({ error }) => error?.code)).toEqual(['DEADLOCK'])
    const isAnn = refused[0]?.holder === 'ann'
    await (isAnn ? ann.tell('release', 'work:y') : bob.tell('release', 'work:x'))
    const other = await (isAnn ? wishes[1] : wishes[0])
    expect(other?.error).toBeUndefined()
  })
})

it('a writer is not starved by readers of other processes that never stop coming', async () => {
  const readers = await Promise.all(['r1', 'r2', 'r3'].map((holder) => actor(holder)))
  let reads = 0
  let stop = false
  const reading = readers.map(async (reader) => {
    while (!stop) {
      await reader.tell('acquire', 'work:doc', { options: { mode: 'shared', waitMs: 50_000 } })
      await sleep(30)
      await reader.tell('release', 'work:doc')
      reads += 1
    }
  })
  while (reads < 10) await sleep(10)
  const writer = await actor('writer')
  const wrote = await writer.tell('acquire', 'work:doc', { options: { waitMs: 50_000 } })
  const before = reads
  expect(await owners('work:doc')).toMatchObject([{ holder: 'writer', mode: 'exclusive' }])
  await writer.tell('release', 'work:doc')
  while (reads < before + 5) await sleep(10)
  stop = true
  await Promise.all(reading)
  expect(wrote.error).toBeUndefined()
  const events = (await tenure.history({ limit: 10_000 })).map(({ event }) => event)
  const asked = events.findIndex(({ type, holder }) => {
    return (type === 'lease.queued' || type === 'lease.issued') && holder === 'writer'
  })
  const granted = events.findIndex(({ type, holder }) => {
    return type === 'lease.issued' && holder === 'writer'
  })
  const between = events.slice(asked, granted).filter(({ type }) => type === 'lease.issued')
  expect(between).toEqual([])
})
