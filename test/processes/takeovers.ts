/**
 * Several orchestrators over one workflow. Whoever holds it is killed, stopped past its TTL, or has its lease revoked by
 * an operator while it is stopped, in turns, and the next takes over. Processors see all that is sent: two with guards
 * that share their marks and take turns, of which one alone is told of revocations, and one that believes everything, so
 * that the run is known to have been dangerous.
 */
import { fork, type ChildProcess } from 'node:child_process'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ErrorCode } from '../../src/core/errors.ts'
import { isLeaseError, openTenure, type Position, type Tenure } from '../../src/index.ts'
import {
  ActionGuard,
  currentLease,
  MemoryMarks,
  parseAction,
  relayRevocations,
  type Action,
  type Bus,
} from '../../src/workflow/index.ts'

export const WORKFLOW = 'order-991'
export const TTL_MS = 300
/** Emissions that a crash can leave unsent. */
export const IN_FLIGHT = 5
/** How long one that is stopped may keep the others from taking over. */
const STOPPED_MS_MAX = 3_000
const WORKER = path.resolve(
  import.meta.dirname,
  '../../dist-dev/test/processes/orchestrator-worker.js',
)

export type WorkerMessage =
  | { readonly kind: 'claimed'; readonly fence: number; readonly leaseId: string }
  /** It has looked at its lease, is about to send, and stops before it does. */
  | { readonly kind: 'in_hand' }
  | { readonly kind: 'action'; readonly text: string }

/** To stop as soon as something is in hand; or not to, after all. */
export type WorkerOrder = 'stop' | 'go_on'

export interface Applied {
  readonly fence: number
  readonly epoch: number
  readonly actionId: string
}

/** A revocation that a guard was told of. */
export interface Heard {
  readonly fence: number
  /** What had been carried out by then, under whatever lease. */
  readonly appliedBefore: number
}

export interface TakeoverReport {
  /** What the guarded processors carried out, in order. */
  readonly applied: readonly Applied[]
  /** What the other one did. */
  readonly unfenced: readonly Applied[]
  /** How often each refusal came. */
  readonly refusals: ReadonlyMap<ErrorCode, number>
  /** What arrived of orchestrators that had been stopped, after they went on under a lease that was over. */
  readonly late: readonly Action[]
  /** The fences of all who have held the workflow, whether or not they came to act. */
  readonly claims: readonly number[]
  readonly kills: number
  readonly stops: number
  readonly revocations: number
  /** The revocations that one of the guards was told of, in order. */
  readonly heard: readonly Heard[]
  /** What arrived under a lease whose revocation one of the guards had been told of. */
  readonly lateRevoked: readonly Action[]
  /** How much of that arrived before anything of a later lease: nothing but the revocation could refuse it. */
  readonly onlyRevoked: number
  readonly crashes: readonly string[]
}

export interface TakeoverOptions {
  readonly store: string
  readonly processes: number
  readonly takeovers: number
}

export async function runTakeovers(options: TakeoverOptions): Promise<TakeoverReport> {
  const tenure = await openTenure(options.store, { holder: 'processor' })
  const run = new Takeovers(options, tenure)
  try {
    await run.run()
    return run.report()
  } finally {
    await run.end()
    await tenure.close()
  }
}

interface Worker {
  readonly process: ChildProcess
  /** With something in hand, which it sends when it goes on. */
  stopped: boolean
  /** It went on, and what it had in hand has not arrived yet. */
  sending: boolean
  killed: boolean
}

interface Holder {
  readonly worker: Worker
  readonly fence: number
  readonly leaseId: string
}

function isSending({ sending, killed }: Worker): boolean {
  return sending && !killed
}

class Takeovers {
  readonly #options: TakeoverOptions
  readonly #tenure: Tenure
  /** Only the first is told of revocations. */
  readonly #guards: readonly [ActionGuard, ActionGuard]
  readonly #ending = new AbortController()
  readonly #workers: Worker[] = []
  readonly #applied: Applied[] = []
  readonly #unfenced: Applied[] = []
  readonly #late: Action[] = []
  readonly #claims: number[] = []
  readonly #refusals = new Map<ErrorCode, number>()
  readonly #crashes: string[] = []
  readonly #heard: Heard[] = []
  readonly #lateRevoked: Action[] = []
  #turn: Promise<void> = Promise.resolve()
  #relay: Promise<void> = Promise.resolve()
  #holder: Holder | null = null
  /** Was told to stop as soon as it has something in hand. */
  #stopping: Worker | null = null
  /** Whether the lease of the one that stops is to be revoked then. */
  #isRevoking = false
  #kills = 0
  #stops = 0
  #revocations = 0
  #onlyRevoked = 0

