/**
 * The way between one process and the host of the store: delay both ways, requests and answers that get lost, requests
 * that arrive twice or after their sender gave up, and wake-ups that are late or never come.
 *
 * It keeps the contract of the port to the letter and to its limit: `STORE_UNAVAILABLE` and `STORE_CONFLICT` only
 * when nothing was or will be committed, `STORE_OUTCOME_UNKNOWN` when it was, was not, or still will be.
 */
import { isLeaseError, LeaseError, type ErrorCode } from '../src/core/errors.ts'
import type { Random } from './random.ts'
import type { Incarnation } from './sim-process.ts'
import type { StoreHost } from './store-host.ts'
import { HANG_MS_MAX, type RequestFate, type FaultProfile } from './fault-profile.ts'

export interface NetworkOptions {
  readonly host: StoreHost
  readonly incarnation: Incarnation
  readonly random: Random
  /** Read at every message, because the profile changes. */
  readonly faultProfile: () => FaultProfile
}

/** What happens at the host; `isEcho` when no caller waits for its answer, or the caller has one already. */
type Call<Answer> = (isEcho: boolean) => Promise<Answer>

interface Request<Answer> {
  readonly call: Call<Answer>
  /** What it is about. */
  readonly leaseIds: readonly string[]
}

interface Settling<Answer> {
  readonly resolve: (answer: Answer) => void
  readonly reject: (reason: unknown) => void
}

export class Network {
  readonly #host: StoreHost
  readonly #incarnation: Incarnation
  readonly #random: Random
  readonly #faultProfile: () => FaultProfile
  #closed = false

  constructor({ host, incarnation, random, faultProfile }: NetworkOptions) {
    this.#host = host
    this.#incarnation = incarnation
    this.#random = random
    this.#faultProfile = faultProfile
  }

  /** Ends this process's connection; the host keeps running. */
  close(): void {
    this.#closed = true
  }

  /** `leaseIds`: what a request that may change something is about; null for a read, whose effect is never unknown. */
  send<Answer>(call: Call<Answer>, leaseIds: readonly string[] | null): Promise<Answer> {
    if (this.#closed) return Promise.reject(new LeaseError('CLOSED', 'the store was closed'))
    return new Promise((resolve, reject) => {
      const { log, name } = this.#incarnation.process
      const fate = this.#fateOf(leaseIds !== null)
      const request = { call, leaseIds: leaseIds ?? [] }
      if (fate !== 'fine') log.fault(fate, name, request.leaseIds)
      this.#carryOut(fate, request, { resolve, reject })
    })
  }

  /** A read has no effect that could become unknown, and is not worth repeating. */
  #fateOf(hasEffect: boolean): RequestFate {
    if (this.#host.isAway) return this.#fateOfOutage(hasEffect)
    const fate = this.#random.weighted(this.#faultProfile().requests)
    if (hasEffect || fate === 'fine') return fate
    return fate === 'slow_request' || fate === 'slow_answer' ? fate : 'request_lost'
  }

  /** Nothing arrives, but for a few requests at which the way back alone is cut. */
  #fateOfOutage(hasEffect: boolean): RequestFate {
    if (!hasEffect) return 'request_lost'
    return this.#random.weighted({ request_lost: 6, outcome_unknown: 2, answer_lost: 2 })
  }

