/**
 * A group of attempts in several buckets: one call for each bucket, and one reply made of theirs. Buckets fare
 * differently, because each may lie on another node. An attempt is told what became of its own bucket, never that
 * nothing was written because another bucket refused.
 */
import { isLeaseError } from '../../core/errors.ts'
import type { Attempt, GroupReply, Reply } from '../speculation/backend.ts'

/** The attempts of one bucket, in the order of the group, and what its call came to. */
export interface BucketPart {
  readonly attempts: readonly Attempt[]
  readonly result: PromiseSettledResult<GroupReply>
}

export function divide(
  attempts: readonly Attempt[],
  bucketOf: (attempt: Attempt) => number,
): ReadonlyMap<number, readonly Attempt[]> {
  const byBucket = new Map<number, Attempt[]>()
  for (const attempt of attempts) {
    const bucket = bucketOf(attempt)
    const some = byBucket.get(bucket)
    if (some === undefined) byBucket.set(bucket, [attempt])
    else some.push(attempt)
  }
  return byBucket
}

/** Throws only when no bucket has answered: then there is no clock to tell either. */
export function joinReplies(
  attempts: readonly Attempt[],
  parts: readonly BucketPart[],
): GroupReply {
  const told = parts.flatMap(({ result }) => (result.status === 'fulfilled' ? [result.value] : []))
  if (told.length === 0) throw mostDoubtful(parts)
  const replies = new Map<Attempt, Reply>(parts.flatMap(repliesOf))
  const latest = told.reduce((a, b) => (b.settingsRevision > a.settingsRevision ? b : a))
  return {
    ...latest,
    nowUs: Math.min(...told.map(({ nowUs }) => nowUs)),
    replies: attempts.flatMap((attempt) => replies.get(attempt) ?? []),
  }
}

function repliesOf({ attempts, result }: BucketPart): readonly (readonly [Attempt, Reply])[] {
  return attempts.map((attempt, index) => {
    if (result.status === 'rejected') return [attempt, { kind: 'failed', error: result.reason }]
    const reply = result.value.replies[index]
    if (reply === undefined) throw new Error('the server left an attempt without an answer')
    return [attempt, reply]
  })
}

/** One error for all: if any bucket may have written something, nobody is told that nothing was written. */
function mostDoubtful(parts: readonly BucketPart[]): unknown {
  const errors = parts.flatMap(({ result }) => {
    return result.status === 'rejected' ? [result.reason as unknown] : []
  })
  return errors.find((error) => !isLeaseError(error) || error.effect !== 'none') ?? errors[0]
}
