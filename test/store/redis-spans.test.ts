/** What is asked for by name is found wherever it lies: in spans that the sweep has noted, behind them, and after pruning. */
import { expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { LedgerEntry, HistoryQuery } from '../../src/store-port/store.ts'
import { direct, server, ShiftedClock, Subject } from './redis-subject.ts'

const DAY_MS = 86_400_000
const SPANS = 'tenure:{default}:spans'
const RARE = parseResource('work:rare')
const BUSY = parseResource('work:7')
/** No two of them want the same. */
const TOGETHER = 41

type Api = Subject['api']

/** Each ends at once; of 500 pairs one is rare. */
async function play(api: Api, first: number, pairs: number): Promise<void> {
  for (let number = first; number < first + pairs; number += TOGETHER) {
    const count = Math.min(TOGETHER, first + pairs - number)
    const together = Array.from({ length: count }, (_, index) => number + index)
    await Promise.all(together.map((one) => playOne(api, one)))
  }
}

async function playOne(api: Api, number: number): Promise<void> {
  const resource = number % 500 === 99 ? RARE : parseResource(`work:${number % TOGETHER}`)
  const holder = `holder-${number % 29}`
  const id = systemRuntime.uuid()
  await api.acquire({ id, resource, holder, session: holder, ttlMs: 60_000, waitMs: 0 })
  await api.release({ id, holder, requestId: systemRuntime.uuid() })
}

async function pagesOf(api: Api, query: HistoryQuery): Promise<readonly LedgerEntry[]> {
  const all: LedgerEntry[] = []
  for (let after: string | undefined; ;) {
    const page = await api.history({ ...query, ...(after === undefined ? {} : { after }) })
    all.push(...page)
    after = page.at(-1)?.position
    if (page.length < query.limit) return all
  }
}

function eventsOf(entries: readonly LedgerEntry[]): readonly LedgerEntry['event'][] {
  return entries.map(({ event }) => event)
}

/** By name as among all, in both orders, however small the pages. */
async function expectFound(api: Api): Promise<void> {
  const all = await pagesOf(api, { limit: 1_000 })
  const names = [{ resource: RARE }, { resource: BUSY }, { holder: 'holder-3' }]
  for (const name of [...names, { resource: RARE, holder: 'holder-3' }]) {
    const { resource, holder } = name as { readonly resource?: string; readonly holder?: string }
    const expected = eventsOf(all).filter((event) => {
      const isThere = resource === undefined || event.resource === resource
      return isThere && (holder === undefined || event.holder === holder)
    })
    for (const limit of [3, 200]) {
      expect(eventsOf(await pagesOf(api, { ...name, limit }))).toEqual(expected)
      const newestFirst = await pagesOf(api, { ...name, limit, newestFirst: true })
      expect(eventsOf(newestFirst)).toEqual(expected.toReversed())
    }
  }
}

it.each([1, 3])('what is asked for by name is found, in %d buckets', async (buckets) => {
  const { url } = await server()
  const { api } = await Subject.open({ url, buckets })
  await play(api, 0, 700)
  await expectFound(api)
  await api.cleanup()
  await expectFound(api)
  await play(api, 700, 300)
  await expectFound(api)
  await api.cleanup()
  await expectFound(api)
  expect((await pagesOf(api, { resource: RARE, limit: 100 })).length).toBe(4)
  const listed = await api.list({ state: 'released', resource: RARE, limit: 100 })
  expect(listed.leases.map(({ resource }) => resource)).toEqual([RARE, RARE])
})

it('the sweep notes what has come since the last one, and forgets what was pruned', async () => {
  const { url } = await server()
  const clock = new ShiftedClock()
  const { api } = await Subject.open({ url, nowUs: clock.nowUs })
  const admin = direct(url)
  await play(api, 0, 300)
  await api.cleanup()
  const [before] = await admin.xrange(SPANS, '-', '+')
  expect(await admin.xlen(SPANS)).toBeGreaterThanOrEqual(2)
  await play(api, 300, 300)
  await Promise.all([api.cleanup(), api.cleanup()])
  expect(await admin.xlen(SPANS)).toBeGreaterThanOrEqual(4)
  const spans = await admin.xrange(SPANS, '-', '+')
  expect(spans[0]).toEqual(before)
  // What lies in two of them would be told twice.
  const firstRows = spans.slice(1).map(([, fields]) => fields[1] ?? '')
  expect(firstRows.filter((first, at) => first <= (spans[at]?.[0] ?? ''))).toEqual([])
  // No clock is believed to have gone on by a month at once.
  for (let day = 0; day < 32; day += 1) {
    clock.shiftMs += DAY_MS
    await api.cleanup()
  }
  await play(api, 600, 100)
  await expectFound(api)
  expect(await admin.xlen(SPANS)).toBe(0)
})

it('what has happened since a time is looked for from there on, in both orders', async () => {
  const { url } = await server()
  const { api } = await Subject.open({ url })
  // More than one page of the ledger.
  await play(api, 0, 1_100)
  const client = direct(url)
  const calls = async (): Promise<number> => {
    const stats = await client.info('commandstats')
    const counts = [...stats.matchAll(/^cmdstat_x(?:rev)?range:calls=(\d+)/gm)]
    return counts.reduce((sum, [, count]) => sum + Number(count), 0)
  }
  const [last] = await api.history({ newestFirst: true, limit: 1 })
  const fromMs = (last?.event.atMs ?? Infinity) + 1
  for (const newestFirst of [false, true]) {
    const before = await calls()
    expect(await api.history({ fromMs, newestFirst, limit: 10 })).toEqual([])
    expect((await calls()) - before).toBe(1)
  }
  const all = await pagesOf(api, { limit: 1_000 })
  const since = all[Math.floor(all.length / 2)]?.event.atMs ?? Infinity
  const expected = eventsOf(all).filter(({ atMs }) => atMs >= since)
  const query = { fromMs: since, limit: 200 }
  expect(eventsOf(await pagesOf(api, query))).toEqual(expected)
  const newestFirst = await pagesOf(api, { ...query, newestFirst: true })
  expect(eventsOf(newestFirst).toReversed()).toEqual(expected)
})
