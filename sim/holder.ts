/**
 * What a process does with a lease that it was given: it works in small steps, looks at the lease before each of them,
 * writes only while the lease says that it may, changes its mode now and then, and lets go of it in one of the ways that
 * a program can. It keeps looking for a while after the end, because that is when a defective handle would come back to
 * life.
 */
import { isLeaseError } from '../src/core/errors.ts'
import type { Lease } from '../src/client/contract.ts'
import type { DeriveOptions } from '../src/client/options.ts'
import { parseResource } from '../src/core/resource.ts'
import type { Calls } from './calls.ts'
import type { FencedResources } from './fenced-resource.ts'
import type { Believed } from './log.ts'
import type { Mailbox } from './mailbox.ts'
import type { Random } from './random.ts'
import type { Incarnation } from './sim-process.ts'
import { HANG_MS_MAX } from './fault-profile.ts'

export interface HolderParts {
  readonly incarnation: Incarnation
  readonly calls: Calls
  readonly random: Random
  readonly downstream: FencedResources
  readonly mailbox: Mailbox
}

export interface HoldingPlan {
  readonly ttlMs: number
  readonly autoRenew: boolean
  /** How long to wait at most for being alone; null: its mode stays as it is. */
  readonly upgradeWaitMs: number | null
  /** Holders to which it may be transferred; none: it is not transferred. */
  readonly receivers: readonly string[]
  /** Whether to derive from it, and to spend its budget. */
  readonly isDelegating: boolean
}

/** Releasing, downgrading and transferring are retried for ten seconds; the rest is for the store's own answer. */
const INSIST_BOUND_MS = 10_500
/** However short the wait, the store has a second to answer; and an upgrade waits for the undoing of the one before. */
const FIRST_ANSWER_MS = 1_000
const UNDO_MS = 15_500

export class Holder {
  readonly #parts: HolderParts
  readonly #lease: Lease
  readonly #plan: HoldingPlan

  constructor(parts: HolderParts, lease: Lease, plan: HoldingPlan) {
    this.#parts = parts
    this.#lease = lease
    this.#plan = plan
    this.#observe()
  }