  constructor(options: TakeoverOptions, tenure: Tenure) {
    this.#options = options
    this.#tenure = tenure
    const shared = { strict: true, lookUp: currentLease(tenure), marks: new MemoryMarks() }
    this.#guards = [new ActionGuard(shared), new ActionGuard(shared)]
  }

  get #takeovers(): number {
    return this.#kills + this.#stops + this.#revocations
  }

  async run(): Promise<void> {
    const bus: Bus = {
      publish: async () => undefined,
      announce: async (revocation) => {
        await this.#guards[0].revoke(revocation)
        this.#heard.push({ fence: revocation.fence, appliedBefore: this.#applied.length })
      },
      subscribe: () => Promise.reject(new Error('nobody listens here')),
    }
    this.#relay = this.#relayOn(bus)
    for (let index = 0; index < this.#options.processes; index += 1) this.#start()
    // Until the next one acts: the guard knows it, and whoever was before it is late.
    let fence = await this.#nextToAct(0)
    // Whoever lost its lease before it could be stopped does not count.
    while (!this.#isEnough) {
      await sleep(Math.random() * 40)
      // One that was told to stop may have done so only now, after the next one had acted.
      if (this.#isEnough) break
      this.#resume()
      this.#disturb()
      fence = await this.#nextToAct(fence)
    }
    // What those who were stopped still have in hand must arrive, and be judged, before the count.
    do {
      this.#resume()
      await sleep(5)
    } while (this.#crashes.length === 0 && (this.#isUnheard() || this.#workers.some(isSending)))
    let judged: Promise<void>
    do {
      judged = this.#turn
      await judged
    } while (judged !== this.#turn)
  }

  /** A store that is busy is asked again, from where it was heard of last. */
  async #relayOn(bus: Bus): Promise<void> {
    const { signal } = this.#ending
    let after: { readonly after?: Position } = {}
    while (!signal.aborted) {
      try {
        const onRelayed = (position: Position): void => void (after = { after: position })
        await relayRevocations(this.#tenure, bus, { ...after, signal, onRelayed })
      } catch (error) {
        if (!isLeaseError(error) || !error.retryable) this.#crashes.push(String(error))
      }
    }
  }

  /** An operator has revoked what no guard was told of yet. */
  #isUnheard(): boolean {
    return this.#heard.length < this.#revocations
  }

  get #isEnough(): boolean {
    return this.#takeovers >= this.#options.takeovers
  }

  async end(): Promise<void> {
    this.#ending.abort()
    await this.#relay
    const alive = this.#workers.filter(({ process }) => process.exitCode === null)
    await Promise.all(
      alive.map(async (worker) => {
        worker.killed = true
        const ended = new Promise((resolve) => worker.process.once('exit', resolve))
        worker.process.kill('SIGKILL')
        if (worker.process.signalCode === null) await ended
      }),
    )
  }

  report(): TakeoverReport {
    // As it is now: orchestrators go on until they are ended.
    return {
      applied: [...this.#applied],
      unfenced: [...this.#unfenced],
      refusals: new Map(this.#refusals),
      late: [...this.#late],
      claims: [...this.#claims],
      kills: this.#kills,
      stops: this.#stops,
      revocations: this.#revocations,
      heard: [...this.#heard],
      lateRevoked: [...this.#lateRevoked],
      onlyRevoked: this.#onlyRevoked,
      crashes: this.#crashes,
    }
  }

  async #nextToAct(fence: number): Promise<number> {
    const sinceMs = performance.now()
    for (;;) {
      // One that was stopped inside a transaction of SQLite keeps everybody out until it goes on.
      if (performance.now() - sinceMs > STOPPED_MS_MAX) this.#resume()
      const last = this.#applied.at(-1)
      if (last !== undefined && last.fence > fence && this.#holder?.fence === last.fence) {
        return last.fence
      }
      if (this.#crashes.length > 0) throw new Error(this.#crashes.join('\n'))
      await sleep(5)
    }
  }

  #disturb(): void {
    const worker = this.#holder?.worker
    if (worker === undefined) return
    if (this.#kills <= Math.min(this.#stops, this.#revocations)) {
      this.#kills += 1
      worker.killed = true
      worker.process.kill('SIGKILL')
      this.#start()
    } else {
      this.#stopping = worker
      this.#isRevoking = this.#revocations < this.#stops
      worker.process.send('stop' satisfies WorkerOrder)
    }
  }

  #noteStop(worker: Worker): void {
    worker.stopped = true
    if (this.#stopping !== worker) return
    this.#stopping = null
    if (this.#isRevoking && this.#holder?.worker === worker) void this.#revoke(this.#holder)
    else this.#stops += 1
  }

  /** While it has something in hand, which it sends as soon as a guard has heard: the next may not have acted yet. */
  async #revoke({ worker, fence, leaseId }: Holder): Promise<void> {
    try {
      await this.#tenure.revoke(leaseId, { reason: 'by an operator' })
      this.#revocations += 1
      while (!this.#hasHeard(fence) && this.#crashes.length === 0) await sleep(1)
      this.#goOn(worker)
    } catch (error) {
      if (!isLeaseError(error)) this.#crashes.push(String(error))
      // It ran out meanwhile, or the store was busy: one that was stopped, and no more.
      this.#stops += 1
    }
  }

  /**
   * Whoever lost its lease before it could be stopped is let go. It says that it stops before it does: a signal that
   * came too early is sent again.
   */
  #resume(): void {
    this.#stopping?.process.send('go_on' satisfies WorkerOrder)
    this.#stopping = null
    for (const worker of this.#workers.filter((one) => one.stopped || isSending(one))) {
      this.#goOn(worker)
    }
  }

  #goOn(worker: Worker): void {
    worker.stopped = false
    worker.sending = true
    worker.process.kill('SIGCONT')
  }

  #hasHeard(fence: number): boolean {
    return this.#heard.some((heard) => heard.fence === fence)
  }

  #start(): void {
    const args = [this.#options.store, `orchestrator-${this.#workers.length}`]
    const child = fork(WORKER, args, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
    const worker: Worker = { process: child, stopped: false, sending: false, killed: false }
    this.#workers.push(worker)
    let stderr = ''
    child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    child.on('message', (message) => this.#hear(worker, message as WorkerMessage))
    child.on('exit', (code) => {
      if (!worker.killed) this.#crashes.push(`an orchestrator ended with ${code}: ${stderr}`)
    })
  }

  #hear(worker: Worker, message: WorkerMessage): void {
    if (message.kind === 'claimed') {
      this.#claims.push(message.fence)
      // One that was stopped before it could say so says so late.
      if (message.fence > (this.#holder?.fence ?? 0)) {
        const { fence, leaseId } = message
        this.#holder = { worker, fence, leaseId }
      }
      return
    }
    if (message.kind === 'in_hand') return this.#noteStop(worker)
    worker.sending = false
    // Sent by an orchestrator of ours, which names its workflow and its fence.
    const action = parseAction(message.text) as Action
    const { fence, epoch, actionId } = action
    this.#unfenced.push({ fence, epoch, actionId })
    const known = this.#applied.at(-1)
    if (known !== undefined && fence < known.fence) this.#late.push(action)
    if (this.#hasHeard(fence)) {
      this.#lateRevoked.push(action)
      if (known === undefined || known.fence <= fence) this.#onlyRevoked += 1
    }
    this.#turn = this.#turn.then(() => this.#process(action))
  }

  async #process(action: Action): Promise<void> {
    const { fence, epoch, actionId } = action
    // One of them for all of a lease, as on a bus where one at a time has the turn.
    const guard = this.#guards[this.#claims.indexOf(fence) % 2 === 0 ? 0 : 1]
    try {
      await guard.process(action, () => this.#applied.push({ fence, epoch, actionId }))
    } catch (error) {
      if (!isLeaseError(error)) throw error
      // As any bus: what could not be judged, because the store did not answer, is delivered again.
      if (error.code.startsWith('STORE_')) return this.#process(action)
      this.#refusals.set(error.code, (this.#refusals.get(error.code) ?? 0) + 1)
    }
  }
}
