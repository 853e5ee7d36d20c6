/**
 * What a holder says of its lease while it holds it, and what the one before it said last. Updates are sent one after the
 * other, each as often as it takes under one request id, so that a lost answer does no harm and the last word stands.
 */
import { parseNote, type Note } from '../core/input.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import { readOptions } from '../protocol/library.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import type { UpdateOptions } from './contract.ts'
import type { LeaseTarget } from './lease-release.ts'
import { retry } from './retry.ts'

const UPDATE_WITHIN_MS = 10_000
/** How many endings of a resource are looked through for the one before; more than one only where many share it. */
const ENDINGS_LOOKED_AT = 50

export interface WordParts {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly target: LeaseTarget
  /** What the store said last. */
  readonly info: () => LeaseInfo
  readonly onUpdated: (lease: LeaseInfo) => void
  readonly onRefused: (refusal: Refusal) => void
}

export class LeaseWords {
  readonly #parts: WordParts
  #last: Promise<unknown> = Promise.resolve()

  constructor(parts: WordParts) {
    this.#parts = parts
  }

  update(options: UpdateOptions): Promise<void> {
    const read = readOptions('UpdateOptions', options ?? null)
    noteAfter(this.#parts.info(), read)
    const turn = this.#last.then(() => this.#send(read))
    // Only the order matters here: what became of an update is told to its own caller.
    this.#last = Promise.allSettled([turn])
    return turn
  }

  async #send(options: UpdateOptions): Promise<void> {
    const { api, runtime, target, info } = this.#parts
    const { reason, metadata } = noteAfter(info(), options)
    const request = {
      ...target,
      ...(reason === null ? {} : { reason }),
      ...(metadata === null ? {} : { metadata }),
      requestId: runtime.uuid(),
    }
    const answer = await retry({ runtime, withinMs: UPDATE_WITHIN_MS }, async () =>
      api.update(request),
    )
    if (answer.kind === 'updated') return this.#parts.onUpdated(answer.lease)
    this.#parts.onRefused(answer)
    throw refusalError(answer)
  }

  async previous(fence: number): Promise<LeaseInfo | null> {
    const { api, target } = this.#parts
    const endings = await api.history({
      resource: target.resource,
      types: ['lease.released', 'lease.transferred', 'lease.expired', 'lease.revoked'],
      newestFirst: true,
      limit: ENDINGS_LOOKED_AT,
    })
    for (const id of new Set(endings.map(({ event }) => event.leaseId))) {
      const lease = await api.get({ id })
      if (lease !== null && lease.fence !== null && lease.fence < fence) return lease
    }
    return null
  }
}

/** What was left out stays as it is; together they are bounded as at the acquire. */
export function noteAfter(info: LeaseInfo, { reason, metadata }: UpdateOptions): Note {
  return parseNote(reason ?? info.reason, metadata ?? info.metadata)
}
