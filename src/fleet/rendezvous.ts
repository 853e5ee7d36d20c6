/**
 * The assignment for programs without a manager: over instance ids as `getLiveNodes` returns them, or with weights. The
 * arguments are checked like any input.
 */
import { invalid } from '../core/errors.ts'
import { NAME_BYTES_MAX } from '../core/limits.ts'
import { requireShortText } from '../core/text.ts'
import { assignSessions, preferredNode, type Candidate } from './assignment.ts'
import { parseWeight } from './fleet-options.ts'

/** An instance id, with or without a weight; the default is 1. */
export type RankedNode = string | { readonly instanceId: string; readonly weight?: number }

/** The first choice of a session, by weighted rendezvous hashing and without a bound on load; null without nodes. */
export function preferredOwner(sessionId: string, liveNodes: readonly RankedNode[]): string | null {
  return preferredNode(readId('sessionId', sessionId), readNodes(liveNodes))
}

/** Session to instance for all of them, none above ⌈1.2 × its share⌉, as `runFleet` does; empty without nodes. */
export function assignOwners(
  sessionIds: readonly string[],
  liveNodes: readonly RankedNode[],
): ReadonlyMap<string, string> {
  if (!Array.isArray(sessionIds)) throw invalid('sessionIds', 'must be an array', sessionIds)
  const ids = sessionIds.map((sessionId: unknown) => readId('sessionId', sessionId))
  return assignSessions(ids, readNodes(liveNodes))
}

function readNodes(nodes: unknown): readonly Candidate[] {
  if (!Array.isArray(nodes)) throw invalid('liveNodes', 'must be an array', nodes)
  return nodes.map((node: unknown): Candidate => {
    if (typeof node !== 'object' || node === null) {
      return { instanceId: readId('instanceId', node), weight: 1 }
    }
    const { instanceId, weight = 1 } = node as Readonly<Record<string, unknown>>
    return { instanceId: readId('instanceId', instanceId), weight: parseWeight(weight) }
  })
}

function readId(field: string, value: unknown): string {
  return requireShortText({ field, bytesMax: NAME_BYTES_MAX }, value)
}
