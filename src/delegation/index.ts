/** `tenure/delegation`: scopes, budgets, and signed grants that are checked with public keys. */
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import { refuseUnknown, utf8Length } from '../core/input.ts'
import { REGISTRAR_PAYLOAD_BYTES_MAX } from '../core/limits.ts'
import { ringOfSuccession, signingKeyOf, type KeyRing } from '../registrar/key-ring.ts'
import { LeaseReducer } from '../registrar/lease-reducer.ts'
import type { LeaseReducerState } from '../registrar/lease-reducer-state.ts'
import { parseSealTime, sealChain, type LedgerCheckpoint } from '../ledger/ledger-checkpoint.ts'
import type { EventRecord } from '../registrar/payloads.ts'
import { rotationsToRecord } from '../ledger/recorded-rotation.ts'
import { recordOf } from '../ledger/sealed-ledger.ts'
import { signEvent } from '../registrar/signed-event.ts'
import { LedgerVerification } from '../ledger/verify-ledger.ts'
import { readKeyFile } from './key-file.ts'
import {
  checkpointsFile,
  eventsFile,
  LedgerWriters,
  linesIn,
  makeDirectory,
  publicKeysFile,
  readCheckpoints,
  requirePublicKeys,
  writePublicKeys,
} from './ledger-files.ts'
import { takeTurn } from './turn.ts'

export { LeaseError } from '../core/errors.ts'
export type { Budget, Dimension } from '../core/budget.ts'
export type { Scope, ScopedAct } from '../core/scope.ts'
export { generateSigningKey, SigningKey } from '../registrar/ed25519.ts'
export {
  grantBytes,
  signGrant,
  verifyGrant,
  type Grant,
  type VerifiedGrant,
  type VerifyGrantOptions,
} from '../registrar/grant.ts'
export { parseVerificationKeys } from '../registrar/key-ring.ts'
export type { KeyState, VerificationKey, VerificationKeys } from '../registrar/verification-key.ts'
export { authorizeGrant } from './authorize-grant.ts'
export { grantOf, LeaseSigner } from './lease-signer.ts'

export interface RegistrarLedgerOptions {
  /** The file that `tenure keys generate` made: its active key signs events and seals. */
  readonly keyFile: string
}

/**
 * A ledger on disk for a registrar that issues leases itself: its own events, signed, folded, chained and sealed, in the
 * files that the ledger of a store is sealed to (`events.ndjson`, `checkpoints.ndjson`, `keys.json`).
 *
 *  - What is in it follows: an event that the reducer refuses is not written, and what is written is on the disk when
 *    `append` returns.
 *  - What is there when it is opened must be what was sealed. Lines after the last checkpoint, as a registrar leaves
 *    them that died, are chained and taken as they are.
 *  - One process at a time has it open; others get `STORE_CONFLICT`.
 */
export class RegistrarLedger {
  readonly #directory: string
  readonly #keyFile: string
  readonly #reducer = new LeaseReducer()
  readonly #verification: LedgerVerification
  readonly #rotations: string[] = []
  readonly #endTurn: () => void
  #last: LedgerCheckpoint | null
  #writers: LedgerWriters | null = null

  /**
   * Opens the ledger of a directory, or begins one. Throws `MISSING_SIGNATURE` for a file without a key that signs,
   * `DECODE_ERROR` with the first line for a ledger that is not what was sealed, or is a store's, and `STORE_CONFLICT`
   * while another process has it open.
   */
  static open(directory: string, options: RegistrarLedgerOptions): RegistrarLedger {
    refuseUnknown(options, ['keyFile'])
    const { keyFile } = options ?? {}
    for (const [field, value] of Object.entries({ directory, keyFile })) {
      if (typeof value !== 'string' || value === '') throw invalid(field, 'must be a path', value)
    }
    signingKeyOf(readKeyFile(keyFile))
    requirePublicKeys(publicKeysFile(directory))
    makeDirectory(directory)
    const endTurn = takeTurn({ directory, name: 'sealing', act: 'append or seal' })
    try {
      return new RegistrarLedger(directory, keyFile, endTurn)
    } catch (error) {
      endTurn()
      throw error
    }
  }

