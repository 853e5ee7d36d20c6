/**
 * What became of the decisions that processes sent to an optimistic server, counted where the server answers: a run in
 * which one of these never occurred has not tried what such a store is about.
 */
import type {
  Attempt,
  Group,
  GroupReply,
  PlaceView,
  Reply,
} from '../src/store/optimistic/backend.ts'
import type { Log } from './log.ts'

export const ATTEMPT_SHAPES = [
  'a commit at the first try',
  'a miss, then a commit',
  'a refusal confirmed by the store',
  'a stale view corrected',
  'several commits in one call',
  'a fence moved',
  'a known request told by the store',
  'settings that were changed meanwhile',
  'a decision from the future of the server',
  'a decision that came too late',
  'a ticket filed behind another',
  'a keep-alive that compares little',
] as const

type Shape = (typeof ATTEMPT_SHAPES)[number]

/** Of one process. */
export class AttemptShapes {
  readonly #log: Log
  /** What has missed and was not committed since. */
  readonly #missed = new Set<string>()

  constructor(log: Log) {
    this.#log = log
  }

  note({ attempts, settingsRevision }: Group, reply: GroupReply): void {
    if (attempts.length > 0 && reply.settingsRevision !== settingsRevision) {
      this.#count('settings that were changed meanwhile')
    }
    const committed = reply.replies.filter(({ kind }) => kind === 'committed')
    if (committed.length > 1) this.#count('several commits in one call')
    attempts.forEach((attempt, index) => {
      const answer = reply.replies[index]
      if (answer !== undefined) this.#noteOne(attempt, answer, reply.nowUs)
    })
  }

  #noteOne(attempt: Attempt, reply: Reply, nowUs: number): void {
    const name = nameOf(attempt)
    if (reply.kind === 'missed') {
      this.#missed.add(name)
      for (const shape of shapesOfMiss(attempt, reply.views, nowUs)) this.#count(shape)
    }
    if (reply.kind !== 'committed') return
    this.#count(this.#missed.delete(name) ? 'a miss, then a commit' : 'a commit at the first try')
    if (reply.fencesMovedBy > 0) this.#count('a fence moved')
    if (attempt.writes.length === 0) this.#count('a refusal confirmed by the store')
    for (const { behind, isKeepAlive } of attempt.places) {
      if (behind !== undefined) this.#count('a ticket filed behind another')
      if (isKeepAlive === true) this.#count('a keep-alive that compares little')
    }
  }

  #count(shape: Shape): void {
    this.#log.count(shape)
  }
}

function nameOf({ places }: Attempt): string {
  return places.map(({ readSet: { leaseId, requestId } }) => `${leaseId} ${requestId}`).join()
}

function shapesOfMiss(
  { places, fromUs, beforeUs }: Attempt,
  views: readonly PlaceView[],
  nowUs: number,
): readonly Shape[] {
  const shapes: Shape[] = []
  if (fromUs > nowUs) shapes.push('a decision from the future of the server')
  if (nowUs >= beforeUs) shapes.push('a decision that came too late')
  places.forEach(({ claims, hasPrior }, index) => {
    const view = views[index]
    if (view === undefined) return
    if (view.prior !== null && !hasPrior) shapes.push('a known request told by the store')
    const there = new Map(view.entries.map(({ entry, claim }) => [entry.id, claim]))
    if (claims?.some(({ id, claim }) => there.get(id) !== claim) === true) {
      shapes.push('a stale view corrected')
    }
  })
  return shapes
}
