/**
 * The reference server (`tenure/testing`) on the store's host, as PostgreSQL or Redis would stand there: it compares and
 * writes, and each process decides for itself (`OptimisticStore`). Its clock is its own.
 */
import type { Backend, Group, GroupReply } from '../src/store/optimistic/backend.ts'
import { ReferenceBackend } from '../src/testing/reference-backend.ts'
import { sameStore, type StoreHost } from './store-host.ts'

export interface OptimisticServerOptions {
  readonly host: StoreHost
  /** What the processes get instead of the server itself. */
  readonly defect?: ((backend: Backend) => Backend) | undefined
}

export class OptimisticServer {
  readonly backend: Backend
  #isEcho = false

  constructor({ host, defect = (backend) => backend }: OptimisticServerOptions) {
    const { ticks } = host
    const store = sameStore(host.store, (readSets, decide) => {
      return host.transact(readSets, decide, this.#isEcho)
    })
    this.backend = defect(
      new ReferenceBackend({ ticks: { nowUs: () => ticks.tickUs(), source: ticks }, store }),
    )
  }

  attempt(group: Group, isEcho: boolean): Promise<GroupReply> {
    this.#isEcho = isEcho
    return this.backend.attempt(group)
  }
}
