/** A store with a history of everything that can happen to leases, made by a seeded script. */
import { isLeaseError } from '../../src/core/errors.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { LedgerEntry, Store } from '../../src/store-port/store.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { randomFrom } from '../../src/testing/fake-runtime.ts'
import { FakeRuntime, ManualTicks } from '../../src/testing/fake-runtime.ts'
import { DifferentialScript } from '../store/differential-script.ts'

export interface LedgerWorld {
  readonly store: Store
  readonly api: LeaseService
  readonly ticks: ManualTicks
  /** Takes the next step of the script, a millisecond after the last. */
  step(): Promise<void>
}

export function ledgerWorld(seed: number, open = openMemory): LedgerWorld {
  const ticks = new ManualTicks()
  const store = open(ticks)
  const api = new LeaseService({ store, runtime: new FakeRuntime() })
  const script = new DifferentialScript(randomFrom(seed), { oneClock: false })
  const step = async (): Promise<void> => {
    ticks.pass(1)
    const next = script.next()
    try {
      const answer = await next.run({ store, api, ticks })
      const { kind } = (answer ?? {}) as { readonly kind?: string }
      script.hear(next, kind ?? '')
    } catch (error) {
      if (!isLeaseError(error)) throw error
    }
  }
  return { store, api, ticks, step }
}

function openMemory(ticks: ManualTicks): Store {
  return new MemoryStore({ ticks })
}

export async function livedWorld(seed: number, steps: number): Promise<LedgerWorld> {
  const world = ledgerWorld(seed)
  for (let step = 0; step < steps; step += 1) await world.step()
  return world
}

export function wholeHistory(store: Store): Promise<readonly LedgerEntry[]> {
  return store.history({ limit: 1_000_000 })
}
