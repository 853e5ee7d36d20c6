/**
 * Emissions in progress: emissions of the same moment share one commit, which uses one epoch for each, and are then
 * published in the order of their epochs. One commit at a time.
 *
 *  1. The commit uses the epochs in the ledger. If it fails, nothing is published, and these epochs stay unused. Each
 *     commit records the state of the workflow, for the next orchestrator.
 *  2. When the answer has come, the handle checks the clock: if the lease was lost meanwhile, nothing is published.
 *  3. The actions are published. Only after the bus has accepted them does the next action to the same target name them
 *     as previous: an action that was never published must not look like a gap to a processor.
 */
import type { EpochRange, Lease } from '../client/contract.ts'
import { LeaseError } from '../core/errors.ts'
import { EPOCHS_PER_ADVANCE_MAX } from '../core/limits.ts'
import { report } from '../runtime/diagnostics.ts'
import { EVERY_TARGET, type Action } from './action.ts'
import type { Bus } from './bus.ts'
import { stateNote } from './workflow-state.ts'

/** The epoch of an action, and the previous epochs of its target, or of each target. */
export type EpochPlace = Pick<Action, 'epoch' | 'previousEpoch' | 'lastEpochs'>

/** An action without its epoch, or a change of the state. */
export type EmissionDraft =
  | {
      readonly kind: 'action'
      readonly target: string
      readonly build: (place: EpochPlace) => Action
    }
  | { readonly kind: 'state'; readonly state: string }

export interface EmissionQueueOptions {
  readonly lease: Pick<Lease, 'advance' | 'signal'>
  readonly bus: Bus
  /** The state of the workflow at the beginning. */
  readonly state: string
  /** Throws when the lease is not held any more. */
  readonly requireHeld: () => void
}

interface PendingEmission {
  readonly kind: 'emission'
  readonly draft: EmissionDraft
  resolve(emitted: Emitted): void
  reject(error: unknown): void
}

/** Work that runs while no emission is in progress. */
interface ExclusiveWork {
  readonly kind: 'exclusive'
  run(): Promise<void>
}

export interface Emitted {
  readonly epoch: number
  /** Null for a change of state. */
  readonly action: Action | null
}

const WAITING_MAX = 100_000
/** A target is a kind of processor, of which there are few. */
export const TARGETS_MAX = 1_000

export class EmissionQueue {
  readonly #options: EmissionQueueOptions
  readonly #lastSent = new Map<string, number>()
  #state: string
  #waiting: (PendingEmission | ExclusiveWork)[] = []
  #isRunning = false

  constructor(options: EmissionQueueOptions) {
    this.#options = options
    this.#state = options.state
  }

  /** The state in the ledger. */
  get state(): string {
    return this.#state
  }

  /** The last epoch that was sent to each target, and to all of them (`*`). */
  get lastSent(): ReadonlyMap<string, number> {
    return this.#lastSent
  }

  put(draft: EmissionDraft): Promise<Emitted> {
    return new Promise((resolve, reject) => {
      this.#add({ kind: 'emission', draft, resolve, reject })
    })
  }

