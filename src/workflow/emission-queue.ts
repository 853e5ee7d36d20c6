/**
 * Emissions on their way: what is asked for at the same moment shares one commit, which uses up an epoch for each, and
 * is then published in the order of the epochs. One commit at a time; a lone emission waits for nobody.
 *
 *  1. Epochs are used up in the ledger. If that fails, nothing is published, and nobody ever uses them.
 *  2. The lease's handle looks at the clock again when the answer has come: what was lost meanwhile is not published.
 *  3. The actions are published. Only when the bus has taken them does the next action to the same target name them as
 *     the ones before it: one that is lost on the way here must not look like a gap to whoever waits for it.
 */
import type { EpochRange, Lease } from '../client/contract.ts'
import { EPOCHS_PER_ADVANCE_MAX } from '../core/limits.ts'
import type { Action } from './action.ts'
import type { Bus } from './bus.ts'

/** Makes an action out of its epoch and the one before it to the same target; or notes that the state has changed. */
export type Draft =
  | {
      readonly kind: 'action'
      readonly target: string
      readonly build: (epoch: number, previousEpoch: number | null) => Action
    }
  | { readonly kind: 'state'; readonly state: string }

export interface EmissionParts {
  readonly lease: Pick<Lease, 'advance'>
  readonly bus: Bus
  /** Throws when the lease may not be acted under any more. */
  readonly requireHeld: () => void
}

interface Waiting {
  readonly draft: Draft
  resolve(emitted: Emitted): void
  reject(error: unknown): void
}

export interface Emitted {
  readonly epoch: number
  /** Null for a change of state. */
  readonly action: Action | null
}

export class EmissionQueue {
  readonly #parts: EmissionParts
  readonly #lastSent = new Map<string, number>()
  #waiting: Waiting[] = []
  #running: Promise<void> | null = null

  constructor(parts: EmissionParts) {
    this.#parts = parts
  }

  put(draft: Draft): Promise<Emitted> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ draft, resolve, reject })
      this.#running ??= this.#run()
    })
  }

  /** Resolves when everything that was put so far has been published, or has failed. */
  async drained(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    // A turn later, so that whatever is asked for in this one comes along.
    await Promise.resolve()
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, EPOCHS_PER_ADVANCE_MAX)
      try {
        const emitted = await this.#emit(batch.map(({ draft }) => draft))
        for (const [index, one] of batch.entries()) one.resolve(emitted[index] as Emitted)
      } catch (error) {
        for (const one of batch) one.reject(error)
      }
    }
    this.#running = null
  }

  async #emit(drafts: readonly Draft[]): Promise<readonly Emitted[]> {
    const { lease, bus, requireHeld } = this.#parts
    requireHeld()
    const reason = reasonOf(drafts)
    const range = await lease.advance({ count: drafts.length, ...reason })
    const sent = new Map(this.#lastSent)
    const emitted = emissionsOf(drafts, range, sent)
    const actions = emitted.flatMap(({ action }) => (action === null ? [] : [action]))
    if (actions.length > 0) await bus.publish(actions)
    for (const [target, epoch] of sent) this.#lastSent.set(target, epoch)
    return emitted
  }
}

function emissionsOf(
  drafts: readonly Draft[],
  { from }: EpochRange,
  sent: Map<string, number>,
): readonly Emitted[] {
  return drafts.map((draft, index) => {
    const epoch = from + index
    if (draft.kind === 'state') return { epoch, action: null }
    const action = draft.build(epoch, sent.get(draft.target) ?? null)
    sent.set(draft.target, epoch)
    return { epoch, action }
  })
}

/** The history tells the last state of a batch; those before it did not last. */
function reasonOf(drafts: readonly Draft[]): { readonly reason?: string } {
  const change = drafts.findLast((draft) => draft.kind === 'state')
  return change?.kind === 'state' ? { reason: `state: ${change.state}` } : {}
}
