/** Plays random histories and holds every refusal, and every wait that goes on, against an oracle. */
import { expect } from 'vitest'
import { randomFrom } from '../../src/testing/fake-runtime.ts'
import { stuckSessions } from './deadlock-oracle.ts'
import { RandomHistory } from './random-history.ts'

const STEPS = 9

/** The histories of these seeds; gives how often a session was refused. */
export async function compareHistories(firstSeed: number, lastSeed: number): Promise<number> {
  let refused = 0
  for (let seed = firstSeed; seed <= lastSeed; seed += 1) {
    const history = new RandomHistory(randomFrom(seed))
    for (let step = 0; step < STEPS; step += 1) {
      const { name: did, closing, victims } = await history.step()
      const where = `seed ${seed}, step ${step}: ${did}`
      if (victims > 0) {
        refused += 1
        expect(stuckSessions(closing), `${where}: false alarm`).not.toEqual([])
      }
      expect(stuckSessions(await history.entries()), `${where}: not found`).toEqual([])
    }
  }
  return refused
}
