/**
 * Before a system is scored in works where nobody meets anybody, it must show that it excludes at all: else the fastest
 * would be the one that does nothing.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { OpenSystem, Place, SystemUnderTest } from '../system.ts'
import { closeSystem } from './close-system.ts'
import { allDone } from './all-done.ts'
import { nowUs } from './contend.ts'
import { overlapOf, type Turn } from './turns.ts'
import { within } from './within.ts'

const WORKERS = 6
const TURNS_EACH = 3
const HOLD_MS = 1
const TTL_MS = 60_000

/**
 * Throws with what it saw. It is opened once more beside itself: what excludes only those who share an object of a
 * process is no lock of the store.
 */
export async function proveExclusion(
  { system, place }: { readonly system: SystemUnderTest; readonly place: Place },
  open: OpenSystem,
): Promise<void> {
  const other = await within(system.open(place, WORKERS))
  try {
    await within(takeTurns([open, other]))
  } finally {
    await closeSystem(other)
  }
}

async function takeTurns(opened: readonly OpenSystem[]): Promise<void> {
  const turns: Turn[] = []
  const work = async (worker: number): Promise<void> => {
    const system = opened[worker % opened.length]
    if (system === undefined) throw new Error('nothing was opened')
    for (let turn = 0; turn < TURNS_EACH; turn += 1) {
      const askedUs = nowUs()
      const held = await system.acquire('exclusion', TTL_MS)
      const startUs = nowUs()
      await sleep(HOLD_MS)
      turns.push({ worker: String(worker), askedUs, startUs, endUs: nowUs() })
      await system.release(held)
    }
  }
  await allDone(Array.from({ length: WORKERS }, (_, worker) => work(worker)))
  const overlap = overlapOf(turns)
  if (overlap !== null) throw new Error(overlap)
}
