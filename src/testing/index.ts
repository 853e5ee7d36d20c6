/** `tenure/testing`: the tests of a store, and tools for tests of code that holds leases. */
export { storeConformance } from './store-conformance.ts'
export type { Capability, OpenedStore, StoreHarness, TestTools } from './conformance/harness.ts'
export { ManualTicks, type TestClock } from './manual-ticks.ts'
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
