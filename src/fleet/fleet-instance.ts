/** What the registry, the renewal loop, the acquirer and the view of the nodes of one instance have in common. */
import type { HolderClock } from '../client/holder-clock.ts'
import type { Listeners } from '../client/listeners.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { FleetEvents } from './contract.ts'
import type { FleetLayout } from './fleet-layout.ts'
import type { FleetSettings } from './fleet-options.ts'

export interface FleetInstance {
  readonly layout: FleetLayout
  readonly runtime: Runtime
  readonly clock: HolderClock
  readonly listeners: Listeners<FleetEvents>
  readonly settings: FleetSettings
}
