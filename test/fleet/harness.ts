/** Instances of a fleet on one memory store, in time that only the test moves. */
import type { FleetEvents } from '../../src/fleet/contract.ts'
import { FleetManager } from '../../src/fleet/fleet-manager.ts'
import { readSettings, type LeaseManagerOptions } from '../../src/fleet/fleet-options.ts'
import { LeaseLayout } from '../../src/fleet/lease-layout.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { FaultyApi } from '../client/harness.ts'

export const TTL_MS = 3_000
export const REFRESH_MS = 1_000
export const CALL_TIMEOUT_MS = 200

type EmittedEvent = { [Name in keyof FleetEvents]: [Name, FleetEvents[Name]] }[keyof FleetEvents]

export interface Instance {
  readonly manager: FleetManager
  readonly faults: FaultyApi
  /** Every event but `renewed`, in order. */
  readonly events: EmittedEvent[]
}

export interface World {
  readonly runtime: FakeRuntime
  readonly service: LeaseApi
  /** From now on the store is empty, as if it had never been asked for anything. */
  loseData(): void
  instance(options?: LeaseManagerOptions): Instance
}

const EVENTS: readonly (keyof FleetEvents)[] = [
  'acquired',
  'renew_failed',
  'uncertain',
  'recovered',
  'released',
  'lost',
  'taken_over',
  'rebalanced',
]

export function fleetWorld(): World {
  const runtime = new FakeRuntime()
  const empty = (): LeaseService =>
    new LeaseService({ store: new MemoryStore({ ticks: runtime.ticks }), runtime })
  let current = empty()
  const service = new Proxy(current, {
    get: (_, name: keyof LeaseService) => {
      const value: unknown = current[name]
      return typeof value === 'function' ? value.bind(current) : value
    },
  })
  return {
    ...{ runtime, service },
    loseData: () => (current = empty()),
    instance: (options = {}) => {
      const faults = new FaultyApi(service, runtime)
      const spans = { leaseTtlMs: TTL_MS, heartbeatTtlMs: TTL_MS, refreshMs: REFRESH_MS }
      const read = { ...spans, callMs: CALL_TIMEOUT_MS, ...options }
      const settings = readSettings(read, { runtime, host: 'test', startedAtMs: 1_736_598_400_000 })
      const layout = new LeaseLayout({ openApi: async () => faults.api, runtime, settings })
      const manager = new FleetManager({ layout, runtime, settings })
      const events: EmittedEvent[] = []
      for (const name of EVENTS)
        manager.on(name, (event) => events.push([name, event] as EmittedEvent))
      return { manager, faults, events }
    },
  }
}
