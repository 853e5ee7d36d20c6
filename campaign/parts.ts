/** Every part of the campaign, in the order in which they run. */
import { chaos } from './chaos/chaos.ts'
import { crash } from './crash/crash.ts'
import { falseLoss } from './holders/false-loss.ts'
import { zombies } from './holders/zombies.ts'
import { mutation } from './mutation/mutation.ts'
import { museum } from './museum/museum.ts'
import type { Part } from './part.ts'
import { power } from './power/power.ts'
import { search } from './search/search.ts'
import { simulation } from './simulation/simulation.ts'
import { soak } from './soak/soak.ts'
import { topologies } from './topologies/topologies.ts'
import { versions } from './versions/versions.ts'

export const PARTS: readonly Part[] = [
  museum,
  chaos,
  zombies,
  falseLoss,
  simulation,
  search,
  soak,
  versions,
  topologies,
  crash,
  power,
  mutation,
]