  private constructor(directory: string, keyFile: string, endTurn: () => void) {
    this.#directory = directory
    this.#keyFile = keyFile
    this.#endTurn = endTurn
    const checkpoints = readCheckpoints(checkpointsFile(directory))
    this.#last = checkpoints.at(-1) ?? null
    const { keys } = ownRing(keyFile)
    this.#verification = new LedgerVerification(checkpoints, keys)
    for (const line of linesIn(eventsFile(directory))) this.#replay(line)
    const { first } = this.#verification.end()
    if (first !== null) throw notSealed(first.line, first.problem)
    this.#writers = new LedgerWriters(directory)
  }

  get state(): LeaseReducerState {
    return this.#reducer.state
  }

  /**
   * Signs an event with the registrar's key, whatever signature it had, and writes it down. Throws what the reducer
   * throws, and then nothing has changed. Gives back the event as it was signed.
   */
  append(event: EventRecord): EventRecord {
    const writers = this.#requireOpen()
    const signed = signEvent(event, signingKeyOf(readKeyFile(this.#keyFile)))
    requireShortPayload(signed)
    this.#reducer.apply(signed)
    try {
      writers.events.append(this.#verification.chain.appendRecord(signed))
      writers.events.sync()
    } catch (error) {
      // What is on the disk is not known any more, and what is in memory may be ahead of it.
      this.close()
      throw error
    }
    return signed
  }

  /**
   * Signs a checkpoint over all that was appended; `atMs`: now, in milliseconds. Throws `INVALID_INPUT` for a time that is
   * none, and then nothing has changed.
   */
  seal(atMs: number): LedgerCheckpoint {
    const writers = this.#requireOpen()
    parseSealTime(atMs)
    const ring = ownRing(this.#keyFile)
    const { chain, trust } = this.#verification
    const key = signingKeyOf(ring)
    const rotations = rotationsToRecord(ring, this.#rotations)
    try {
      for (const rotation of rotations) {
        const line = chain.appendRotation(rotation)
        const problem = trust.follow(line)
        if (problem !== null) throw notSealed(chain.count, problem)
        this.#rotations.push(line)
        writers.events.append(line)
      }
      trust.requireSealer(key.keyId, atMs)
      writers.events.sync()
      const checkpoint = sealChain(chain, { key, atMs, previous: this.#last })
      writers.write(checkpoint)
      writePublicKeys(this.#directory, ring)
      this.#last = checkpoint
      return checkpoint
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Lets others open it. What was appended and not sealed stays. */
  close(): void {
    if (this.#writers === null) return
    this.#writers.close()
    this.#writers = null
    this.#endTurn()
  }

  #requireOpen(): LedgerWriters {
    if (this.#writers !== null) return this.#writers
    throw new LeaseError('CLOSED', 'the ledger was closed')
  }

  #replay(line: string): void {
    const { chain } = this.#verification
    // The first line that is wrong is told in the end; those after it say nothing.
    if (!this.#verification.accept(line)) return
    if (chain.isAtRotation) return void this.#rotations.push(line)
    try {
      this.#reducer.apply(recordOf(line))
    } catch (error) {
      throw isLeaseError(error) ? notSealed(chain.count, error.message, error) : error
    }
  }
}

/** A line that is too long would be written, and the ledger never be read again. */
function requireShortPayload({ payload }: EventRecord): void {
  const bytes = utf8Length(JSON.stringify(payload))
  if (bytes <= REGISTRAR_PAYLOAD_BYTES_MAX) return
  const message = `payload must be at most ${REGISTRAR_PAYLOAD_BYTES_MAX} bytes, got ${bytes} bytes`
  const details = { field: 'payload', limit: REGISTRAR_PAYLOAD_BYTES_MAX }
  throw new LeaseError('LIMIT_EXCEEDED', message, { details })
}

/** The keys of the registrar that signs with this file; those of others, imported to check grants, seal nothing here. */
function ownRing(keyFile: string): KeyRing {
  const ring = readKeyFile(keyFile)
  return ringOfSuccession(ring, signingKeyOf(ring).keyId)
}

function notSealed(line: number, problem: string, cause?: unknown): LeaseError {
  const message = `the ledger must be what the registrar sealed, got line ${line}: ${problem}`
  return new LeaseError('DECODE_ERROR', message, { details: { line }, cause })
}
