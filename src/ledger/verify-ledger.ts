/**
 * Whether a sealed ledger is what was sealed. It finds every line that was altered, removed, reordered, inserted or cut
 * off before the last checkpoint, and names the first. A forger who writes all hashes anew after a change is found at
 * the next checkpoint; then the first line that this checkpoint is about is the one that is named.
 *
 * Keys that the ledger itself tells of are trusted from there on, if one that is trusted has signed their rotation.
 */
import { isLeaseError } from '../core/errors.ts'
import type { Position } from '../store-port/store.ts'
import type { VerificationKey } from './key-ring.ts'
import { merkleRoot, verifyCheckpoint, type LedgerCheckpoint } from './ledger-checkpoint.ts'
import { followRotation } from './recorded-rotation.ts'
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
  /** Lines: events, and rotations of keys. */
  readonly events: number
  /** Of them, those that a checkpoint vouches for; the others are chained, but could be cut off unnoticed. */
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
  const progress = new Progress(lines, keys)
  let previous: LedgerCheckpoint | null = null
  const verdict = (first: LedgerProblem | null): LedgerVerdict => ({
    ok: first === null,
    events: progress.chain.count,
    sealed: previous?.events ?? 0,
    checkpoints: previous?.sequence ?? 0,
    realms: progress.chain.heads.size,
    first,
  })
  for (const checkpoint of checkpoints) {
    const since = (previous?.events ?? 0) + 1
    const bad = progress.acceptUpTo(checkpoint.events)
    if (bad !== null) return verdict(bad)
    const unproven = problemOfSignature(checkpoint, previous, progress.keys)
    if (unproven !== null) return verdict(progress.at(since, unproven))
    const { chain } = progress
    const isSame =
      checkpoint.root === merkleRoot(chain.heads) && checkpoint.position === chain.lastPosition
    if (!isSame) {
      const problem = `or a later one is not what checkpoint ${checkpoint.sequence} was made of`
      return verdict(progress.at(since, problem))
    }
    previous = checkpoint
  }
  return verdict(progress.acceptUpTo(lines.length))
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

/** How far a ledger was read, and the keys that are trusted there. */
class Progress {
  readonly chain: LedgerChain = new LedgerChain()
  readonly #lines: readonly string[]
  #keys: readonly VerificationKey[]

  constructor(lines: readonly string[], keys: readonly VerificationKey[]) {
    this.#lines = lines
    this.#keys = keys
  }

  get keys(): readonly VerificationKey[] {
    return this.#keys
  }

  acceptUpTo(count: number): LedgerProblem | null {
    while (this.chain.count < count) {
      const number = this.chain.count + 1
      const line = this.#lines[number - 1]
      if (line === undefined) return this.at(number, 'is missing')
      const problem = this.chain.accept(line)
      if (problem !== null) return this.at(number, problem)
      if (!this.chain.isAtRotation) continue
      const keys = followRotation(this.#keys, line)
      if (typeof keys === 'string') return this.at(number, keys)
      this.#keys = keys
    }
    return null
  }

  at(line: number, problem: string): LedgerProblem {
    const text = this.#lines[line - 1]
    return { line, position: text === undefined ? null : positionOf(text), problem }
  }
}
