/**
 * What an application holds of a lease. The client itself keeps the handle (`lease-handle.ts`), which renews; this object
 * stands for the application's interest in it. When nothing references it any more, no code can release the lease, and
 * the client notices (`Orphans`).
 *
 * Whatever it gives out counts as a reference: the signal for good, because Node does not show what still listens to it
 * or has joined it to another; a listener until it is taken off; a derived lease as long as that is referenced itself.
 */
import type { Budget } from '../core/budget.ts'
import type { RootLease } from '../core/delegation.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import type { Extent, Mode, Resource } from '../core/resource.ts'
import type { Scope, ScopedAct } from '../core/scope.ts'
import { newAbortController, onAbort } from '../runtime/abort-listeners.ts'
import type {
  EpochRange,
  HandleState,
  Lease,
  LeaseEvents,
  LeaseSet,
  ModeChange,
  Receiver,
} from './contract.ts'
import type {
  AcquireOptions,
  AdvanceOptions,
  DeriveOptions,
  ReleaseOptions,
  RenewOptions,
  SpendOptions,
  UpdateOptions,
  UpgradeOptions,
} from './options.ts'
import type { LeaseHandle } from './lease-handle.ts'
import { isGone } from './lease-loss.ts'
import type { JointRelease } from './lease-requests.ts'
import { TakenListeners } from './listeners.ts'
import { checkListener } from './read-options.ts'

export class LeaseReference implements Lease {
  readonly id: LeaseId
  readonly resource: Resource
  readonly holder: string
  readonly extent: Extent
  /** What a lease was derived from ends it, and so is referenced as long as it is itself. */
  static readonly #parents = new WeakMap<LeaseReference, LeaseReference>()
  readonly #handle: LeaseHandle
  #hasGivenSignal = false
  /** Made for the first listener; most leases have none. */
  #listening: TakenListeners<keyof LeaseEvents> | null = null

  constructor(handle: LeaseHandle, parent: LeaseReference | null) {
    this.#handle = handle
    if (parent !== null) LeaseReference.#parents.set(this, parent)
    this.id = handle.id
    this.resource = handle.resource
    this.holder = handle.holder
    this.extent = handle.extent
  }

  get state(): HandleState {
    return this.#handle.state
  }

  get remainingMs(): number {
    return this.#handle.remainingMs
  }

  get signal(): AbortSignal {
    if (!this.#hasGivenSignal) this.#handle.interest.use(this)
    this.#hasGivenSignal = true
    return this.#handle.signal
  }

  get info(): LeaseInfo {
    return this.#handle.info
  }

  get mode(): Mode {
    return this.#handle.mode
  }

  get fence(): number {
    return this.#handle.fence
  }

  get slots(): number | null {
    return this.#handle.slots
  }

  get root(): RootLease | null {
    return this.#handle.root
  }

  get parentId(): LeaseId | null {
    return this.#handle.delegated.parentId
  }

  get depth(): number {
    return this.#handle.delegated.depth
  }

  get scope(): Scope {
    return this.#handle.delegated.scope
  }

  get budget(): Budget {
    return this.#handle.delegated.budget
  }

  get budgetLeft(): Budget {
    return this.#handle.delegated.budgetLeft
  }

  get epoch(): number | null {
    return this.#handle.epoch
  }

  get grant(): string {
    return this.#handle.grant
  }

  get renewals(): number {
    return this.#handle.renewals
  }

  get isAbandoned(): boolean {
    return this.#handle.isAbandoned
  }

  on<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name]) => void,
  ): () => void {
    return this.#listen(name, listener, listener)
  }

  once<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name]) => void,
  ): () => void {
    checkListener(name, listener)
    const takeOff = this.#listen(name, listener, (event) => {
      takeOff()
      return listener(event)
    })
    return takeOff
  }

  off<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name]) => void,
  ): void {
    checkListener(name, listener)
    this.#listening?.off(name, listener)
  }

  /** `given`: what the caller knows the listener by. */
  #listen<Name extends keyof LeaseEvents>(
    name: Name,
    given: unknown,
    listener: (event: LeaseEvents[Name]) => void,
  ): () => void {
    const stop = this.#handle.on(name, listener)
    const endUse = this.#handle.interest.use(this)
    this.#listening ??= new TakenListeners()
    return this.#listening.add(name, given, () => {
      stop()
      endUse()
    })
  }

  renew(options?: RenewOptions): Promise<void> {
    return this.#handle.renew(options)
  }

  async acquire(resource: string, options?: Omit<AcquireOptions, 'under'>): Promise<Lease> {
    const lease = await this.#handle.acquire(resource, options)
    return lease.reference()
  }

  advance(options?: AdvanceOptions): Promise<EpochRange> {
    return this.#handle.advance(options)
  }

  async derive(options: DeriveOptions): Promise<Lease> {
    const child = await this.#handle.derive(options)
    return child.reference(this)
  }

  spend(amounts: Budget, options?: SpendOptions): Promise<Budget> {
    return this.#handle.spend(amounts, options)
  }

  allows(act: ScopedAct, spending?: Budget): boolean {
    return this.#handle.allows(act, spending)
  }

  upgrade(options?: UpgradeOptions): Promise<ModeChange> {
    return this.#handle.upgrade(options)
  }

  downgrade(): Promise<ModeChange> {
    return this.#handle.downgrade()
  }

  update(options: UpdateOptions): Promise<void> {
    return this.#handle.update(options)
  }

  previous(): Promise<LeaseInfo | null> {
    return this.#handle.previous()
  }

  transfer(to: Receiver): Promise<LeaseId | null> {
    return this.#handle.transfer(to)
  }

  release(options?: ReleaseOptions): Promise<void> {
    return this.#handle.release(options)
  }

  /** `together`: the request goes along with others. */
  releaseWith(options?: ReleaseOptions, together?: JointRelease): Promise<void> {
    return this.#handle.releaseWith(options, together)
  }

  abandon(): void {
    this.#handle.abandon()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#handle[Symbol.asyncDispose]()
  }
}

