import { describe, it } from 'vitest'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { storeConformance } from '../../src/testing/index.ts'
import { ReferenceBackend } from '../../src/testing/reference-backend.ts'
import { ServerTicks } from './server-ticks.ts'

storeConformance(
  { describe, it, skip: it.skip },
  {
    name: 'a store that decides before it asks',
    without: {
      reopen: 'its server is one object and ends with it',
      wall: 'a server has one clock for everything',
      domains: 'a server has one clock',
    },
    open: async () => {
      const ticks = new ServerTicks()
      const backend = ticks.drive(new ReferenceBackend({ ticks }))
      const open = (): Promise<OptimisticStore> => {
        return OptimisticStore.open(backend, systemRuntime, ticks.time)
      }
      const store = await open()
      return { store, clock: ticks, openAnother: open, close: () => store.close() }
    },
  },
)
