/**
 * Drops leases in every way that a program can, in a process whose garbage collector it can call (`--expose-gc`), and
 * prints what became of them.
 */
import { onFault } from '../../src/runtime/diagnostics.ts'
import type { Tenure } from '../../src/client/contract.ts'
import { newClient, newWorld, type World } from './harness.ts'

const TTL = { ttlMs: 30_000 }

/** What a scenario keeps, the collector leaves alone. */
type Scenario = (tenure: Tenure, keep: (kept: unknown) => void) => Promise<void>

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  dropped: async (tenure) => {
    await tenure.acquire('work:W', TTL)
  },
  kept: async (tenure, keep) => keep(await tenure.acquire('work:W', TTL)),
  signal: async (tenure, keep) => {
    const { signal } = await tenure.acquire('work:W', TTL)
    keep(signal)
  },
  composed: async (tenure, keep) => {
    const { signal } = await tenure.acquire('work:W', TTL)
    keep(AbortSignal.any([signal, AbortSignal.timeout(3_600_000)]))
  },
  listener: async (tenure) => {
    const lease = await tenure.acquire('work:W', TTL)
    lease.on('lost', () => undefined)
  },
  unheard: async (tenure) => {
    const lease = await tenure.acquire('work:W', TTL)
    lease.on('lost', () => undefined)()
  },
  work: async (tenure) => {
    void tenure.withLease('work:W', TTL, () => new Promise(() => undefined))
  },
  set: async (tenure, keep) => keep(await tenure.acquireAll(['work:V', 'work:W'], TTL)),
  derived: async (tenure, keep) => {
    const parent = await tenure.acquire('work:W', TTL)
    keep(await parent.derive({ holder: 'child' }))
  },
  abandoned: async (tenure) => {
    const lease = await tenure.acquire('work:W', { ttlMs: 600_000 })
    lease.abandon()
  },
  manual: async (tenure) => {
    await tenure.acquire('work:W', { ttlMs: 600_000, autoRenew: false })
  },
}

export interface Observed {
  readonly reported: readonly string[]
  /** After several more terms. */
  readonly states: readonly string[]
  readonly messages: readonly string[]
}

async function observe(scenario: Scenario, orphans: 'renew' | 'release'): Promise<Observed> {
  const world = newWorld()
  const { tenure } = newClient(world, 'alice', { orphans })
  const faults: { source: string; error: unknown }[] = []
  const stop = onFault((fault) => faults.push(fault))
  const kept: unknown[] = []
  await scenario(tenure, (one) => void kept.push(one))
  await passTerms(world)
  const { leases } = await world.service.list({ holder: 'alice' })
  stop()
  if (kept.length > 1) throw new Error('a scenario keeps one thing at most')
  return {
    reported: faults.map(({ source }) => source),
    states: leases.map(({ state }) => state),
    messages: faults.map(({ error }) => String(error)),
  }
}

/** Each round is a third of a term; the collector tells of what it found in a task of its own. */
async function passTerms({ runtime }: World): Promise<void> {
  for (let round = 0; round < 12; round += 1) {
    await runtime.advance(10_000)
    globalThis.gc?.()
    await new Promise<void>((resolve) => void setTimeout(resolve, 1))
  }
}

const observed: Record<string, Observed> = {}
for (const [name, scenario] of Object.entries(SCENARIOS)) {
  for (const orphans of ['renew', 'release'] as const) {
    observed[`${name} ${orphans}`] = await observe(scenario, orphans)
  }
}
process.stdout.write(JSON.stringify(observed))
