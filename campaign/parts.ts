/** Every part of the campaign, in the order in which they run. */
import { chaos } from './chaos/chaos.ts'
import { crash } from './crash/crash.ts'
import { falseLoss } from './holders/false-loss.ts'
import { zombies } from './holders/zombies.ts'
import { museum } from './museum/museum.ts'
import type { Part } from './part.ts'
import { search } from './search/search.ts'
import { simulation } from './simulation/simulation.ts'
import { soak } from './soak/soak.ts'
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
  crash,
]
