/**
 * What a process does all day: it asks for leases in every way there is, works with what it gets, gives up waiting,
 * and now and then takes a lease away from somebody else. A process runs several of these at once.
 */
import type { AcquireOptions, Lease, Tenure, TryAcquireOptions } from '../src/client/contract.ts'
import type { Calls } from './calls.ts'
import { Holder, type HolderParts, type HoldingPlan } from './holder.ts'
import type { Random } from './random.ts'
import type { Incarnation } from './sim-process.ts'
import { HANG_MS_MAX } from './weather.ts'

export interface Habits {
  readonly resources: readonly string[]
  readonly holders: readonly string[]
  readonly ttlMsMin: number
  readonly ttlMsMax: number
  readonly waitMsMax: number
}

export interface WorkerParts extends HolderParts {
  readonly tenure: Tenure
  readonly habits: Habits
  /** True when the day is over: what was begun is finished, and nothing new is begun. */
  readonly isOver: () => boolean
}

/** A store that keeps losing its answers is asked three times. */
const STORE_BOUND_MS = 3 * HANG_MS_MAX + 1_000
/** However short the wait, the store has a second to answer; a wait that the store must be asked for, half a minute. */
const FIRST_ANSWER_MS = 1_000
const CONFIGURED_ANSWER_MS = 30_000

export class Worker {
  readonly #parts: WorkerParts
  readonly #incarnation: Incarnation
  readonly #calls: Calls
  readonly #random: Random
  readonly #tenure: Tenure

  constructor(parts: WorkerParts) {
    this.#parts = parts
    this.#incarnation = parts.incarnation
    this.#calls = parts.calls
    this.#random = parts.random
    this.#tenure = parts.tenure
  }

