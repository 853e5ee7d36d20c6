/**
 * What a process does with a lease that it was given: it works in small steps, looks at the lease before each of them,
 * writes only while the lease says that it may, and lets go of it in one of the ways that a program can. It keeps
 * looking for a while after the end, because that is when a defective handle would come back to life.
 */
import { isLeaseError } from '../src/core/errors.ts'
import type { Lease } from '../src/client/contract.ts'
import type { Calls } from './calls.ts'
import type { FencedResources } from './fenced-resource.ts'
import type { Believed } from './log.ts'
import type { Random } from './random.ts'
import type { Incarnation } from './sim-process.ts'
import { HANG_MS_MAX } from './weather.ts'

export interface HolderParts {
  readonly incarnation: Incarnation
  readonly calls: Calls
  readonly random: Random
  readonly downstream: FencedResources
}

export interface HoldingPlan {
  readonly ttlMs: number
  readonly autoRenew: boolean
}

/** Releasing insists for ten seconds; the rest is for the store's own answer. */
const RELEASE_BOUND_MS = 10_500

export class Holder {
  readonly #parts: HolderParts
  readonly #lease: Lease
  readonly #ttlMs: number
  readonly #autoRenew: boolean

  constructor(parts: HolderParts, lease: Lease, { ttlMs, autoRenew }: HoldingPlan) {
    this.#parts = parts
    this.#lease = lease
    this.#ttlMs = ttlMs
    this.#autoRenew = autoRenew
    this.#observe()
  }

  /** Works for some multiple of the TTL, or until the lease is over. */
  async work(): Promise<void> {
    const { random, incarnation } = this.#parts
    const spanMs = random.magnitude(2, 3 * this.#ttlMs)
    const untilMs = incarnation.runtime.monotonicMs() + spanMs
    while (incarnation.runtime.monotonicMs() < untilMs) {
      await incarnation.sleep(random.between(1, Math.max(2, Math.round(spanMs / 3))))
      if (!this.#step()) return
      if (random.chance(0.1)) await this.#renew()
    }
  }

  async letGo(): Promise<void> {
    const { random } = this.#parts
    // A lease that renews itself and that nobody lets go of would keep its resource for the rest of the day.
    const keep = this.#autoRenew ? 0 : 5
    const how = random.weighted({ release: 10, twice: 1, dispose: 2, abandon: 1, keep })
    if (how === 'abandon') {
      this.#lease.abandon()
      this.noteLetGo()
    } else if (how !== 'keep') await this.#release(how)
    await this.#watchAfterEnd()
  }

  noteLetGo(): void {
    const { process, who } = this.#parts.incarnation
    process.log.write({ kind: 'let_go', ...who, leaseId: this.#lease.id })
  }

  /** One look, and a write if the lease allows it; false once it is over. */
  #step(): boolean {
    const { incarnation, downstream } = this.#parts
    const { id: leaseId, resource, fence } = this.#lease
    const { state } = this.#look('look')
    if (state !== 'held' && state !== 'uncertain') return false
    downstream.send(incarnation, { leaseId, resource, fence })
    return true
  }

  async #renew(): Promise<void> {
    const { calls, incarnation, random } = this.#parts
    const { id: leaseId, resource } = this.#lease
    const options = random.chance(0.5) ? {} : { ttlMs: this.#ttlMs * random.between(1, 2) }
    const boundMs = HANG_MS_MAX + 4 * this.#ttlMs + 1_000
    const facts = { operation: 'renew', resource, leaseId, boundMs } as const
    await calls.make(incarnation, facts, () => this.#lease.renew(options))
  }

  async #release(how: 'release' | 'twice' | 'dispose'): Promise<void> {
    const { calls, incarnation } = this.#parts
    const { id: leaseId, resource } = this.#lease
    const facts = { operation: 'release', resource, leaseId, boundMs: RELEASE_BOUND_MS } as const
    this.noteLetGo()
    const send = (): Promise<void> =>
      how === 'dispose' ? this.#lease[Symbol.asyncDispose]() : this.#lease.release()
    await calls.make(incarnation, facts, send)
    if (how === 'twice') await calls.make(incarnation, facts, send)
  }

  async #watchAfterEnd(): Promise<void> {
    const { incarnation, random } = this.#parts
    for (let looks = random.between(0, 2); looks > 0; looks -= 1) {
      await incarnation.sleep(random.magnitude(1, this.#ttlMs))
      this.#look('look')
    }
  }

  #observe(): void {
    const lease = this.#lease
    const { process, who } = this.#parts.incarnation
    const { signal, id: leaseId } = lease
    this.#look('granted')
    signal.addEventListener('abort', () => {
      const code = isLeaseError(signal.reason) ? signal.reason.code : null
      process.log.count(`signal: ${code ?? 'foreign_error'}`)
      process.log.write({ kind: 'signal', ...who, leaseId, code })
    })
    for (const name of ['renewed', 'uncertain', 'recovered'] as const) {
      lease.on(name, () => {
        process.log.count(`handle: ${name}`)
        this.#look(name)
      })
    }
    process.onRateChange(() => this.#look('rate'))
  }

  #look(why: Believed['why']): Believed {
    const { process, who } = this.#parts.incarnation
    const { id: leaseId, resource, holder, fence, remainingMs, state, renewals } = this.#lease
    const deadlineUs = process.world.nowUs + process.clock.trueUs(remainingMs)
    const facts = { leaseId, resource, holder, fence, state, renewals }
    const look = { kind: 'believed', ...who, why, ...facts, deadlineUs } as const
    process.log.write(look)
    return look
  }
}
