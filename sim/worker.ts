/**
 * What a process does all day: it asks for leases in every way there is, works with what it gets, gives up waiting,
 * and now and then revokes a lease of another holder. A process runs several of these at once.
 */
import type { Lease, Tenure } from '../src/client/contract.ts'
import type { AcquireOptions } from '../src/client/options.ts'
import { parseResource } from '../src/core/resource.ts'
import type { Inspection } from '../src/service/lease-api.ts'
import type { Calls } from './calls.ts'
import { Holder, type HolderParts, type HoldingPlan } from './holder.ts'
import type { Random } from './random.ts'
import type { Incarnation } from './sim-process.ts'
import { HANG_MS_MAX } from './fault-profile.ts'
import { commonOptions, leaseOptions, several, type Habits, type Place } from './workload.ts'

export interface WorkerParts extends HolderParts {
  readonly tenure: Tenure
  readonly habits: Habits
  /** The first of the first process. */
  readonly isFirst: boolean
  /** True when the day is over: what was begun is finished, and nothing new is begun. */
  readonly isOver: () => boolean
}

/** A store that keeps losing its answers is asked three times. */
const STORE_BOUND_MS = 3 * HANG_MS_MAX + 1_000
/** However short the wait, the store has a second to answer; a wait that the store must be asked for, half a minute. */
const FIRST_ANSWER_MS = 1_000
const CONFIGURED_ANSWER_MS = 30_000
const INSIST_MS = 10_500
/** What a crowd comes for, and how long each of it keeps it at most. */
const CROWDED_PLACE: Place = { resource: 'work:crowded', extent: 'exact', slots: null }
const CROWD_HOLD_MS_MAX = 300
/** How many tasks of one worker rush, and how often each of them. */
const RUSHERS = 3
const RUSHES_EACH = 25
/** A lease that is not adopted is not renewed: it must last until a cycle that it closes is found. */
const GIFT_TTL_MS = 3_500
const PATIENT = { waitMs: 4_000, autoRenew: true, maxRenewals: -1, maxHoldMs: 60_000 } as const

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
    // Few crowds are enough for a world: every look at its queue goes through all of it.
    if (this.#parts.habits.isCrowded && this.#parts.isFirst) await this.#crowd()
    const { rush } = this.#parts.habits
    if (rush !== null) await Promise.all(Array.from({ length: RUSHERS }, () => this.#rush(rush)))
    while (!this.#parts.isOver()) {
      await this.#incarnation.sleep(this.#random.magnitude(1, 1_500))
      if (!this.#parts.isOver()) await this.#task()
    }
  }

  async #rush(place: Place): Promise<void> {
    for (let left = RUSHES_EACH; left > 0 && !this.#parts.isOver(); left -= 1) {
      const got = await this.#obtain(place, PATIENT)
      if (got !== null) await new Holder(this.#parts, got.lease, got.plan).release('release')
    }
  }

  async #task(): Promise<void> {
    const { richness, nesting, isCrowded, giving } = this.#parts.habits
    const task = this.#random.weighted({
      acquire: 12,
      try_acquire: 6,
      with_lease: 2 + 4 * nesting,
      nest: 20 * nesting,
      acquire_all: 20 * richness,
      adopt: 12 * richness,
      give: 30 * giving * nesting,
      is_held: 2,
      revoke: isCrowded ? 6 : 1,
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
      case 'nest':
        return this.#nest()
      case 'acquire_all':
        return this.#acquireAll()
      case 'adopt':
        return this.#adopt()
      case 'give':
        return this.#give()
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
    const got = await this.#obtain(this.#place())
    if (got !== null) await this.#hold(got.lease, got.plan)
  }

  /**
   * Asks for another while it holds one: two who do so in opposite order wait for each other. They are in no hurry and
   * renew without limit, so that a cycle is broken neither by its own timeouts nor by the end of a lease in it.
   */
  async #nest(): Promise<void> {
    // In a crowd each worker holds a resource of its own, and waits for one that all of them want.
    const isCrowd = this.#random.chance(0.3)
    const outer = await this.#obtain(isCrowd ? this.#ownPlace() : this.#place(), PATIENT)
    if (outer === null) return
    const holder = new Holder(this.#parts, outer.lease, outer.plan)
    // A request that names its leases with `under` is never refused for a wait that would have ended.
    const by = this.#random.chance(0.6) ? outer.lease : this.#tenure
    const place = isCrowd ? this.#hottestPlace() : this.#place()
    const inner = await this.#obtain(place, PATIENT, by)
    if (inner !== null) await this.#hold(inner.lease, inner.plan)
    holder.step()
    await holder.release('dispose')
  }

  /** So many tasks of one client that the last of them are too far back in the queue to look for themselves. */
  async #crowd(): Promise<void> {
    const size = this.#random.between(18, 20)
    await Promise.all(Array.from({ length: size }, () => this.#comeWith()))
  }

  async #comeWith(): Promise<void> {
    const outer = await this.#obtain(this.#ownPlace(), PATIENT)
    if (outer === null) return
    const by = this.#random.chance(0.7) ? outer.lease : this.#tenure
    const inner = await this.#obtain(CROWDED_PLACE, { ...PATIENT, mode: 'exclusive' }, by)
    if (inner !== null) {
      const holder = new Holder(this.#parts, inner.lease, inner.plan)
      await this.#incarnation.sleep(this.#random.magnitude(1, CROWD_HOLD_MS_MAX))
      holder.step()
      await holder.release('release')
    }
    await new Holder(this.#parts, outer.lease, outer.plan).release('dispose')
  }

  /**
   * Gives what it has to a holder that waits for another, whose own holder waits for this: the receiver does not know of
   * it, and each would wait for the next.
   */
  async #give(): Promise<void> {
    const place = this.#place()
    const alone = place.slots === null ? ({ mode: 'exclusive' } as const) : {}
    const got = await this.#obtain(place, { ...PATIENT, ttlMs: GIFT_TTL_MS, ...alone })
    if (got === null) return
    const holder = new Holder(this.#parts, got.lease, got.plan)
    for (let looks = this.#random.between(1, 6); looks > 0; looks -= 1) {
      await this.#incarnation.sleep(this.#random.magnitude(20, 400))
      const receivers = await this.#receiversOf(place)
      if (!holder.step()) return
      if (receivers.length > 0) return holder.transfer(this.#random.pick(receivers))
    }
    await holder.release('release')
  }

  /** Who waits for something that a holder has who waits for this. */
  async #receiversOf({ resource }: Place): Promise<readonly string[]> {
    const { habits, incarnation } = this.#parts
    const look = (one: string): Promise<Inspection | null> => {
      const facts = { ...bounded('inspect'), resource: one }
      return this.#calls.make(this.#incarnation, facts, () => this.#tenure.inspect(one))
    }
    const waiting = new Set((await look(resource))?.queue.map(({ holder }) => holder))
    const others = habits.places.filter((place) => place.resource !== resource)
    const seen = await Promise.all(others.map((place) => look(place.resource)))
    return seen
      .flatMap((one) => (one?.leases.some((lease) => waiting.has(lease.holder)) ? one.queue : []))
      .map(({ holder }) => holder)
      .filter((holder) => holder !== incarnation.process.holder && !waiting.has(holder))
  }

  #hottestPlace(): Place {
    const { isCrowded, places } = this.#parts.habits
    return isCrowded ? CROWDED_PLACE : (places[0] ?? CROWDED_PLACE)
  }

  #ownPlace(): Place {
    return { resource: `own:${this.#random.uuid()}`, extent: 'exact', slots: null }
  }

  async #obtain(
    place: Place,
    more: AcquireOptions = this.#waiting(),
    by: Pick<Tenure, 'acquire'> = this.#tenure,
  ): Promise<{ lease: Lease; plan: HoldingPlan } | null> {
    const { resource } = place
    const options = { ...this.#options(place), ...more }
    const { leaseId } = options
    const facts = { operation: 'acquire', resource, leaseId, boundMs: boundOf(options) } as const
    const lease = await this.#calls.make(
      this.#incarnation,
      facts,
      () => by.acquire(resource, this.#asked(options)),
      () => 'granted',
    )
    return lease === null ? null : { lease, plan: this.#plan(options) }
  }

  /** Where the TTL is for an operator to say, half of all requests name none. */
  #asked({ ttlMs, ...options }: AcquireOptions): AcquireOptions {
    const isNamed = !this.#parts.habits.isConfiguring || this.#random.chance(0.5)
    return isNamed && ttlMs !== undefined ? { ttlMs, ...options } : options
  }

  async #tryAcquire(): Promise<void> {
    const place = this.#place()
    const { resource } = place
    const options = this.#options(place)
    const facts = { ...bounded('try_acquire'), resource, leaseId: options.leaseId }
    const attempt = await this.#calls.make(
      this.#incarnation,
      facts,
      () => this.#tenure.tryAcquire(resource, options),
      ({ kind }) => kind,
    )
    if (attempt?.kind === 'granted') await this.#hold(attempt.lease, this.#plan(options))
  }

  async #withLease(): Promise<void> {
    const place = this.#place()
    const { resource } = place
    const options = { ...this.#options(place), ...this.#waiting() }
    const plan = { ...this.#plan(options), upgradeWaitMs: null }
    const { leaseId } = options
    const workMs = 10 * plan.ttlMs + 2 * HANG_MS_MAX
    const isNesting = this.#random.chance(this.#parts.habits.nesting)
    const insideMs = isNesting ? boundOf(PATIENT) + INSIST_MS : 0
    const boundMs = boundOf(options) + workMs + insideMs + INSIST_MS
    const facts = { operation: 'with_lease', resource, leaseId, boundMs } as const
    await this.#calls.make(this.#incarnation, facts, () =>
      this.#tenure.withLease(resource, options, async (lease) => {
        const holder = new Holder(this.#parts, lease, plan)
        await holder.work()
        // What is asked for in here is under the lease by default.
        if (isNesting) await this.#acquireInside()
        holder.noteLetGo()
      }),
    )
  }

  async #acquireInside(): Promise<void> {
    const inner = await this.#obtain(this.#place(), PATIENT)
    if (inner === null) return
    const holder = new Holder(this.#parts, inner.lease, inner.plan)
    holder.step()
    await holder.release('release')
  }

  async #acquireAll(): Promise<void> {
    const { habits } = this.#parts
    const wanted = several(this.#random, habits)
    if (wanted.length === 0) return
    const ttlMs = this.#random.magnitude(habits.ttlMsMin, habits.ttlMsMax)
    const options = { ttlMs, ...commonOptions(this.#random, habits), ...this.#waiting() }
    const resource = wanted.map((one) => one.resource).join(', ')
    const facts = { operation: 'acquire_all', resource, boundMs: boundOf(options) } as const
    const set = await this.#calls.make(
      this.#incarnation,
      facts,
      () => this.#tenure.acquireAll(wanted, options),
      () => 'granted',
    )
    const plan = this.#plan({ ttlMs, autoRenew: true })
    await Promise.all((set?.leases ?? []).map((lease) => this.#hold(lease, plan)))
  }

  /** Adopts a lease that was transferred to this holder, with a note in the mailbox. */
  async #adopt(): Promise<void> {
    const { mailbox, incarnation } = this.#parts
    const leaseId = mailbox.take(incarnation.process.holder)
    if (leaseId === null) return
    const facts = { operation: 'adopt', leaseId, boundMs: INSIST_MS } as const
    const lease = await this.#calls.make(
      this.#incarnation,
      facts,
      () => this.#tenure.adopt(leaseId),
      () => 'granted',
    )
    if (lease === null) return
    await this.#hold(lease, this.#plan({ ttlMs: lease.info.ttlMs, autoRenew: true }))
  }

  async #hold(lease: Lease, plan: HoldingPlan): Promise<void> {
    const holder = new Holder(this.#parts, lease, plan)
    await holder.work()
    // A holder that has lost a lease may request it again at once, and its old lease must not block it.
    if (lease.state === 'lost' && this.#random.chance(0.5)) await this.#acquireAgain(lease)
    await holder.letGo()
  }

  async #acquireAgain({ resource, extent, info }: Lease): Promise<void> {
    const again = await this.#obtain({ resource, extent, slots: info.slots })
    if (again === null) return
    const holder = new Holder(this.#parts, again.lease, again.plan)
    holder.step()
    await holder.release('release')
  }

  async #isHeld(): Promise<void> {
    const { process, who } = this.#incarnation
    const resource = parseResource(this.#place().resource)
    const sentUs = process.world.nowUs
    const facts = { ...bounded('is_held'), resource }
    const held = await this.#calls.make(this.#incarnation, facts, () =>
      this.#tenure.isHeld(resource),
    )
    if (held !== null) process.log.write({ kind: 'looked', ...who, resource, held, sentUs })
  }

  /** An operator looks who holds or waits, and ends one of them, at once or with a grace. */
  async #revoke(): Promise<void> {
    const isAboutCrowd = this.#parts.habits.isCrowded && this.#random.chance(0.7)
    const { resource } = isAboutCrowd ? CROWDED_PLACE : this.#place()
    const facts = { ...bounded('inspect'), resource }
    const seen = await this.#calls.make(this.#incarnation, facts, () =>
      this.#tenure.inspect(resource),
    )
    const targets = [...(seen?.leases ?? []), ...(seen?.queue ?? [])]
    if (targets.length === 0) return
    const { id: leaseId } = this.#random.pick(targets)
    const { richness, ttlMsMax } = this.#parts.habits
    const grace = this.#random.chance(2 * richness)
    const graceMs = grace ? this.#random.magnitude(1, ttlMsMax) : 0
    await this.#calls.make(this.#incarnation, { ...bounded('revoke'), resource, leaseId }, () =>
      this.#tenure.revoke(leaseId, { reason: 'the operator wants it so', graceMs }),
    )
  }

  async #releaseAll(): Promise<void> {
    const holder = this.#random.pick(this.#parts.habits.holders)
    await this.#calls.make(this.#incarnation, bounded('release_all'), () =>
      this.#tenure.releaseAll(holder),
    )
  }

  #place(): Place {
    return this.#random.pick(this.#parts.habits.places)
  }

  #options(place: Place): ReturnType<typeof leaseOptions> {
    return leaseOptions(this.#random, this.#parts.habits, place)
  }

  #waiting(): Pick<AcquireOptions, 'waitMs' | 'signal' | 'breakGraceMs'> {
    const random = this.#random
    const { waitMsMax, richness, ttlMsMax } = this.#parts.habits
    const waitMs = random.chance(0.9) ? random.magnitude(1, waitMsMax) : null
    const signal = random.chance(0.15) ? this.#abortAfter(random.magnitude(1, waitMsMax)) : null
    return {
      ...(waitMs === null ? {} : { waitMs }),
      ...(signal === null ? {} : { signal }),
      ...(random.chance(richness) ? { breakGraceMs: random.between(0, ttlMsMax) } : {}),
    }
  }

  #plan({ ttlMs, autoRenew }: Pick<HoldingPlan, 'ttlMs' | 'autoRenew'>): HoldingPlan {
    const { richness, waitMsMax, holders, isDelegating } = this.#parts.habits
    const changes = this.#random.chance(2 * richness)
    const gives = this.#random.chance(richness)
    const others = holders.filter((holder) => holder !== this.#incarnation.process.holder)
    return {
      ...{ ttlMs, autoRenew, upgradeWaitMs: changes ? waitMsMax : null },
      receivers: gives ? others : [],
      isDelegating,
    }
  }

  #abortAfter(delayMs: number): AbortSignal {
    const controller = new AbortController()
    void this.#incarnation.sleep(delayMs).then(() => controller.abort())
    return controller.signal
  }
}

function boundOf({ waitMs }: Pick<AcquireOptions, 'waitMs'>): number {
  return Math.max(FIRST_ANSWER_MS, waitMs ?? CONFIGURED_ANSWER_MS)
}

function bounded<
  Name extends 'try_acquire' | 'is_held' | 'inspect' | 'revoke' | 'release_all' | 'cleanup',
>(operation: Name): { operation: Name; boundMs: number } {
  return { operation, boundMs: STORE_BOUND_MS }
}