  /** Works for some multiple of the TTL, or until the lease is over. */
  async work(): Promise<void> {
    const { random, incarnation } = this.#parts
    const spanMs = random.magnitude(2, 3 * this.#plan.ttlMs)
    const untilMs = incarnation.runtime.monotonicMs() + spanMs
    while (incarnation.runtime.monotonicMs() < untilMs) {
      await incarnation.sleep(random.between(1, Math.max(2, Math.round(spanMs / 3))))
      if (!this.step()) return
      if (random.chance(0.1)) await this.#renew()
      if (this.#plan.upgradeWaitMs !== null && random.chance(0.3)) await this.#changeMode()
      if (this.#plan.isDelegating) await this.#delegate()
    }
  }

  async letGo(): Promise<void> {
    const { random } = this.#parts
    const { autoRenew, receivers } = this.#plan
    // A lease that renews itself and is not released would keep its resource for the rest of the day.
    const keep = autoRenew ? 0 : 5
    const transfer = receivers.length > 0 ? 6 : 0
    const how = random.weighted({ release: 10, twice: 1, dispose: 2, abandon: 1, keep, transfer })
    if (how === 'transfer') {
      return this.transfer(random.chance(0.6) ? random.pick(receivers) : 'next')
    }
    if (how === 'abandon') {
      this.#lease.abandon()
      this.noteLetGo()
    } else if (how !== 'keep') await this.release(how)
    await this.#watchAfterEnd()
  }

  noteLetGo(): void {
    const { process, who } = this.#parts.incarnation
    process.log.write({ kind: 'let_go', ...who, leaseId: this.#lease.id })
  }

  /** One look, and a write if the lease allows it; false once it is over. */
  step(): boolean {
    const { incarnation, downstream, random } = this.#parts
    const { id: leaseId, fence, mode } = this.#lease
    const { state } = this.#look('look')
    if (state !== 'held' && state !== 'uncertain') return false
    // What is written under a derived lease carries the fence of its root; the root's own writes show that.
    if (this.#lease.info.delegation?.line.length) return true
    const resource = random.pick(writable(this.#lease))
    downstream.send(incarnation, { leaseId, resource, mode, fence })
    return true
  }

  async release(how: 'release' | 'twice' | 'dispose'): Promise<void> {
    const { calls, incarnation } = this.#parts
    const facts = { ...this.#about, operation: 'release', boundMs: INSIST_BOUND_MS } as const
    this.noteLetGo()
    const send = (): Promise<void> =>
      how === 'dispose' ? this.#lease[Symbol.asyncDispose]() : this.#lease.release()
    await calls.make(incarnation, facts, send)
    if (how === 'twice') await calls.make(incarnation, facts, send)
  }

  get #about(): { readonly leaseId: string; readonly resource: string } {
    return { leaseId: this.#lease.id, resource: this.#lease.resource }
  }

  async #renew(): Promise<void> {
    const { calls, incarnation, random } = this.#parts
    const { ttlMs } = this.#plan
    const options = random.chance(0.5) ? {} : { ttlMs: ttlMs * random.between(1, 2) }
    const boundMs = HANG_MS_MAX + 4 * ttlMs + 1_000
    const facts = { ...this.#about, operation: 'renew', boundMs } as const
    await calls.make(incarnation, facts, () => this.#lease.renew(options))
  }

  /** Alone if it was shared, shared if it was alone. */
  async #changeMode(): Promise<void> {
    const { calls, incarnation, random } = this.#parts
    if (this.#lease.mode === 'exclusive') {
      const boundMs = INSIST_BOUND_MS + UNDO_MS
      const facts = { ...this.#about, operation: 'downgrade', boundMs } as const
      await calls.make(incarnation, facts, () => {
        const call = this.#lease.downgrade()
        this.#look('look')
        return call
      })
    } else {
      const waitMs = random.magnitude(1, this.#plan.upgradeWaitMs ?? 1)
      const boundMs = Math.max(FIRST_ANSWER_MS, waitMs) + UNDO_MS
      const facts = { ...this.#about, operation: 'upgrade', boundMs } as const
      await calls.make(incarnation, facts, () => this.#lease.upgrade({ waitMs }))
    }
    this.#look('look')
  }

  /** A holder stops using the lease before it asks for the transfer, and does not use it again whatever the answer. */
  async transfer(to: string): Promise<void> {
    const { calls, incarnation, mailbox } = this.#parts
    const facts = { ...this.#about, operation: 'transfer', boundMs: INSIST_BOUND_MS } as const
    this.noteLetGo()
    const given = await calls.make(incarnation, facts, async () => {
      return { leaseId: await this.#lease.transfer(to) }
    })
    if (given === null) return this.release('dispose')
    if (given.leaseId !== null) mailbox.put(to, given.leaseId)
  }

  /** Derives from its lease, uses some of that, and gives it back or leaves it to end with its parent. */
  async #delegate(): Promise<void> {
    const { calls, incarnation } = this.#parts
    const random = this.#parts.random.fork(`delegate ${this.#lease.id}`)
    const facts = { ...this.#about, operation: 'derive', boundMs: INSIST_BOUND_MS } as const
    const derivationOptions = derivation(random, this.#lease)
    const derive = (): Promise<Lease> => this.#lease.derive(derivationOptions)
    const child = await calls.make(incarnation, facts, derive, () => 'granted')
    if (child === null) return
    const { ttlMs } = child.info
    const { autoRenew } = derivationOptions
    const plan = { ttlMs, autoRenew, upgradeWaitMs: null, receivers: [], isDelegating: true }
    const holder = new Holder({ ...this.#parts, random }, child, plan)
    await holder.#useUp(random)
  }

  async #useUp(random: Random): Promise<void> {
    for (let rounds = random.between(1, 3); rounds > 0; rounds -= 1) {
      await this.#parts.incarnation.sleep(random.magnitude(1, this.#plan.ttlMs))
      if (!this.step()) return
      await this.#spend(random)
      if (random.chance(0.3)) await this.#renew()
      if (random.chance(0.2)) await this.#delegate()
    }
    const how = random.weighted({ release: 6, abandon: 2, keep: 2 })
    if (how === 'release') return this.release('release')
    if (how === 'keep') return
    this.#lease.abandon()
    this.noteLetGo()
  }

  async #spend(random: Random): Promise<void> {
    const { calls, incarnation } = this.#parts
    const facts = { ...this.#about, operation: 'spend', boundMs: INSIST_BOUND_MS } as const
    const amounts = { tokens: random.between(1, 4) }
    await calls.make(incarnation, facts, () => this.#lease.spend(amounts))
  }

  async #watchAfterEnd(): Promise<void> {
    const { incarnation, random } = this.#parts
    for (let looks = random.between(0, 2); looks > 0; looks -= 1) {
      await incarnation.sleep(random.magnitude(1, this.#plan.ttlMs))
      this.#look('look')
    }
  }

  #observe(): void {
    const lease = this.#lease
    const { process, who } = this.#parts.incarnation
    const { signal, id: leaseId } = lease
    this.#look('granted')
    signal.addEventListener('abort', () => {
      const error = isLeaseError(signal.reason) ? signal.reason : null
      const code = error?.code ?? null
      process.log.count(`signal: ${code ?? 'foreign_error'}`)
      process.log.write({ kind: 'signal', ...who, leaseId, code, reason: error?.details['reason'] })
    })
    for (const name of ['renewed', 'uncertain', 'recovered', 'revoking'] as const) {
      lease.on(name, () => {
        process.log.count(`handle: ${name}`)
        this.#look(name)
      })
    }
    process.onRateChange(() => this.#look('rate'))
  }

  #look(why: Believed['why']): Believed {
    const { process, who } = this.#parts.incarnation
    const {
      id: leaseId,
      holder,
      fence,
      remainingMs,
      state,
      renewals,
      extent,
      mode,
      info,
    } = this.#lease
    const resource = parseResource(this.#lease.resource)
    const deadlineUs = process.world.nowUs + process.clock.trueUs(remainingMs)
    const facts = { leaseId, resource, extent, mode, holder, fence, state, renewals }
    const told = { slots: info.slots, isAsked: info.revoking !== null }
    const look = { kind: 'believed', ...who, why, ...facts, ...told, deadlineUs } as const
    process.log.write(look)
    return look
  }
}

/** What a lease allows to write to: its resource, and something below if it covers that. */
function writable({ resource, extent }: Lease): readonly string[] {
  return extent === 'exact'
    ? [resource]
    : [resource, `${resource}/src/app.ts`, `${resource}/app.ts`]
}

/** Some part of a lease, mostly less than it has. */
function derivation(
  random: Random,
  { holder, resource, extent, info }: Lease,
): DeriveOptions & { readonly autoRenew: boolean } {
  const parts = extent === 'exact' ? [{}] : [{}, ...partsOf(resource)]
  return {
    ...{ holder, ...random.pick(parts), autoRenew: random.chance(0.5) },
    ...(random.chance(0.5) ? { ttlMs: random.magnitude(1, info.ttlMs) } : {}),
    budget: random.pick([{ tokens: 2 }, { tokens: 8 }, {}]),
    scope: { tools: [random.pick(['edit', 'run', 'edit', 'fly'])] },
  }
}

function partsOf(resource: string): readonly Pick<DeriveOptions, 'resource' | 'extent'>[] {
  return [
    { resource: `${resource}/src`, extent: 'subtree' },
    { resource: `${resource}/src/app.ts` },
    { resource: `${resource}/app.ts` },
  ]
}
