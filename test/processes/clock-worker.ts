/**
 * Asks a store one question under whatever clocks it was started with, and prints the answer as JSON. It must not be
 * asked to wait: its process may live in another time than the one that reads the answer.
 */
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

export interface ClockAnswer {
  readonly kind: string
  readonly fence: number | null
  readonly blockers: readonly string[]
  readonly wallMs: number
  /** What the store says of the resource's leases before the question. */
  readonly states: readonly string[]
}

const [file = '', name = '', ttlMs = '60000'] = process.argv.slice(2)
const store = await SqliteStore.open({ path: file })
const service = new LeaseService({ store, runtime: systemRuntime })
const resource = parseResource(name)
const kept = await store.find({ resource, limit: 100 })
const infos = await Promise.all(kept.entries.map((entry) => service.get({ id: entry.id })))
const answer = await service.acquire({
  id: systemRuntime.uuid(),
  resource,
  holder: `pid-${process.pid}`,
  session: `pid-${process.pid}`,
  ttlMs: Number(ttlMs),
  waitMs: 0,
})
const report: ClockAnswer = {
  kind: answer.kind,
  fence: answer.kind === 'granted' ? answer.lease.fence : null,
  blockers: answer.kind === 'held' ? answer.blockers.map((blocker) => blocker.kind) : [],
  wallMs: Date.now(),
  states: infos.map((info) => info?.state ?? 'gone'),
}
process.stdout.write(JSON.stringify(report))
await service.close()
