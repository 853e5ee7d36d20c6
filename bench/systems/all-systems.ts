/** Everything that is measured, in the order of the tables: the reference of a store first. */
import { STORE_NAMES, type StoreName, type SystemUnderTest } from '../system.ts'
import { advisorySystem } from './advisory-system.ts'
import { postgresFloor } from './postgres-floor.ts'
import { properLockfileSystem } from './proper-lockfile-system.ts'
import { redisFloor } from './redis-floor.ts'
import { redisSemaphoreSystem, redlockSystem, redlockUniversalSystem } from './redis-peers.ts'
import { sqliteLimit } from './sqlite-limit.ts'
import { tenureClient, tenureService } from './tenure-system.ts'
import { verrouSystem } from './verrou-system.ts'

/**
 * A run that tries pauses gives each of those who poll the best of them. These are what one found, for a run that does
 * not: 50 workers, one resource, 1 ms of holding.
 */
const REFERENCES: Readonly<Record<StoreName, SystemUnderTest>> = {
  sqlite: sqliteLimit(10),
  redis: redisFloor(1),
  postgres: postgresFloor(20),
}

const PEERS: Readonly<Record<StoreName, readonly SystemUnderTest[]>> = {
  sqlite: [verrouSystem('sqlite', 10), properLockfileSystem(1)],
  redis: [
    redlockSystem(2),
    redisSemaphoreSystem(1),
    verrouSystem('redis', 1),
    redlockUniversalSystem(1),
  ],
  postgres: [advisorySystem, verrouSystem('postgres', 50)],
}

export const ALL_SYSTEMS: readonly SystemUnderTest[] = STORE_NAMES.flatMap((store) => [
  REFERENCES[store],
  tenureClient(store),
  tenureService(store),
  ...PEERS[store],
])

export function systemNamed(store: StoreName, name: string): SystemUnderTest {
  const found = ALL_SYSTEMS.find((system) => system.store === store && system.name === name)
  if (found === undefined) throw new Error(`there is no system ${name} on ${store}`)
  return found
}
