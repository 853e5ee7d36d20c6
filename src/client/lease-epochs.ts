/**
 * The epochs of a workflow as its holder uses them up. One advance after the other, each sent as often as it takes
 * under one request id, so that a lost answer does no harm.
 *
 * When nobody knows what became of an advance, its epochs are never used: the next advance learns from the store how
 * far it has come, and goes on from there. A gap is harmless; an epoch used twice is not.
 */
import { refusalError, type Refusal } from '../core/outcome.ts'
import { readOptions } from '../protocol/library.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { AdvanceAnswer, LeaseApi } from '../service/lease-api.ts'
import type { AdvanceOptions, EpochRange } from './contract.ts'
import { effectOf, retry } from './retry.ts'
import type { LeaseTarget } from './lease-release.ts'

const ADVANCE_WITHIN_MS = 10_000

export interface EpochParts {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly target: LeaseTarget
  readonly onRefused: (refusal: Refusal) => void
}

export class LeaseEpochs {
  readonly #parts: EpochParts
  #next: number | null
  /** Nobody knows what became of the last advance. */
  #doubt = false
  #last: Promise<unknown> = Promise.resolve()

  /** `next` is null for what has no epochs. */
  constructor(parts: EpochParts, next: number | null) {
    this.#parts = parts
    this.#next = next
  }

  get next(): number | null {
    return this.#next
  }

  async advance(options?: AdvanceOptions): Promise<EpochRange> {
    const wish = readOptions('AdvanceOptions', options)
    const turn = this.#last.then(() => this.#advance(wish))
    // Only the order matters here: what became of an advance is told to its own caller.
    this.#last = Promise.allSettled([turn])
    return turn
  }

  async #advance(wish: AdvanceOptions): Promise<EpochRange> {
    let answer = await this.#send(wish)
    if (answer.kind === 'stale_epoch' && this.#doubt) {
      this.#next = answer.epoch
      answer = await this.#send(wish)
    }
    if (answer.kind !== 'advanced') {
      this.#parts.onRefused(answer)
      throw refusalError(answer)
    }
    this.#doubt = false
    this.#next = answer.to
    return { from: answer.from, to: answer.to }
  }

  async #send(wish: AdvanceOptions): Promise<AdvanceAnswer> {
    const { api, runtime, target } = this.#parts
    const request = { ...target, ...wish, from: this.#next ?? 0, requestId: runtime.uuid() }
    try {
      const limits = { runtime, withinMs: ADVANCE_WITHIN_MS }
      return await retry(limits, async () => api.advance(request))
    } catch (error) {
      if (effectOf(error) === 'unknown') this.#doubt = true
      throw error
    }
  }
}
