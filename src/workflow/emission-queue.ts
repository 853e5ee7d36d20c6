/**
 * Emissions on their way: what is asked for at the same moment shares one commit, which uses up an epoch for each, and
 * is then published in the order of the epochs. One commit at a time; a lone emission waits for nobody.
 *
 *  1. Epochs are used up in the ledger. If that fails, nothing is published, and nobody ever uses them. Each commit
 *     says which state the workflow is in after it, so that the last one tells the next orchestrator.
 *  2. The lease's handle looks at the clock again when the answer has come: what was lost meanwhile is not published.
 *  3. The actions are published. Only when the bus has taken them does the next action to the same target name them as
 *     the ones before it: one that is lost on the way here must not look like a gap to whoever waits for it.
 */
import type { EpochRange, Lease } from '../client/contract.ts'
import { LeaseError } from '../core/errors.ts'
import { EPOCHS_PER_ADVANCE_MAX } from '../core/limits.ts'
import { report } from '../runtime/diagnostics.ts'
import { EVERY_TARGET, type Action } from './action.ts'
import type { Bus } from './bus.ts'
import { stateNote } from './workflow-state.ts'

/** Which epoch an action has, and which went before it to the same target, or to each. */
export type EpochPlace = Pick<Action, 'epoch' | 'previousEpoch' | 'lastEpochs'>

/** Makes an action out of its place; or notes that the state has changed. */
export type Draft =
  | {
      readonly kind: 'action'
      readonly target: string
      readonly build: (place: EpochPlace) => Action
    }
  | { readonly kind: 'state'; readonly state: string }

export interface EmissionParts {
  readonly lease: Pick<Lease, 'advance' | 'signal'>
  readonly bus: Bus
  /** The state that the workflow is in at first. */
  readonly state: string
  /** Throws when the lease may not be acted under any more. */
  readonly requireHeld: () => void
}

interface Emission {
  readonly kind: 'emission'
  readonly draft: Draft
  resolve(emitted: Emitted): void
  reject(error: unknown): void
}

/** Something that nothing else may be under way with. */
interface Errand {
  readonly kind: 'errand'
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
  readonly #parts: EmissionParts
  readonly #lastSent = new Map<string, number>()
  #state: string
  #waiting: (Emission | Errand)[] = []
  #isRunning = false

  constructor(parts: EmissionParts) {
    this.#parts = parts
    this.#state = parts.state
  }

  /** As the ledger has it. */
  get state(): string {
    return this.#state
  }

  /** The last epoch that was sent to each target, and to all of them (`*`). */
  get lastSent(): ReadonlyMap<string, number> {
    return this.#lastSent
  }

  put(draft: Draft): Promise<Emitted> {
    return new Promise((resolve, reject) => {
      this.#add({ kind: 'emission', draft, resolve, reject })
    })
  }

  /** Does something when all that was put before has ended; what is put meanwhile waits for it. */
  alone<Result>(work: () => Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#add({ kind: 'errand', run: () => work().then(resolve, reject) })
    })
  }

  #add(one: Emission | Errand): void {
    if (this.#waiting.length >= WAITING_MAX) {
      throw limitError('actions may be on their way at once', WAITING_MAX)
    }
    this.#waiting.push(one)
    if (!this.#isRunning) void this.#run()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    // A turn later, so that whatever is asked for in this one comes along.
    await Promise.resolve()
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (next.kind === 'errand') {
        this.#waiting.shift()
        await next.run()
      } else await this.#emit(this.#takeBatch())
    }
    this.#isRunning = false
  }

  #takeBatch(): readonly Emission[] {
    const batch: Emission[] = []
    for (const one of this.#waiting) {
      if (one.kind === 'errand' || batch.length === EPOCHS_PER_ADVANCE_MAX) break
      batch.push(one)
    }
    this.#waiting.splice(0, batch.length)
    return batch
  }

  /** Never rejects: whoever waits hears of it. */
  async #emit(batch: readonly Emission[]): Promise<void> {
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
    drafts: readonly Draft[],
    sent: Map<string, number>,
  ): Promise<readonly Emitted[]> {
    const { lease, requireHeld } = this.#parts
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
    const { bus, lease } = this.#parts
    try {
      await unlessLost(bus.publish(actions), lease.signal)
    } catch (error) {
      return { error }
    }
    for (const [target, epoch] of sent) this.#lastSent.set(target, epoch)
    return null
  }
}

/** A bus that does not answer must not keep anybody waiting beyond the end of the lease. */
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
      // Nobody waits for the bus any more: the outcome was said to be unknown.
      if (isLost) report('workflow/publish', error)
      else reject(error)
    }
    published.then(resolve, onFailed).finally(() => signal.removeEventListener('abort', onLost))
  })
}

function emissionsOf(
  drafts: readonly Draft[],
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

/** What went to all went to each target as well. */
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

/** The last state of a batch; those before it did not last. */
function stateAfter(drafts: readonly Draft[]): string | null {
  const change = drafts.findLast((draft) => draft.kind === 'state')
  return change?.kind === 'state' ? change.state : null
}

export function limitError(what: string, limit: number): LeaseError {
  return new LeaseError('LIMIT_EXCEEDED', `at most ${limit} ${what}`, { details: { limit } })
}
