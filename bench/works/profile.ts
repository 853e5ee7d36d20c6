/**
 * Work 6: where the time goes. Processor time of one operation with 100 in flight, in the client and in the server, for
 * Tenure and for what is written by hand; which parts of the client spend it; and how much the client allocates. Time that
 * is waited for is not in here, so that this tells the same on a busy machine.
 */
import { closeSystem } from '../measure/close-system.ts'
import { allDone } from '../measure/all-done.ts'
import {
  allocatedBytes,
  ownProcessorUs,
  processorUsOf,
  sharesOf,
  type Shares,
} from '../measure/processor-time.ts'
import { within } from '../measure/within.ts'
import type { Plan } from '../plan.ts'
import { messageOf, type Result } from '../result.ts'
import type { OpenSystem, StoreName, SystemUnderTest } from '../system.ts'
import { systemsOf, type Stage } from './entrants.ts'

export interface Profile {
  readonly work: (typeof WORKS)[number]
  readonly store: StoreName
  readonly system: string
  readonly clientUs: number
  /** Null for a store without a server, or where the system does not tell. */
  readonly serverUs: number | null
  readonly shares: Shares
  /** What the client allocates for one operation. */
  readonly clientBytes: number
}

export interface ProfileReport {
  readonly profiles: readonly Profile[]
  readonly failures: readonly Result[]
}

const WORKS = ['acquire+release', 'renew'] as const
const IN_FLIGHT = 100
const RESOURCES = 1_000
const TTL_MS = 600_000

export async function measureProfiles(stage: Stage, plan: Plan): Promise<ProfileReport> {
  const profiles: Profile[] = []
  const failures: Result[] = []
  for (const store of plan.stores) {
    stage.say(`profile on ${store}`)
    for (const system of systemsOf(stage, store).filter(isProfiled)) {
      try {
        profiles.push(...(await profileSystem(stage, system, plan.profile.operations)))
      } catch (error) {
        const place = { work: 'profile', store, system: system.name, inFlight: IN_FLIGHT }
        failures.push({ ...place, isReference: false, rounds: [], error: messageOf(error) })
      }
    }
  }
  return { profiles, failures }
}

/** What is written by hand, advisory locks too, and Tenure. */
function isProfiled({ role, name }: SystemUnderTest): boolean {
  return role !== 'peer' || name === 'advisory'
}

async function profileSystem(
  { places }: Stage,
  system: SystemUnderTest,
  operations: number,
): Promise<readonly Profile[]> {
  const { store, name } = system
  const place = await places.fresh(store)
  const open = await within(system.open(place, 1))
  const servers = (): number | null => {
    const pids = places.processes(store)
    return pids.length === 0 ? null : processorUsOf(pids)
  }
  try {
    const runs = await within(runsOf(open))
    const profiles: Profile[] = []
    for (const work of WORKS.filter((one) => one !== 'renew' || open.renew !== undefined)) {
      const run = (): Promise<void> => within(runs[work](operations))
      await run()
      const [ownUs, serverUs] = [ownProcessorUs(), servers()]
      await run()
      const [ownAfterUs, serverAfterUs] = [ownProcessorUs(), servers()]
      profiles.push({
        ...{ work, store, system: name },
        clientUs: (ownAfterUs - ownUs) / operations,
        serverUs:
          serverUs === null || serverAfterUs === null
            ? null
            : (serverAfterUs - serverUs) / operations,
        shares: await sharesOf(run),
        clientBytes: (await allocatedBytes(run)) / operations,
      })
    }
    return profiles
  } finally {
    await closeSystem(open)
    await places.remove(store, place)
  }
}

type Runs = Readonly<Record<Profile['work'], (operations: number) => Promise<void>>>

async function runsOf(open: OpenSystem): Promise<Runs> {
  const { loop } = open
  if (loop !== undefined) {
    const inBatches = (batch: (count: number) => void) => async (operations: number) => {
      for (let done = 0; done < operations; done += IN_FLIGHT) batch(IN_FLIGHT)
    }
    return {
      'acquire+release': inBatches((count) => loop.pairs(count, RESOURCES)),
      renew: inBatches((count) => loop.renewals(count, RESOURCES)),
    }
  }
  const kept = open.renew === undefined ? 0 : RESOURCES
  const names = Array.from({ length: kept }, (_, index) => `kept-${index}`)
  const held = await Promise.all(names.map((name) => open.acquire(name, TTL_MS)))
  let extended = 0
  return {
    'acquire+release': (operations) =>
      keepInFlight(operations, async (index) => {
        await open.release(await open.acquire(`item-${index % RESOURCES}`, TTL_MS))
      }),
    renew: (operations) =>
      keepInFlight(operations, async (index) => {
        extended += 1
        await open.renew?.(held[index % RESOURCES], TTL_MS + extended)
      }),
  }
}

async function keepInFlight(
  operations: number,
  operation: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < operations) {
      next += 1
      await operation(next)
    }
  }
  await allDone(Array.from({ length: IN_FLIGHT }, worker))
}
