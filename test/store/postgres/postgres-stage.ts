/** Stores on a real PostgreSQL server whose clock the test moves, each in a namespace of its own. */
import { systemRuntime } from '../../../src/runtime/system-runtime.ts'
import { openPostgresBackend } from '../../../src/store/postgres/postgres-store.ts'
import { OptimisticStore } from '../../../src/store/optimistic/optimistic-store.ts'
import type { ServerTicks } from '../server-ticks.ts'

let namespaces = 0

export function freshNamespace(): string {
  namespaces += 1
  return `test-${namespaces}`
}

export interface StageOptions {
  readonly url: string
  readonly namespace: string
}

export async function openOnTicks(
  ticks: ServerTicks,
  options: StageOptions,
): Promise<OptimisticStore> {
  const backend = await openPostgresBackend({ ...options, nowUs: ticks.nowUs })
  return OptimisticStore.open(ticks.drive(backend), systemRuntime, ticks.time)
}
