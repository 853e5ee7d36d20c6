/**
 * Whether a sealed ledger is what was sealed. It finds every line that was altered, removed, reordered, inserted or cut
 * off before the last checkpoint, and names the first. A forger who writes all hashes anew after a change is found at
 * the next checkpoint; then the first line that this checkpoint is about is the one that is named.
 */
import { isLeaseError } from '../core/errors.ts'
import type { Position } from '../store-port/store.ts'
import type { VerificationKey } from './key-ring.ts'
import { merkleRoot, verifyCheckpoint, type LedgerCheckpoint } from './ledger-checkpoint.ts'
import { LedgerChain, positionOf } from './sealed-ledger.ts'

export interface LedgerProblem {
  /** Of the first bad line, from 1. */
  readonly line: number
  /** What it says its position is; null if it is gone or says nothing. */
  readonly position: Position | null
  readonly problem: string
}

export interface LedgerVerdict {
  readonly ok: boolean
  readonly events: number
  /** Events that a checkpoint vouches for; those after it are chained, but could be cut off unnoticed. */
  readonly sealed: number
  readonly checkpoints: number
  readonly realms: number
  readonly first: LedgerProblem | null
}

export interface SealedLedger {
  readonly lines: readonly string[]
  readonly checkpoints: readonly LedgerCheckpoint[]
}

export function verifyLedger(
  { lines, checkpoints }: SealedLedger,
  keys: readonly VerificationKey[],
): LedgerVerdict {
  const chain = new LedgerChain()
  let previous: LedgerCheckpoint | null = null
  const verdict = (first: LedgerProblem | null): LedgerVerdict => ({
    ok: first === null,
    events: chain.count,
    sealed: previous?.events ?? 0,
    checkpoints: previous?.sequence ?? 0,
    realms: chain.heads.size,
    first,
  })
  for (const checkpoint of checkpoints) {
    const sealed = problemOfSignature(checkpoint, previous, keys)
    if (sealed !== null) return verdict(at(lines, (previous?.events ?? 0) + 1, sealed))
    const bad = acceptUpTo(chain, lines, checkpoint.events)
    if (bad !== null) return verdict(bad)
    const isSame =
      checkpoint.root === merkleRoot(chain.heads) && checkpoint.position === chain.lastPosition
    if (!isSame) {
      const problem = `or a later one is not what checkpoint ${checkpoint.sequence} was made of`
      return verdict(at(lines, (previous?.events ?? 0) + 1, problem))
    }
    previous = checkpoint
  }
  return verdict(acceptUpTo(chain, lines, lines.length))
}

function problemOfSignature(
  checkpoint: LedgerCheckpoint,
  previous: LedgerCheckpoint | null,
  keys: readonly VerificationKey[],
): string | null {
  try {
    verifyCheckpoint(checkpoint, previous, keys)
    return null
  } catch (error) {
    if (isLeaseError(error)) return `cannot be proven: ${error.message}`
    throw error
  }
}

function acceptUpTo(
  chain: LedgerChain,
  lines: readonly string[],
  count: number,
): LedgerProblem | null {
  while (chain.count < count) {
    const line = lines[chain.count]
    if (line === undefined) return at(lines, chain.count + 1, 'is missing')
    const problem = chain.accept(line)
    if (problem !== null) return at(lines, chain.count + 1, problem)
  }
  return null
}

function at(lines: readonly string[], line: number, problem: string): LedgerProblem {
  const text = lines[line - 1]
  return { line, position: text === undefined ? null : positionOf(text), problem }
}
