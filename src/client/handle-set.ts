/** Leases that were acquired together: the set is as good as the worst of them, and they are released together. */
import type {
  HandleState,
  Lease,
  LeaseEvents,
  LeaseSet,
  ReleaseOptions,
  RenewOptions,
  UpdateOptions,
} from './contract.ts'
import { newAbortController, onAbort } from '../runtime/abort-listeners.ts'
import { isGone } from './lease-loss.ts'
import type { LeaseReference } from './lease-reference.ts'
import type { JointRelease } from './lease-release.ts'
import { TakenListeners } from './listeners.ts'
import { checkListener } from './read-options.ts'

const WORST_FIRST = ['lost', 'released', 'uncertain'] as const satisfies readonly HandleState[]

type SetListener<Name extends keyof LeaseEvents> = (event: LeaseEvents[Name], lease: Lease) => void

export class HandleSet implements LeaseSet {
  readonly leases: readonly LeaseReference[]
  readonly #newRelease: () => JointRelease
  /** Made when somebody asks for it. */
  #signal: AbortSignal | null = null
  readonly #listening = new TakenListeners<keyof LeaseEvents>()

  constructor(leases: readonly LeaseReference[], newRelease: () => JointRelease) {
    this.leases = leases
    this.#newRelease = newRelease
  }

  get state(): HandleState {
    const states = new Set(this.leases.map((lease) => lease.state))
    return WORST_FIRST.find((state) => states.has(state)) ?? 'held'
  }

  get remainingMs(): number {
    return Math.min(...this.leases.map((lease) => lease.remainingMs))
  }

  get signal(): AbortSignal {
    this.#signal ??= abortsWithAny(this.leases.map((lease) => lease.signal))
    return this.#signal
  }

  on<Name extends keyof LeaseEvents>(name: Name, listener: SetListener<Name>): () => void {
    return this.#listen(name, listener, listener)
  }

  once<Name extends keyof LeaseEvents>(name: Name, listener: SetListener<Name>): () => void {
    const takeOff = this.#listen(name, listener, (event, lease) => {
      takeOff()
      return listener(event, lease)
    })
    return takeOff
  }

  off<Name extends keyof LeaseEvents>(name: Name, listener: SetListener<Name>): void {
    checkListener(name, listener)
    this.#listening.off(name, listener)
  }

  /** `given`: what the caller knows the listener by. */
  #listen<Name extends keyof LeaseEvents>(
    name: Name,
    given: unknown,
    listener: SetListener<Name>,
  ): () => void {
    checkListener(name, given)
    const stops = this.leases.map((lease) => lease.on(name, (event) => listener(event, lease)))
    return this.#listening.add(name, given, () => stops.forEach((stop) => stop()))
  }

  async renew(options?: RenewOptions): Promise<void> {
    throwFirst(await Promise.allSettled(this.leases.map((lease) => lease.renew(options))))
  }

  async update(options: UpdateOptions): Promise<void> {
    throwFirst(await Promise.allSettled(this.leases.map((lease) => lease.update(options))))
  }

  async release(options?: ReleaseOptions): Promise<void> {
    throwFirst(await this.#releaseAll(this.leases, options))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ours = this.leases.filter((lease) => !lease.isAbandoned)
    for (const result of await this.#releaseAll(ours)) {
      if (result.status === 'rejected' && !isGone(result.reason)) throw result.reason
    }
  }

  /** One request for all that are still held. Waits for each of them, whatever becomes of any. */
  async #releaseAll(
    leases: readonly LeaseReference[],
    options?: ReleaseOptions,
  ): Promise<readonly PromiseSettledResult<void>[]> {
    const together = this.#newRelease()
    const released = leases.map((lease) => lease.releaseWith(options, together))
    const [results] = await Promise.all([Promise.allSettled(released), together.send()])
    return results
  }
}

function throwFirst(results: readonly PromiseSettledResult<void>[]): void {
  for (const result of results) {
    if (result.status === 'rejected') throw result.reason
  }
}

/** Not `AbortSignal.any`: on Node 20 what that returns may be collected, and its listeners with it, before it aborts. */
function abortsWithAny(signals: readonly AbortSignal[]): AbortSignal {
  const controller = newAbortController()
  for (const signal of signals) {
    if (signal.aborted) controller.abort(signal.reason)
    else onAbort(signal, () => controller.abort(signal.reason))
  }
  return controller.signal
}