const WORST_FIRST = ['lost', 'released', 'uncertain'] as const satisfies readonly HandleState[]

type SetListener<Name extends keyof LeaseEvents> = (event: LeaseEvents[Name], lease: Lease) => void

/** Leases that were acquired together: the set is as good as the worst of them, and they are released together. */
export class HandleSet implements LeaseSet {
  readonly leases: readonly LeaseReference[]
  readonly #newRelease: () => JointRelease
  /** Made for its first reader. */
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

/** An application's interest in a lease: a reference to it, and what that reference has given out. */
export class Interest<Reference extends object> {
  /** While it is in use, and before the lease is watched. */
  #strong: Reference | null = null
  #weak: WeakRef<Reference> | null = null
  #uses = 0

  /** Null once nothing references it. */
  get reference(): Reference | null {
    return this.#strong ?? this.#weak?.deref() ?? null
  }

  begin(reference: Reference): void {
    this.#strong = reference
    this.#weak = null
  }

  /** Something that the reference has given out is in use until the returned function is called. */
  use(reference: Reference): () => void {
    this.#strong = reference
    this.#uses += 1
    let isInUse = true
    return () => {
      if (isInUse) this.#uses -= 1
      isInUse = false
    }
  }

  /** Holds the reference no longer by itself; gives it when it was not watched before. */
  loosen(): Reference | null {
    if (this.#uses > 0 || this.#strong === null) return null
    const reference = this.#strong
    const isNew = this.#weak === null
    this.#weak ??= new WeakRef(reference)
    this.#strong = null
    return isNew ? reference : null
  }
}

/** A lease that is watched. */
interface Watched {
  readonly interest: Interest<object>
}

/**
 * Notices leases that are renewed although nothing in the program references them any more, so that no code can ever
 * release them.
 *
 * A lease is watched from its first automatic renewal on: most are released before, and cost nothing here. Nothing is
 * promised about when an orphan is found: that is when the garbage collector comes by, and it may never.
 */
export class Orphans<Handle extends Watched & object> {
  readonly #onOrphan: (handle: Handle) => void
  /** Made for the first lease that is renewed. */
  #registry: FinalizationRegistry<Handle> | null = null

  constructor(onOrphan: (handle: Handle) => void) {
    this.#onOrphan = onOrphan
  }

  watch(handle: Handle): void {
    const reference = handle.interest.loosen()
    if (reference === null) return
    this.#registry ??= new FinalizationRegistry((collected) => {
      // Asked for again by its id, it has got another reference meanwhile.
      if (collected.interest.reference === null) this.#onOrphan(collected)
    })
    this.#registry.register(reference, handle, handle)
  }

  forget(handle: Handle): void {
    this.#registry?.unregister(handle)
  }
}
