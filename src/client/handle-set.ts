/** Leases that were acquired together: the set is as good as the worst of them, and they are released together. */
import type { HandleState, Lease, LeaseSet, ReleaseOptions } from './contract.ts'

const WORST_FIRST = ['lost', 'released', 'uncertain'] as const satisfies readonly HandleState[]

export class HandleSet implements LeaseSet {
  readonly leases: readonly Lease[]
  /** Made when somebody asks for it. */
  #signal: AbortSignal | null = null

  constructor(leases: readonly Lease[]) {
    this.leases = leases
  }

  get state(): HandleState {
    const states = new Set(this.leases.map((lease) => lease.state))
    return WORST_FIRST.find((state) => states.has(state)) ?? 'held'
  }

  get remainingMs(): number {
    return Math.min(...this.leases.map((lease) => lease.remainingMs))
  }

  get signal(): AbortSignal {
    this.#signal ??= AbortSignal.any(this.leases.map((lease) => lease.signal))
    return this.#signal
  }

  /** All requests go in the same moment, so that a store that commits in groups makes one commit of them. */
  async release(options?: ReleaseOptions): Promise<void> {
    await firstErrorOf(this.leases.map((lease) => lease.release(options)))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await firstErrorOf(this.leases.map((lease) => lease[Symbol.asyncDispose]()))
  }
}

/** Waits for all of them, whatever becomes of any. */
async function firstErrorOf(work: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(work)) {
    if (result.status === 'rejected') throw result.reason
  }
}
