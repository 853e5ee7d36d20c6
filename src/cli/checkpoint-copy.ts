/**
 * The second place for checkpoints, best on another machine. It is written before the ledger itself, so that a
 * checkpoint which is not in the copy is not in the ledger either; one that the ledger lacks was made by a sealer that
 * died in between, or the ledger was set back. Nothing but an empty file or one of checkpoints is ever written to.
 */
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import { readText } from '../delegation/key-file.ts'
import { checkpointHash, type LedgerCheckpoint } from '../ledger/ledger-checkpoint.ts'
import { linesOf } from '../ledger/sealed-ledger.ts'
import { fs } from '../runtime/file-system.ts'
import {
  isAbsent,
  LINE_BEGINNINGS,
  readCheckpoints,
  Replacement,
} from '../delegation/ledger-files.ts'

export class CheckpointCopy {
  readonly #file: string
  readonly #lines: readonly string[]
  readonly #checkpoints: readonly LedgerCheckpoint[]
  #next: Replacement | null = null

  /** Throws `INVALID_INPUT` for a file that holds anything else. */
  constructor(file: string) {
    const expectation = 'must be an empty file, or one of checkpoints'
    this.#file = file
    if (!isAbsent(file) && !fs.statSync(file).isFile()) throw invalid('copy', expectation, file)
    const text = isAbsent(file) ? '' : readText(file)
    const begun = text.slice(text.lastIndexOf('\n') + 1)
    if (begun !== '' && !begun.startsWith(LINE_BEGINNINGS.checkpoint)) {
      throw invalid('copy', expectation, file)
    }
    this.#lines = linesOf(text)
    try {
      this.#checkpoints = readCheckpoints(file)
    } catch (error) {
      throw isLeaseError(error) ? invalid('copy', expectation, file) : error
    }
  }

  /** The one checkpoint that the copy has and the ledger lacks; throws `DECODE_ERROR` if there are more. */
  ahead(known: ReadonlySet<string>): LedgerCheckpoint | null {
    const odd = this.#checkpoints.filter((checkpoint) => !known.has(checkpointHash(checkpoint)))
    const [first] = odd
    if (first === undefined) return null
    if (odd.length === 1 && first === this.#checkpoints.at(-1)) return first
    throw notInLedger(first)
  }

  /** Makes sure that the copy can be written, before anything else is. */
  prepare(): void {
    this.#next = new Replacement(this.#file)
  }

  write(checkpoint: LedgerCheckpoint): void {
    const lines = [...this.#lines, JSON.stringify(checkpoint)]
    this.#next?.commit(lines.map((line) => `${line}\n`).join(''))
  }

  end(): void {
    this.#next?.end()
  }
}

export function notInLedger({ sequence }: LedgerCheckpoint): LeaseError {
  const message = `checkpoint ${sequence} of the copy is not in the ledger`
  return new LeaseError('DECODE_ERROR', message, { details: { sequence } })
}
