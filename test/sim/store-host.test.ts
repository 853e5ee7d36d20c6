/** What the simulated host of a store knows of decisions that are made before they come to it. */
import { expect, it } from 'vitest'
import { sameStore, StoreHost } from '../../sim/store-host.ts'
import { World } from '../../sim/world.ts'
import { commitOf } from '../../src/core/commit.ts'
import { decide, readSetOf } from '../../src/core/decide.ts'
import type { Now } from '../../src/core/time.ts'
import { acquire, nowAt, view } from '../core/builders.ts'

it.each([
  ['the first time, if it was given up and arrives after all', true, 140],
  ['the last time', false, 20],
])('a decision that is made again may be committed as late as %s', async (_, isEcho, slackUs) => {
  const host = new StoreHost(new World(), 'memory')
  const { domain } = host.ticks
  const allowing = (toleranceUs: number): Now => {
    return { ...nowAt(0), tick: { domain: domain ?? '', us: host.ticks.tickUs() }, toleranceUs }
  }
  const store = host.overhear(
    sameStore(host.store, (readSets, decideThere) => {
      decideThere([view()], allowing(140))
      const ruling = decideThere([view()], allowing(20))
      return host.transact(readSets, () => ruling, isEcho)
    }),
  )
  await store.transact([readSetOf(acquire())], ([seen = view()], now) => {
    return {
      outcome: {},
      commit: commitOf(seen, decide(seen, acquire(), now)),
      validUntilUs: null,
    }
  })
  expect((await host.ledger()).map((timed) => timed.slackUs)).toEqual([slackUs])
})
