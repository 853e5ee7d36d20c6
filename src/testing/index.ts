/** `tenure/testing`: the tests of a store, and tools for tests of code that holds leases. */
import { epochBehaviours } from './conformance/epochs.ts'
import { findBehaviours } from './conformance/find.ts'
import type { Behaviour, StoreHarness, TestTools } from './conformance/harness.ts'
import { historyBehaviours } from './conformance/history.ts'
import { lifeBehaviours } from './conformance/life.ts'
import { pruneBehaviours } from './conformance/prune.ts'
import { refusalBehaviours } from './conformance/refusals.ts'
import { requestBehaviours } from './conformance/requests.ts'
import { restoreBehaviours } from './conformance/restore.ts'
import { settingBehaviours } from './conformance/settings.ts'
import { severalBehaviours } from './conformance/several.ts'
import { Stage } from './conformance/stage.ts'
import { timeBehaviours } from './conformance/time.ts'
import { transactBehaviours } from './conformance/transact.ts'
import { viewBehaviours } from './conformance/view.ts'
import { wakeBehaviours } from './conformance/wake.ts'

export type { Capability, OpenedStore, StoreHarness, TestTools } from './conformance/harness.ts'
export { ManualTicks, type TestClock } from './fake-runtime.ts'
export { FakeRuntime, type FakeRuntimeOptions } from './fake-runtime.ts'
export {
  FaultyStore,
  type CallWeather,
  type Fault,
  type FaultyMethod,
  type FaultyStoreOptions,
  type StoreCall,
} from './faulty-store.ts'
export {
  ReferenceBackend,
  type ReferenceBackendOptions,
  type ServerTickSource,
} from './reference-backend.ts'
export { OptimisticStore } from '../store/optimistic/optimistic-store.ts'
export type { Attempt, Backend, Group, GroupReply, Reply } from '../store/optimistic/backend.ts'

const CHAPTERS: Readonly<Record<string, readonly Behaviour[]>> = {
  'decides and commits': transactBehaviours,
  'keeps what is shared, given away and asked for together': severalBehaviours,
  'shows a decision what it touches': viewBehaviours,
  'remembers epochs': epochBehaviours,
  'keeps time': timeBehaviours,
  'remembers requests': requestBehaviours,
  'finds entries': findBehaviours,
  'tells the history': historyBehaviours,
  'counts refusals': refusalBehaviours,
  'keeps settings': settingBehaviours,
  'prunes what has ended': pruneBehaviours,
  'is rebuilt from a ledger': restoreBehaviours,
  'wakes who waits': wakeBehaviours,
  'opens and closes': lifeBehaviours,
}

/**
 * The conformance suite that every store must pass, Tenure's own and any other. A store's own test is a dozen
 * lines: a harness that opens an empty store on a clock that the suite moves, and the functions of a test runner.
 *
 *     storeConformance({ describe, it, skip: it.skip }, { name: 'my store', open: async (ticks) => … })
 *
 * It shows that decisions are serial, commits whole, and reading true to what was committed. It does not show what a
 * crash, a lost connection or a failover does: those are the store's own to test.
 */
export function storeConformance(tools: TestTools, harness: StoreHarness): void {
  for (const [chapter, behaviours] of Object.entries(CHAPTERS)) {
    tools.describe(`${harness.name} ${chapter}`, () => {
      for (const behaviour of behaviours) enrol(tools, harness, behaviour)
    })
  }
}

function enrol(tools: TestTools, harness: StoreHarness, behaviour: Behaviour): void {
  const { name, needs } = behaviour
  const reason = needs?.map((need) => harness.without?.[need]).find((why) => why !== undefined)
  if (reason !== undefined) {
    tools.skip(`${name} (not run: ${reason})`)
    return
  }
  tools.it(name, async () => {
    const stage = await Stage.open(harness)
    try {
      await behaviour.run(stage)
    } finally {
      await stage.close()
    }
  })
}
