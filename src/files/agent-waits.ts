/**
 * Acquires in the name of many agents over one `LeaseApi`. The waiting itself is the client's (`client/waiting.ts`);
 * here is only what a client with one holder has once and this has for each agent: its session, under which wake-ups
 * arrive. An agent is listened for while it waits and no longer.
 */
import { BackgroundWork } from '../client/background-work.ts'
import { HolderClock } from '../client/holder-clock.ts'
import { RenewalScheduler } from '../client/renewal-scheduler.ts'
import { leasesOf, Standstill } from '../client/request-under.ts'
import type { LeaseTarget } from '../client/lease-requests.ts'
import { pendingUpgrade } from '../client/lease-mode.ts'
import { PendingAcquire, type PendingRequest } from '../client/pending-request.ts'
import { Wait } from '../client/waiting.ts'
import { WakeRouter } from '../client/wake-router.ts'
import { closedError, LeaseError } from '../core/errors.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import type { Held } from '../core/outcome.ts'
import type { Mode } from '../core/resource.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { AcquireRequest, LeaseApi } from '../service/lease-api.ts'

/** A store that does not answer must not keep `close` from ending. */
const CLOSE_WITHIN_MS = 10_000

const CLOSED = 'the file leases were closed'

/** What is there of an agent while it waits. */
interface WaitingAgent {
  readonly router: WakeRouter
  readonly standstill: Standstill
}

export interface ObtainedLease {
  readonly kind: 'granted'
  readonly lease: LeaseInfo
}

export interface AgentUpgrade {
  readonly target: LeaseTarget
  /** As the lease was when the agent asked: one that was exclusive already stays so, whatever becomes of the request. */
  readonly mode: Mode
  /** Of the lease: wake-ups of an upgrade arrive there. */
  readonly session: string
  readonly waitMs: number | 'configured'
}

type WantedLease = Pick<AcquireRequest, 'id' | 'holder' | 'session' | 'claimWindowMs'> & {
  readonly request: PendingRequest
}

export class AgentWaits {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #clock: HolderClock
  readonly #scheduler: RenewalScheduler
  readonly #agents = new Map<string, WaitingAgent>()
  readonly #background = new BackgroundWork()
  readonly #looks: RepeatedFault
  #closed = false

  constructor(api: LeaseApi, runtime: Runtime) {
    this.#api = api
    this.#runtime = runtime
    this.#clock = new HolderClock(runtime)
    this.#looks = new RepeatedFault('client/look', runtime)
    this.#scheduler = new RenewalScheduler({ runtime, clock: this.#clock, keepAlive: true })
  }

  /** Throws for every refusal but `held`. */
  acquire(request: AcquireRequest, signal?: AbortSignal): Promise<ObtainedLease | Held> {
    return this.#wait({ ...request, request: new PendingAcquire(this.#api, request) }, signal)
  }

  /** Upgrades a shared lease of the agent, once the others have left. An agent that gives up shares it as before. */
  async upgrade(asked: AgentUpgrade, signal?: AbortSignal): Promise<ObtainedLease | Held> {
    const { target, mode, session, waitMs } = asked
    const { holder, id: leaseId } = target
    if (this.#agents.get(session)?.router.waits.get(leaseId) !== undefined) {
      const message = `lease ${leaseId} is being upgraded already`
      throw new LeaseError('INVALID_STATE', message, { details: { leaseId } })
    }
    const request = pendingUpgrade({
      ...{ api: this.#api, target, waitMs, under: null, sequential: true },
      onRefused: () => undefined,
      undo: async () => {
        if (mode === 'shared') await this.#takeBack(target)
      },
    })
    return this.#wait({ id: leaseId, holder, session, request }, signal)
  }

  /** The upgrade may have been completed by the time that its waiter gives up. */
  async #takeBack(target: LeaseTarget): Promise<void> {
    const answer = await this.#api.withdrawUpgrade(target)
    if (answer.kind === 'upgraded') await this.#api.downgrade(target)
  }

  async #wait(wanted: WantedLease, signal?: AbortSignal): Promise<ObtainedLease | Held> {
    if (this.#closed) throw closedError(CLOSED)
    const { id, session, request } = wanted
    const agent = this.#agentOf(wanted)
    agent.standstill.called()
    const { router } = agent
    const wait = this.#waitFor(request, agent)
    router.waits.set(id, wait)
    this.#background.begin()
    try {
      const outcome = await wait.run(signal)
      if (outcome.kind === 'held') return outcome
      const [grant] = outcome.grants
      if (grant === undefined) throw new Error(`${request.subject} was granted without a lease`)
      return { kind: 'granted', lease: grant.lease }
    } finally {
      this.#background.end()
      router.waits.delete(id)
      if (router.waits.size === 0) this.#silence(session, agent)
    }
  }

  /** The agent has made a call, so it does not stand still. */
  called(session: string): void {
    this.#agents.get(session)?.standstill.called()
  }

  /** Ends every wait with `CLOSED` and takes it out of the queue. */
  async close(): Promise<void> {
    this.#closed = true
    for (const { router } of this.#agents.values()) {
      for (const wait of router.waits.values()) wait.cancel(closedError(CLOSED))
    }
    await endsWithin(this.#runtime, CLOSE_WITHIN_MS, this.#background.ends())
    this.#scheduler.close()
  }

  #waitFor(request: PendingRequest, { router, standstill }: WaitingAgent): Wait {
    const context = {
      runtime: this.#runtime,
      clock: this.#clock,
      scheduler: this.#scheduler,
      standstill,
      looks: this.#looks,
      background: this.#background.add,
      // An agent does one thing after another, and may have several processes.
      own: null,
      onQueued: () => router.listen(),
    }
    return new Wait(context, request)
  }

  #agentOf({ holder, session, claimWindowMs }: WantedLease): WaitingAgent {
    const known = this.#agents.get(session)
    if (known !== undefined) return known
    const runtime = this.#runtime
    const parts = { api: this.#api, runtime, clock: this.#clock }
    const leases = (): Promise<readonly LeaseId[]> => leasesOf(this.#api, { holder, session })
    const agent = {
      router: new WakeRouter({
        ...{ ...parts, background: this.#background.add, holder, session },
        looks: this.#looks,
      }),
      standstill: new Standstill({ runtime, claimWindowMs: claimWindowMs ?? null, leases }),
    }
    this.#agents.set(session, agent)
    return agent
  }

  #silence(session: string, agent: WaitingAgent): void {
    agent.router.close()
    if (this.#agents.get(session) === agent) this.#agents.delete(session)
  }
}
