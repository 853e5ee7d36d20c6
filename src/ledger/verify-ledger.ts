/**
 * Whether a sealed ledger is what was sealed. It finds every line that was altered, removed, reordered, inserted or cut
 * off before the last checkpoint, and names the first. A forger who writes all hashes anew after a change is found at
 * the next checkpoint; then the first line that this checkpoint is about is the one that is named.
 *
 * Keys that the ledger itself tells of are trusted from there on, if the one that is trusted has signed their rotation.
 * A ledger is sealed by one succession of keys: by the first that seals, and those that follow it.
 */
import { isLeaseError } from '../core/errors.ts'
import type { Position } from '../store-port/store.ts'
import {
  checkpointHash,
  merkleRoot,
  verifyCheckpoint,
  type LedgerCheckpoint,
} from './ledger-checkpoint.ts'
import { LedgerTrust } from './recorded-rotation.ts'
import { LedgerChain, positionOf } from './sealed-ledger.ts'
import { requireKeys, type VerificationKey } from '../registrar/verification-key.ts'

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
  /** The ids of the keys that sealed it, in their order. */
  readonly keys: readonly string[]
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
  const verification = new LedgerVerification(checkpoints, keys)
  for (const line of lines) if (!verification.accept(line)) break
  return verification.end()
}

/** Verifies a ledger line by line, so that a verifier need not have all of it at once. */
export class LedgerVerification {
  readonly chain: LedgerChain = new LedgerChain()
  readonly trust: LedgerTrust
  readonly #checkpoints: readonly LedgerCheckpoint[]
  readonly #sealers = new Set<string>()
  #previous: LedgerCheckpoint | null = null
  /** The first line that the last checkpoint is about. */
  #sealedFrom: Pick<LedgerProblem, 'line' | 'position'> = { line: 1, position: null }
  #next = 0
  /** What the first line after the last checkpoint says its position is. */
  #positionSince: Position | null = null
  #first: LedgerProblem | null = null

  constructor(checkpoints: readonly LedgerCheckpoint[], keys: readonly VerificationKey[]) {
    this.#checkpoints = checkpoints
    this.trust = new LedgerTrust(requireKeys(keys))
  }

  /** Takes the next line; false as soon as something is wrong. */
  accept(line: string): boolean {
    this.#checkDue()
    if (this.#first !== null) return false
    const number = this.chain.count + 1
    if (number === this.#since) this.#positionSince = positionOf(line)
    const problem =
      this.chain.accept(line) ?? (this.chain.isAtRotation ? this.trust.follow(line) : null)
    if (problem !== null) this.#first = { line: number, position: positionOf(line), problem }
    return problem === null
  }

  /** What all of it has shown, once there are no more lines. */
  end(): LedgerVerdict {
    this.#checkDue()
    if (this.#first === null && this.#next < this.#checkpoints.length) {
      this.#first = { line: this.chain.count + 1, position: null, problem: 'is missing' }
    }
    const outdated = this.#outdatedProblem()
    if (this.#first === null && outdated !== null) {
      this.#first = { ...this.#sealedFrom, problem: outdated }
    }
    return {
      ok: this.#first === null,
      events: this.chain.count,
      sealed: this.#previous?.events ?? 0,
      checkpoints: this.#previous?.sequence ?? 0,
      realms: this.chain.heads.size,
      keys: [...this.#sealers],
      first: this.#first,
    }
  }

  /** The number of the first line after the last checkpoint. */
  get #since(): number {
    return (this.#previous?.events ?? 0) + 1
  }

  /** The checkpoints over what was read so far. */
  #checkDue(): void {
    while (this.#first === null) {
      const checkpoint = this.#checkpoints[this.#next]
      if (checkpoint === undefined || checkpoint.events > this.chain.count) return
      const problem = this.#problemOf(checkpoint)
      if (problem !== null) {
        this.#first = { line: this.#since, position: this.#positionSince, problem }
        return
      }
      this.#sealedFrom = { line: this.#since, position: this.#positionSince }
      this.#sealers.add(checkpoint.keyId)
      this.#previous = checkpoint
      this.#positionSince = null
      this.#next += 1
    }
  }

  /** A key that has a successor ends a ledger only with the checkpoint that was its last when it named it. */
  #outdatedProblem(): string | null {
    if (this.#previous === null) return null
    const { keyId, sequence } = this.#previous
    const successor = this.trust.successorOf(keyId)
    if (successor === null) return null
    if (successor.lastCheckpoints.includes(checkpointHash(this.#previous))) return null
    const named = `key ${keyId} has named its successor ${successor.keyId}`
    return `cannot be proven: ${named}, and checkpoint ${sequence} is not the last that it signed before`
  }

  #problemOf(checkpoint: LedgerCheckpoint): string | null {
    try {
      verifyCheckpoint(checkpoint, this.#previous, this.trust)
    } catch (error) {
      if (isLeaseError(error)) return `cannot be proven: ${error.message}`
      throw error
    }
    const { heads, lastPosition } = this.chain
    const isSame = checkpoint.root === merkleRoot(heads) && checkpoint.position === lastPosition
    if (isSame) return null
    return `or a later one is not what checkpoint ${checkpoint.sequence} was made of`
  }
}