  async run(): Promise<void> {
    while (!this.#parts.isOver()) {
      await this.#incarnation.sleep(this.#random.magnitude(1, 1_500))
      if (!this.#parts.isOver()) await this.#task()
    }
  }

  async #task(): Promise<void> {
    const task = this.#random.weighted({
      acquire: 12,
      try_acquire: 6,
      with_lease: 2,
      is_held: 2,
      revoke: 1,
      release_all: 0.2,
      cleanup: 0.3,
    })
    switch (task) {
      case 'acquire':
        return this.#acquire()
      case 'try_acquire':
        return this.#tryAcquire()
      case 'with_lease':
        return this.#withLease()
      case 'is_held':
        return this.#isHeld()
      case 'revoke':
        return this.#revoke()
      case 'release_all':
        return this.#releaseAll()
      case 'cleanup':
        await this.#calls.make(this.#incarnation, bounded('cleanup'), () => this.#tenure.cleanup())
    }
  }

  async #acquire(): Promise<void> {
    const resource = this.#resource()
    const { options, boundMs, plan } = this.#waitingOptions()
    const facts = { operation: 'acquire', resource, leaseId: options.leaseId, boundMs } as const
    const lease = await this.#calls.make(
      this.#incarnation,
      facts,
      () => this.#tenure.acquire(resource, options),
      () => 'granted',
    )
    if (lease !== null) await this.#hold(lease, plan)
  }

  async #tryAcquire(): Promise<void> {
    const resource = this.#resource()
    const { options, plan } = this.#options()
    const facts = { ...bounded('try_acquire'), resource, leaseId: options.leaseId }
    const attempt = await this.#calls.make(
      this.#incarnation,
      facts,
      () => this.#tenure.tryAcquire(resource, options),
      ({ kind }) => kind,
    )
    if (attempt?.kind === 'granted') await this.#hold(attempt.lease, plan)
  }

  async #withLease(): Promise<void> {
    const resource = this.#resource()
    const { options, boundMs, plan } = this.#waitingOptions()
    const { leaseId } = options
    const workMs = 10 * plan.ttlMs + 2 * HANG_MS_MAX
    const bound = boundMs + workMs + RELEASE_MS
    const facts = { operation: 'with_lease', resource, leaseId, boundMs: bound } as const
    await this.#calls.make(this.#incarnation, facts, () =>
      this.#tenure.withLease(resource, options, async (lease) => {
        const holder = new Holder(this.#parts, lease, plan)
        await holder.work()
        holder.noteLetGo()
      }),
    )
  }

  async #hold(lease: Lease, plan: HoldingPlan): Promise<void> {
    const holder = new Holder(this.#parts, lease, plan)
    await holder.work()
    await holder.letGo()
  }

  async #isHeld(): Promise<void> {
    const { process, who } = this.#incarnation
    const resource = this.#resource()
    const sentUs = process.world.nowUs
    const facts = { ...bounded('is_held'), resource }
    const held = await this.#calls.make(this.#incarnation, facts, () =>
      this.#tenure.isHeld(resource),
    )
    if (held !== null) process.log.write({ kind: 'looked', ...who, resource, held, sentUs })
  }

  /** An operator looks who holds or waits, and ends one of them. */
  async #revoke(): Promise<void> {
    const resource = this.#resource()
    const facts = { ...bounded('inspect'), resource }
    const seen = await this.#calls.make(this.#incarnation, facts, () =>
      this.#tenure.inspect(resource),
    )
    const targets = [...(seen?.leases ?? []), ...(seen?.queue ?? [])]
    if (targets.length === 0) return
    const { id: leaseId } = this.#random.pick(targets)
    await this.#calls.make(this.#incarnation, { ...bounded('revoke'), resource, leaseId }, () =>
      this.#tenure.revoke(leaseId, { reason: 'the operator wants it so' }),
    )
  }

  async #releaseAll(): Promise<void> {
    const holder = this.#random.pick(this.#parts.habits.holders)
    await this.#calls.make(this.#incarnation, bounded('release_all'), () =>
      this.#tenure.releaseAll(holder),
    )
  }

  #resource(): string {
    return this.#random.pick(this.#parts.habits.resources)
  }

  #options(): { options: TryAcquireOptions & { leaseId: string }; plan: HoldingPlan } {
    const random = this.#random
    const { ttlMsMin, ttlMsMax } = this.#parts.habits
    const ttlMs = random.magnitude(ttlMsMin, ttlMsMax)
    const plan = { ttlMs, autoRenew: random.chance(0.8) }
    const options = {
      ...plan,
      leaseId: random.uuid(),
      ...(random.chance(0.2) ? { maxRenewals: random.between(0, 3) } : {}),
      ...(random.chance(0.15) ? { maxHoldMs: random.magnitude(ttlMs, 4 * ttlMs) } : {}),
    }
    return { options, plan }
  }

  #waitingOptions(): {
    options: AcquireOptions & { leaseId: string }
    plan: HoldingPlan
    boundMs: number
  } {
    const random = this.#random
    const { waitMsMax } = this.#parts.habits
    const { options, plan } = this.#options()
    const waitMs = random.chance(0.9) ? random.magnitude(1, waitMsMax) : null
    const signal = random.chance(0.15) ? this.#abortAfter(random.magnitude(1, waitMsMax)) : null
    const boundMs = Math.max(FIRST_ANSWER_MS, waitMs ?? CONFIGURED_ANSWER_MS)
    return {
      options: {
        ...options,
        ...(waitMs === null ? {} : { waitMs }),
        ...(signal === null ? {} : { signal }),
      },
      plan,
      boundMs,
    }
  }

  #abortAfter(delayMs: number): AbortSignal {
    const controller = new AbortController()
    void this.#incarnation.sleep(delayMs).then(() => controller.abort())
    return controller.signal
  }
}

const RELEASE_MS = 10_500

function bounded<
  Name extends 'try_acquire' | 'is_held' | 'inspect' | 'revoke' | 'release_all' | 'cleanup',
>(operation: Name): { operation: Name; boundMs: number } {
  return { operation, boundMs: STORE_BOUND_MS }
}