  /** Runs `work` after all earlier emissions have ended; later ones wait for it. */
  exclusive<Result>(work: () => Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#add({ kind: 'exclusive', run: () => work().then(resolve, reject) })
    })
  }

  #add(one: PendingEmission | ExclusiveWork): void {
    if (this.#waiting.length >= WAITING_MAX) {
      throw limitError('actions may be in progress at once', WAITING_MAX)
    }
    this.#waiting.push(one)
    if (!this.#isRunning) void this.#run()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    // A microtask later, so that emissions of this turn of the event loop share the commit.
    await Promise.resolve()
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (next.kind === 'exclusive') {
        this.#waiting.shift()
        await next.run()
      } else await this.#emit(this.#takeBatch())
    }
    this.#isRunning = false
  }

  #takeBatch(): readonly PendingEmission[] {
    const batch: PendingEmission[] = []
    for (const one of this.#waiting) {
      if (one.kind === 'exclusive' || batch.length === EPOCHS_PER_ADVANCE_MAX) break
      batch.push(one)
    }
    this.#waiting.splice(0, batch.length)
    return batch
  }

  /** Never rejects: the callers of `put` get the error. */
  async #emit(batch: readonly PendingEmission[]): Promise<void> {
    const sent = new Map(this.#lastSent)
    let emitted: readonly Emitted[]
    try {
      emitted = await this.#useEpochs(
        batch.map(({ draft }) => draft),
        sent,
      )
    } catch (error) {
      for (const one of batch) one.reject(error)
      return
    }
    const failure = await this.#publish(emitted, sent)
    for (const [index, one] of batch.entries()) {
      const outcome = emitted[index] as Emitted
      if (failure === null || outcome.action === null) one.resolve(outcome)
      else one.reject(failure.error)
    }
  }

  async #useEpochs(
    drafts: readonly EmissionDraft[],
    sent: Map<string, number>,
  ): Promise<readonly Emitted[]> {
    const { lease, requireHeld } = this.#options
    requireHeld()
    const state = stateAfter(drafts) ?? this.#state
    const range = await lease.advance({ count: drafts.length, reason: stateNote(state) })
    this.#state = state
    return emissionsOf(drafts, range, sent)
  }

  async #publish(
    emitted: readonly Emitted[],
    sent: ReadonlyMap<string, number>,
  ): Promise<{ readonly error: unknown } | null> {
    const actions = emitted.flatMap(({ action }) => (action === null ? [] : [action]))
    if (actions.length === 0) return null
    const { bus, lease } = this.#options
    try {
      await unlessLost(bus.publish(actions), lease.signal)
    } catch (error) {
      return { error }
    }
    for (const [target, epoch] of sent) this.#lastSent.set(target, epoch)
    return null
  }
}

/** Settles as the bus does, or rejects when the lease is lost first. */
function unlessLost(published: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    let isLost = false
    const onLost = (): void => {
      isLost = true
      const message = 'the lease was lost before the bus had answered'
      reject(new LeaseError('STORE_OUTCOME_UNKNOWN', message, { cause: signal.reason }))
    }
    if (signal.aborted) onLost()
    signal.addEventListener('abort', onLost, { once: true })
    const onFailed = (error: unknown): void => {
      // The caller already knows that the outcome is unknown.
      if (isLost) report('workflow/publish', error)
      else reject(error)
    }
    published.then(resolve, onFailed).finally(() => signal.removeEventListener('abort', onLost))
  })
}

function emissionsOf(
  drafts: readonly EmissionDraft[],
  { from }: EpochRange,
  sent: Map<string, number>,
): readonly Emitted[] {
  return drafts.map((draft, index) => {
    const epoch = from + index
    if (draft.kind === 'state') return { epoch, action: null }
    const action = draft.build({ epoch, ...epochsBefore(draft.target, sent) })
    sent.set(draft.target, epoch)
    return { epoch, action }
  })
}

/** An action to all targets went to each target as well. */
function epochsBefore(
  target: string,
  sent: ReadonlyMap<string, number>,
): Omit<EpochPlace, 'epoch'> {
  if (target === EVERY_TARGET) {
    return {
      previousEpoch: null,
      ...(sent.size === 0 ? {} : { lastEpochs: Object.fromEntries(sent) }),
    }
  }
  const last = Math.max(sent.get(target) ?? -1, sent.get(EVERY_TARGET) ?? -1)
  return { previousEpoch: last < 0 ? null : last }
}

/** The last state of a batch. */
function stateAfter(drafts: readonly EmissionDraft[]): string | null {
  const change = drafts.findLast((draft) => draft.kind === 'state')
  return change?.kind === 'state' ? change.state : null
}

export function limitError(what: string, limit: number): LeaseError {
  return new LeaseError('LIMIT_EXCEEDED', `at most ${limit} ${what}`, { details: { limit } })
}
