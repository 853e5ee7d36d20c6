/** Processes that wait for each other in a cycle, and what becomes of it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import type { Tenure } from '../../src/index.ts'
import type { Actor, Reply } from './script.ts'

/** Nobody who waits like this hears of a timeout before the test does. */
export const PATIENT = { options: { ttlMs: 60_000, waitMs: 50_000 } }

/** Resolves when one was refused and no other was meanwhile. */
export async function refusedIn(replies: readonly Promise<Reply>[]): Promise<readonly Reply[]> {
  const refused: Reply[] = []
  for (const reply of replies) {
    void reply.then((said) => said.error !== undefined && refused.push(said))
  }
  await Promise.race(replies)
  // Whoever else was refused would have been told by now; the others wait on.
  await sleep(300)
  return refused
}

/** Each holds one resource and waits for the next one's; gives how long the one that closed it waited, in ms. */
export async function closeRing(ring: readonly Actor[], onlooker: Tenure): Promise<number> {
  for (const [index, one] of ring.entries()) await one.tell('acquire', `work:${index}`, PATIENT)
  const waits: Promise<Reply>[] = []
  for (const [index, one] of ring.slice(0, -1).entries()) {
    waits.push(one.tell('acquire', `work:${index + 1}`, PATIENT))
    while ((await onlooker.list({ state: 'pending' })).length <= index) await sleep(5)
  }
  const last = ring.at(-1)?.tell('acquire', 'work:0', PATIENT)
  const refused = await refusedIn(last === undefined ? [] : [...waits, last])
  expect(refused.map(({ error }) => error?.code)).toEqual(['DEADLOCK'])
  expect(refused[0]).toBe(await last)
  expect(refused[0]?.error?.details.cycle).toHaveLength(ring.length)
  return ((refused[0]?.atUs ?? Infinity) - (refused[0]?.sentUs ?? 0)) / 1000
}
