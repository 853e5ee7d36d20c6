/**
 * A benchmark can be won by doing nothing. These show that it cannot be won here: each system that is measured really
 * excludes, and one that does not, or throws, is told of and not scored.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { proveExclusion } from '../../bench/measure/exclusion.ts'
import { within } from '../../bench/measure/within.ts'
import { FULL, QUICK } from '../../bench/plan.ts'
import type { Places } from '../../bench/places.ts'
import { messageOf, rowOf } from '../../bench/result.ts'
import type { Place, StoreName, SystemUnderTest } from '../../bench/system.ts'
import { ALL_SYSTEMS } from '../../bench/systems/all-systems.ts'
import { measureAct } from '../../bench/works/contended.ts'
import { inTurns } from '../../bench/works/entrants.ts'
import { measureUncontended } from '../../bench/works/uncontended.ts'
import { onFault } from '../../src/runtime/diagnostics.ts'
import { freshDatabase, freshRedis } from '../servers/shared-servers.ts'
import {
  apartSystem,
  breakingSystem,
  lineSystem,
  tiringSystem,
  yesSystem,
} from './broken-systems.ts'

let folder: string
const removals: (() => Promise<void>)[] = []

beforeAll(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-honesty-'))
})

afterAll(async () => {
  for (const remove of removals) await remove()
  fs.rmSync(folder, { recursive: true, force: true })
})

async function freshPlace(store: StoreName): Promise<Place> {
  if (store === 'sqlite') return { at: fs.mkdtempSync(path.join(folder, 'place-')) }
  const { url, remove } = store === 'redis' ? await freshRedis() : await freshDatabase()
  removals.push(remove)
  return { at: url }
}

const places: Pick<Places, 'fresh' | 'remove' | 'counts' | 'processes'> = {
  fresh: freshPlace,
  remove: async () => {},
  counts: async () => null,
  processes: () => [],
}

const SCENE = { work: 'handover', holdMs: 1, leadInMs: 10, roundMs: 100, rounds: 2 }
const ACT = { company: { processes: 1, workers: 5 }, scenes: [SCENE] }

function uncontended(systems: readonly SystemUnderTest[]) {
  const plan = { ...QUICK, works: [], stores: ['sqlite'] as const }
  const stage = { places: places as Places, systems, say: () => {} }
  return measureUncontended(stage, plan)
}

describe('what is measured', () => {
  it.each(ALL_SYSTEMS.map((system) => [system.store, system.name, system] as const))(
    'on %s: %s excludes',
    async (store, _, system) => {
      const place = await freshPlace(store)
      const open = await system.open(place, 6)
      await proveExclusion({ system, place }, open)
      await open.close()
    },
  )

  it('has one reference for each store, and says with which settings it runs', () => {
    const references = ALL_SYSTEMS.filter(({ role }) => role === 'reference')
    expect(references.map(({ store }) => store)).toEqual(['sqlite', 'redis', 'postgres'])
    expect(ALL_SYSTEMS.filter(({ settings }) => settings.length < 10)).toEqual([])
  })
})

describe('a system that does not exclude', () => {
  it('is caught before it is measured where nobody meets anybody', async () => {
    const results = await uncontended([lineSystem, yesSystem])
    const rows = results.map((result) => rowOf(result, results))
    const wrong = rows.filter(({ system }) => system === 'yes')
    expect(wrong.length).toBeGreaterThan(0)
    expect(
      wrong.filter(({ opsPerSecond, ratio }) => opsPerSecond !== null || ratio !== null),
    ).toEqual([])
    expect(wrong[0]?.error).toMatch(
      /^does not exclude: worker \d and worker \d both had it for \d+ µs$/,
    )
    const right = rows.filter(({ system }) => system === 'line')
    expect(right.filter(({ opsPerSecond }) => opsPerSecond === null)).toEqual([])
  })

  it('is caught when it excludes those only who share an object of a process', async () => {
    const results = await uncontended([apartSystem])
    expect(results[0]?.error).toMatch(/^does not exclude/)
  })

  it('is caught although it did when it was asked first', async () => {
    const results = await uncontended([tiringSystem(40)])
    expect(results.map(({ rounds }) => rounds)).toEqual(results.map(() => []))
    expect(results[0]?.error).toMatch(/^afterwards: does not exclude/)
  })

  it('is not scored without a hold either, where its turns are too short to overlap', async () => {
    const scenes = [SCENE, { ...SCENE, work: 'holdless', holdMs: 0 }]
    const results = await measureAct(places, [lineSystem, yesSystem], { ...ACT, scenes })
    const scored = results.filter(({ rounds }) => rounds.length > 0)
    expect(scored.map(({ system, work }) => [system, work])).toEqual([
      ['line', 'handover'],
      ['line', 'holdless'],
    ])
    expect(results).toHaveLength(4)
  })

  it('is caught where everybody wants the same', async () => {
    // So long that a process which is held up for a moment still gives everybody a turn.
    const scenes = [{ ...SCENE, roundMs: 1_500 }]
    const results = await measureAct(places, [lineSystem, yesSystem], { ...ACT, scenes })
    const [line, yes] = ['line', 'yes'].map((name) => results.find(({ system }) => system === name))
    expect(yes?.error).toMatch(/^does not exclude/)
    expect(yes?.rounds).toEqual([])
    expect(line?.error).toBeNull()
    expect(line?.contention?.rounds[0]?.starved).toBe(0)
  })
})

describe('a system that throws', () => {
  it('is told of and not scored, however well it did until then', async () => {
    const results = await measureAct(places, [breakingSystem(6), lineSystem], ACT)
    const broken = results.find(({ system }) => system === 'breaking')
    expect(broken).toMatchObject({ error: 'out of order', rounds: [] })
    expect(results.find(({ system }) => system === 'line')?.rounds).toHaveLength(2)
  })

  it('and one that cannot be opened keeps nobody else from being measured', async () => {
    const open = async (): Promise<never> => Promise.reject(new Error('no server'))
    const closed: SystemUnderTest = { ...lineSystem, name: 'closed', open }
    const results = await uncontended([closed, lineSystem])
    const told = results.filter(({ system }) => system === 'closed').map(({ error }) => error)
    expect(new Set(told)).toEqual(new Set(['no server']))
    expect(results.some(({ system, rounds }) => system === 'line' && rounds.length > 0)).toBe(true)
  })
})

it('a system that cannot be closed is reported, wherever that happens', async () => {
  const sources: string[] = []
  onTestFinished(onFault(({ source, error }) => sources.push(`${source}: ${messageOf(error)}`)))
  const open: SystemUnderTest['open'] = async (place, workers) => ({
    ...(await lineSystem.open(place, workers)),
    close: async () => Promise.reject(new Error('stays open')),
  })
  await measureAct(places, [{ ...lineSystem, open }], ACT)
  expect(sources).toEqual(['bench/close: stays open'])
  // Before and after it is measured each system is opened once more, to see whether it excludes.
  await uncontended([{ ...lineSystem, open }])
  expect(sources).toEqual(Array(4).fill('bench/close: stays open'))
})

it('everybody has a turn in each round, and over the rounds different neighbours', async () => {
  const order: string[] = []
  const names = ['a', 'b', 'c', 'd', 'e']
  const entrants = names.map((name) => {
    return { system: { ...lineSystem, name }, place: { at: '' }, open: undefined as never }
  })
  await inTurns(entrants, 9, async ({ system }) => order.push(system.name))
  const rounds = Array.from({ length: 9 }, (_, round) => order.slice(5 * round, 5 * round + 5))
  expect(rounds.map((round) => round.toSorted())).toEqual(rounds.map(() => names))
  for (const name of names) {
    const before = order.flatMap((one, index) => (one === name ? [order[index - 1]] : []))
    expect(new Set(before).size).toBeGreaterThanOrEqual(4)
  }
})

it('whoever does not answer is given up', async () => {
  await expect(within(new Promise(() => {}), 20)).rejects.toThrow('no answer within 0.02 s')
  await expect(within(Promise.resolve(1), 20)).resolves.toBe(1)
})

it('whoever polls is tried with other pauses, and its own is among them', async () => {
  const polling = ALL_SYSTEMS.filter((system) => system.polling !== undefined)
  expect(polling).toHaveLength(10)
  for (const { name, settings, polling: own } of polling) {
    expect([name, FULL.pauses.triedMs]).toEqual([name, expect.arrayContaining([own?.pauseMs])])
    expect(own?.pausing(777).settings).toContain('777')
    expect(settings).toContain(String(own?.pauseMs))
  }
})

it('no two renewals of a lease ask for the same expiry', async () => {
  const asked: number[] = []
  const open: SystemUnderTest['open'] = async (place, workers) => ({
    ...(await lineSystem.open(place, workers)),
    renew: async (_, ttlMs) => void asked.push(ttlMs),
  })
  await uncontended([{ ...lineSystem, open }])
  expect(asked.length).toBeGreaterThan(100)
  expect(new Set(asked).size).toBe(asked.length)
})
