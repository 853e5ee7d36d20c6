import { describe, it } from 'vitest'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { storeConformance } from '../../src/testing/index.ts'

const ENDS_WITH_IT = 'a memory store is one object and ends with it'

storeConformance(
  { describe, it, skip: it.skip },
  {
    name: 'memory',
    without: { reopen: ENDS_WITH_IT, openAnother: ENDS_WITH_IT },
    open: async (ticks) => {
      const store = new MemoryStore({ ticks })
      return { store, clock: ticks, close: () => store.close() }
    },
  },
)