  #carryOut<Answer>(fate: RequestFate, request: Request<Answer>, settling: Settling<Answer>): void {
    switch (fate) {
      case 'fine':
        return this.#deliver(request, settling, {
          thereUs: this.#delayUs(),
          backUs: this.#delayUs(),
        })
      case 'slow_request':
        return this.#deliver(request, settling, {
          thereUs: this.#slowUs(),
          backUs: this.#delayUs(),
        })
      case 'slow_answer':
        return this.#deliver(request, settling, {
          thereUs: this.#delayUs(),
          backUs: this.#slowUs(),
        })
      case 'request_lost':
        return this.#fail(settling, 'STORE_UNAVAILABLE', this.#delayUs())
      case 'conflict':
        return this.#fail(settling, 'STORE_CONFLICT', this.#delayUs() + this.#delayUs())
      case 'outcome_unknown':
        return this.#fail(settling, 'STORE_OUTCOME_UNKNOWN', this.#slowUs())
      case 'answer_lost':
        this.#deliver(request, null, { thereUs: this.#delayUs(), backUs: 0 })
        return this.#fail(settling, 'STORE_OUTCOME_UNKNOWN', this.#slowUs())
      case 'late_delivery': {
        const gaveUpUs = this.#delayUs()
        this.#fail(settling, 'STORE_OUTCOME_UNKNOWN', gaveUpUs)
        return this.#deliver(request, null, { thereUs: gaveUpUs + this.#slowUs(), backUs: 0 })
      }
      case 'request_repeated':
        return this.#deliverTwice(request, settling)
      case 'call_hangs':
        if (this.#random.chance(0.5))
          this.#deliver(request, null, { thereUs: this.#slowUs(), backUs: 0 })
        return this.#fail(
          settling,
          'STORE_OUTCOME_UNKNOWN',
          this.#random.between(1, HANG_MS_MAX) * 1000,
        )
    }
  }

  /** The answer that arrives is that of the first delivery or of the second; the other one is lost. */
  #deliverTwice<Answer>(request: Request<Answer>, settling: Settling<Answer>): void {
    const thereUs = this.#delayUs()
    const again = { thereUs: thereUs + this.#slowUs(), backUs: this.#delayUs() }
    const first = this.#random.chance(0.7)
    this.#deliver(request, first ? settling : null, { thereUs, backUs: this.#delayUs() })
    this.#deliver(request, first ? null : settling, again)
  }

  #deliver<Answer>(
    request: Request<Answer>,
    settling: Settling<Answer> | null,
    way: { readonly thereUs: number; readonly backUs: number },
  ): void {
    const answered = (settle: () => void): void => this.#incarnation.post(way.backUs, settle)
    const { world, log, name } = this.#incarnation.process
    const arrive = (): void => {
      const pausedUs = this.#host.pausedUntilUs - world.nowUs
      if (pausedUs > 0) {
        log.fault('slow_request', name, request.leaseIds)
        return world.schedule(pausedUs, arrive)
      }
      request.call(settling === null).then(
        (answer) => settling !== null && answered(() => settling.resolve(answer)),
        (reason: unknown) => {
          if (!isLeaseError(reason)) log.write({ kind: 'unhandled', message: String(reason) })
          if (settling !== null) answered(() => settling.reject(reason))
        },
      )
    }
    world.schedule(way.thereUs, arrive)
  }

  #fail<Answer>(settling: Settling<Answer>, code: ErrorCode, delayUs: number): void {
    const error = new LeaseError(code, 'the simulated network is at fault')
    this.#incarnation.post(delayUs, () => settling.reject(error))
  }

  deliverWake(listener: () => void): void {
    const fate = this.#random.weighted(this.#faultProfile().wakes)
    const { process } = this.#incarnation
    if (fate !== 'fine' && this.#incarnation.alive) process.log.fault(fate, process.name)
    if (fate === 'wake_lost') return
    const delayUs = fate === 'wake_delayed' ? this.#slowUs() : this.#delayUs()
    this.#incarnation.post(delayUs, listener)
    if (fate === 'wake_repeated') this.#incarnation.post(delayUs + this.#slowUs(), listener)
  }

  #delayUs(): number {
    const { delayUsMin, delayUsMax } = this.#faultProfile()
    return this.#random.magnitude(delayUsMin, delayUsMax)
  }

  #slowUs(): number {
    return this.#random.magnitude(20, this.#faultProfile().slowMsMax) * 1000
  }
}
