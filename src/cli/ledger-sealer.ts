/**
 * Appends what is new in a store to its sealed ledger, and seals it. What is there already is verified first, and
 * compared with the store: no key may be made to sign what was tampered with, nor to go on with the ledger of a store
 * that is another one by now.
 */
import { isUnavailable } from '../client/retry.ts'
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import { readText } from '../delegation/key-file.ts'
import {
  checkpointsFile,
  eventsFile,
  isFileAbsent,
  LedgerWriters,
  LINE_BEGINNINGS,
  makeDirectory,
  publicKeysFile,
  readCheckpoints,
  refuseSameFiles,
  Replacement,
  requirePublicKeys,
  writePublicKeys,
} from '../delegation/ledger-files.ts'
import { takeTurn } from '../delegation/turn.ts'
import { checkpointHash, type LedgerCheckpoint, sealChain } from '../ledger/ledger-checkpoint.ts'
import { type LedgerTrust, rotationsToRecord } from '../ledger/recorded-rotation.ts'
import { type LedgerChain, linesOf } from '../ledger/sealed-ledger.ts'
import { type KeyRing, ringOfSuccession, signingKeyOf } from '../registrar/key-ring.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { fs } from '../runtime/file-system.ts'
import { pause } from '../runtime/pause.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import type { Questions } from '../service/lease-questions.ts'
import { firstContradiction } from './contradictory-events.ts'
import { eventsAfter, pageAfter } from './ledger-source.ts'
import {
  compareStore,
  differenceWords,
  examineLedger,
  firstUnknownLine,
  isSameEntry,
  type NewestEvent,
  notWhole,
  type SealedPart,
} from './sealed-directory.ts'

export interface Sealing {
  /** Asked when it is the sealer's turn: a rotation of the keys waits for the turn to end. */
  readonly ring: () => KeyRing
  /** Remembers the directory of the ledger, so that the next rotation can name its last checkpoint. */
  readonly note: (directory: string) => Promise<void>
  readonly nowMs: number
  /** A second place for checkpoints, best on another machine. */
  readonly copy: string | undefined
  /** Files that are not the ledger's, whatever it was told: those of the keys and of the store. */
  readonly others: readonly string[]
  /** The shortest `history_retention_days` since the last seal, where that was less than it is now. */
  readonly retentionDays?: number | undefined
}

type SealedQuestions = Pick<Questions, 'history' | 'settingRows'>

/** What is known of the files since they were last read or written. */
interface Known {
  readonly chain: LedgerChain
  readonly trust: LedgerTrust
  readonly last: LedgerCheckpoint | null
  /** Of all checkpoints. */
  readonly hashes: ReadonlySet<string>
  /** A checkpoint that the copy has, and the directory not yet. */
  readonly pending: LedgerCheckpoint | null
  readonly rotations: readonly string[]
  readonly newest: NewestEvent | null
  /** Of the files and the keys: who changes them changes it too. */
  readonly version: string
}

/** A sealer that seals again and again reads the files again only when another process has written them. */
export class LedgerSealer {
  readonly #questions: SealedQuestions
  readonly #directory: string
  #known: Known | null = null

  constructor(questions: SealedQuestions, directory: string) {
    this.#questions = questions
    this.#directory = directory
  }

