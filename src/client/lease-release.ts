/**
 * The release of one lease, or of several together, sent as often as it takes under one request id for each, so that a
 * lost answer does no harm. Its caller waits for 10 s at most; it goes on for a minute in the background, and after that
 * a lease ends by itself at its deadline.
 */
import { LeaseError } from '../core/errors.ts'
import type { Note } from '../core/input.ts'
import type { LeaseId, LeaseInfo, ReleaseReason } from '../core/lease.ts'
import type { Refusal } from '../core/outcome.ts'
import type { Extent, Resource } from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi, ReleaseAllRequest, ReleaseAnswer } from '../service/lease-api.ts'
import { BACKGROUND_WITHIN_MS, retry, type RetryLimits } from './retry.ts'

const RELEASE_LIMITS = { withinMs: 10_000 }

/** How a handle names its lease to the store. */
export interface LeaseTarget {
  readonly id: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
}

/** Null in place of the lease: an earlier try had released it, and the store keeps no history. */
export type ReleaseResult =
  { readonly kind: 'released'; readonly lease: LeaseInfo | null } | Refusal

export class LeaseRelease {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #target: ReleaseTarget
  /** The holder's last words. */
  note: Note | null = null
  #requestId: string | null = null
  #tries = 0

  constructor(api: LeaseApi, runtime: Runtime, target: ReleaseTarget) {
    this.#api = api
    this.#runtime = runtime
    this.#target = target
  }

  get wasTried(): boolean {
    return this.#tries > 0
  }

  /** `together`: with whatever else is gathered there, in one request. */
  send(releaseReason: ReleaseReason, together?: JointRelease): Promise<ReleaseResult> {
    const request = this.#request(releaseReason)
    const call = together?.gather(request, this.#onTry) ?? this.#sendAlone(request, RELEASE_LIMITS)
    return call.then((answer) => {
      return this.#tries > 1 && isGone(answer) ? { kind: 'released', lease: null } : answer
    })
  }

  /** For a holder that does not wait. A lease that has ended already is as good as one that was released. */
  async sendInBackground(releaseReason: ReleaseReason, stopIf: () => boolean): Promise<void> {
    const limits = { withinMs: BACKGROUND_WITHIN_MS, keepAliveMs: 0, stopIf }
    await this.#sendAlone(this.#request(releaseReason), limits)
  }

  #request(releaseReason: ReleaseReason): SentRelease {
    this.#requestId ??= this.#runtime.uuid()
    const request = { ...this.#target, releaseReason, requestId: this.#requestId }
    return this.note === null ? request : { ...request, note: this.note }
  }

  readonly #onTry = (): void => void (this.#tries += 1)

  #sendAlone(request: SentRelease, limits: Omit<RetryLimits, 'runtime'>): Promise<ReleaseAnswer> {
    return retry({ runtime: this.#runtime, ...limits }, () => {
      this.#onTry()
      return this.#api.release(request)
    })
  }
}

/** With the session of the handle: whoever else releases a lease has its holder woken. */
interface ReleaseTarget extends LeaseTarget {
  readonly session: string
}

interface SentRelease extends ReleaseTarget {
  readonly releaseReason: ReleaseReason
  readonly requestId: string
  readonly note?: Note
}

interface Gathered {
  readonly request: SentRelease
  readonly onTry: () => void
  readonly resolve: (answer: ReleaseAnswer) => void
  readonly reject: (error: unknown) => void
}

/** Gathers releases of one holder's leases, and sends them as one request. */
export class JointRelease {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #gathered: Gathered[] = []

  constructor(api: LeaseApi, runtime: Runtime) {
    this.#api = api
    this.#runtime = runtime
  }

  gather(request: SentRelease, onTry: () => void): Promise<ReleaseAnswer> {
    return new Promise((resolve, reject) => {
      this.#gathered.push({ request, onTry, resolve, reject })
    })
  }

  /** Never throws: whoever was gathered hears what became of it. */
  async send(): Promise<void> {
    const [first] = this.#gathered
    if (first === undefined) return
    const { holder, session, releaseReason } = first.request
    const members = this.#gathered.map(({ request }) => memberOf(request))
    const limits = { runtime: this.#runtime, ...RELEASE_LIMITS }
    try {
      const answers = await retry(limits, async () => {
        for (const { onTry } of this.#gathered) onTry()
        return this.#api.releaseAll({ holder, session, releaseReason, members })
      })
      for (const [index, { request, resolve }] of this.#gathered.entries()) {
        resolve(answers[index] ?? { kind: 'not_found', leaseId: request.id })
      }
    } catch (error) {
      for (const { reject } of this.#gathered) reject(error)
    }
  }
}

/** What of a release is its own, and not common to all that are released together. */
function memberOf(request: SentRelease): ReleaseAllRequest['members'][number] {
  const { holder: _holder, session: _session, releaseReason: _reason, ...member } = request
  return member
}

/** What the caller of a release hears that has not come to an end: it goes on, and nobody knows whether it arrives. */
export function releaseGoesOn(target: LeaseTarget, cause: LeaseError): LeaseError {
  const { id: leaseId, resource } = target
  const message = `lease ${leaseId} of ${resource} is being released in the background: ${cause.message}`
  return new LeaseError('STORE_OUTCOME_UNKNOWN', message, { cause, details: { leaseId, resource } })
}

function isGone(answer: ReleaseAnswer): boolean {
  return answer.kind === 'not_found' || (answer.kind === 'terminal' && answer.state === 'released')
}