  /** Whatever it must not write to, it refuses before it writes anything. */
  async seal(sealing: Sealing): Promise<LedgerCheckpoint> {
    signingKeyOf(sealing.ring())
    this.#refuseFiles(sealing)
    makeDirectory(this.#directory)
    await sealing.note(fs.realpathSync(this.#directory))
    const endTurn = takeTurn({ directory: this.#directory, name: 'sealing', act: 'seal' })
    const copy = sealing.copy === undefined ? null : new CheckpointCopy(sealing.copy)
    try {
      return await this.#sealNext(sealing, copy)
    } finally {
      copy?.end()
      endTurn()
    }
  }

  #refuseFiles({ copy, others }: Sealing): void {
    const files = [eventsFile, checkpointsFile, publicKeysFile].map((fileIn) => {
      return fileIn(this.#directory)
    })
    refuseSameFiles([...files, ...(copy === undefined ? [] : [copy])], others)
    if (copy !== undefined) void new CheckpointCopy(copy)
    requirePublicKeys(publicKeysFile(this.#directory))
  }

  async #sealNext(
    { ring: readRing, nowMs, retentionDays }: Sealing,
    copy: CheckpointCopy | null,
  ): Promise<LedgerCheckpoint> {
    const ring = readRing()
    const current = await this.#current(ring, copy, retentionDays)
    this.#known = null
    copy?.prepare()
    const writers = new LedgerWriters(this.#directory)
    try {
      if (current.pending !== null) writers.write(current.pending)
      const { checkpoint, ...known } = await this.#append({ ring, nowMs, current }, writers)
      writers.events.sync()
      copy?.write(checkpoint)
      writers.write(checkpoint)
      writePublicKeys(this.#directory, ring)
      const hashes = new Set(current.hashes).add(checkpointHash(checkpoint))
      const version = this.#version(ring)
      this.#known = { ...known, last: checkpoint, hashes, pending: null, version }
      return checkpoint
    } finally {
      writers.close()
    }
  }

  /** Writes what is new, and makes the checkpoint over it. */
  async #append({ ring, nowMs, current }: Appended, writers: LedgerWriters) {
    const { chain, trust, last, rotations } = current
    const recorded = rotationsToRecord(ring, rotations).map((each) => chain.appendRotation(each))
    for (const line of recorded) {
      const problem = trust.follow(line)
      if (problem !== null) throw new LeaseError('DECODE_ERROR', `the next line ${problem}`)
      writers.events.append(line)
    }
    const key = signingKeyOf(ring)
    trust.requireSealer(key.keyId, nowMs)
    let { newest } = current
    for await (const entry of eventsAfter(this.#questions, chain.lastPosition)) {
      newest = { entry, before: chain.lastPosition }
      writers.events.append(chain.append(entry))
    }
    const checkpoint = sealChain(chain, { key, atMs: nowMs, previous: last })
    return { checkpoint, chain, trust, newest, rotations: [...rotations, ...recorded] }
  }

  async #current(
    ring: KeyRing,
    copy: CheckpointCopy | null,
    retentionDays: number | undefined,
  ): Promise<Known> {
    const version = this.#version(ring)
    const known = this.#known?.version === version ? this.#known : null
    const isKnown = known !== null && (copy?.ahead(known.hashes) ?? null) === null
    if (isKnown && (await this.#isStillThere(known.newest))) return known
    const { pending, examined } = this.#examine(ring, copy)
    const { first } = examined.verdict
    if (first !== null) throw notWhole(first.line, first.problem)
    const last = examined.checkpoints.at(-1) ?? null
    await this.#requireSameStore({ directory: this.#directory, last, retentionDays })
    const { chain, trust, rotations, newest } = examined
    const hashes = new Set(examined.checkpoints.map(checkpointHash))
    return { chain, trust, last, hashes, pending, rotations, newest, version }
  }

  /**
   * A sealer that died after it wrote the copy has left a checkpoint there that is over the lines which are here, and it
   * is taken from there. If it is not over them, the ledger was set back.
   */
  #examine(ring: KeyRing, copy: CheckpointCopy | null) {
    const { keys } = ringOfSuccession(ring, signingKeyOf(ring).keyId)
    const examined = examineLedger(this.#directory, keys)
    const pending = copy?.ahead(new Set(examined.checkpoints.map(checkpointHash))) ?? null
    if (pending === null || !examined.verdict.ok) return { pending, examined }
    const completed = examineLedger(this.#directory, keys, [pending])
    if (!completed.verdict.ok) throw notInLedger(pending)
    return { pending, examined: completed }
  }

  async #isStillThere(newest: NewestEvent | null): Promise<boolean> {
    if (newest === null) return true
    const { entry, before } = newest
    const [found] = await pageAfter(this.#questions, before, 1)
    return found !== undefined && isSameEntry(found, entry)
  }

  async #requireSameStore(part: SealedPart): Promise<void> {
    const { first } = await compareStore(this.#questions, part)
    if (first !== null) {
      const found = differenceWords(first)
      const message = `the store must be the one that was sealed, got ${found}; seal another store, or a rebuilt one, to a place of its own (--ledger)`
      throw new LeaseError('DECODE_ERROR', message, { details: { ...first } })
    }
    const contradiction = await firstContradiction(this.#questions)
    if (contradiction !== null) {
      const message = `the events of the store must follow from each other, got ${contradiction.problem}`
      throw new LeaseError('DECODE_ERROR', message, { details: { ...contradiction } })
    }
    const unknown = await firstUnknownLine(this.#questions, part.directory, part.last)
    if (unknown === null) return
    throw notWhole(
      unknown,
      'is not what the store has next and that no checkpoint vouches for (take it and those after it out of events.ndjson)',
    )
  }

  #version(ring: KeyRing): string {
    const versions = [eventsFile, checkpointsFile].map((fileIn) => {
      const status = fs.statSync(fileIn(this.#directory), { throwIfNoEntry: false })
      return status === undefined ? 'none' : `${status.ino} ${status.size} ${status.mtimeMs}`
    })
    return [...versions, ...ring.keys.map(({ keyId }) => keyId)].join()
  }
}

export interface Repetition {
  readonly everyMs: number
  readonly remark: (text: string) => void
}

/** Seals again and again, until something fails that will not pass; a store that is away is tried again. */
export async function sealRepeatedly(
  seal: () => Promise<void>,
  { everyMs, remark }: Repetition,
): Promise<never> {
  const fault = new RepeatedFault('cli/seal', systemRuntime)
  for (;;) {
    try {
      await seal()
      fault.succeeded()
    } catch (error) {
      if (!isUnavailable(error)) throw error
      fault.failed(error)
      remark(`not sealed this time: ${String(error)}`)
    }
    await pause(systemRuntime, everyMs, { keepAlive: true })
  }
}

interface Appended {
  readonly ring: KeyRing
  readonly nowMs: number
  readonly current: Known
}

/**
 * The second place for checkpoints, best on another machine. It is written before the ledger itself, so that a
 * checkpoint which is not in the copy is not in the ledger either; one that the ledger lacks was made by a sealer that
 * died in between, or the ledger was set back. Nothing but an empty file or one of checkpoints is ever written to.
 */
class CheckpointCopy {
  readonly #file: string
  readonly #lines: readonly string[]
  readonly #checkpoints: readonly LedgerCheckpoint[]
  #next: Replacement | null = null

  /** Throws `INVALID_INPUT` for a file that holds anything else. */
  constructor(file: string) {
    const expectation = 'must be an empty file, or one of checkpoints'
    this.#file = file
    if (!isFileAbsent(file) && !fs.statSync(file).isFile()) throw invalid('copy', expectation, file)
    const text = isFileAbsent(file) ? '' : readText(file)
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

function notInLedger({ sequence }: LedgerCheckpoint): LeaseError {
  const message = `checkpoint ${sequence} of the copy is not in the ledger`
  return new LeaseError('DECODE_ERROR', message, { details: { sequence } })
}
