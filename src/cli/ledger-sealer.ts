/**
 * Appends what is new in a store to its sealed ledger, and seals it. What is there already is verified first, and
 * compared with the store: nobody may be made to sign what was tampered with, nor to go on with the ledger of a store
 * that is another one by now.
 */
import path from 'node:path'
import { LeaseError } from '../core/errors.ts'
import { unusable } from '../delegation/key-file.ts'
import { formatKeyRing, signingKeyOf, type KeyRing } from '../ledger/key-ring.ts'
import { sealChain, type LedgerCheckpoint } from '../ledger/ledger-checkpoint.ts'
import { rotationsToRecord, type LedgerTrust } from '../ledger/recorded-rotation.ts'
import type { LedgerChain } from '../ledger/sealed-ledger.ts'
import { fs } from '../runtime/file-system.ts'
import type { Questions } from '../service/lease-questions.ts'
import { checkpointsFile, eventsAfter, eventsFile, LineWriter } from './ledger-files.ts'
import {
  compareStore,
  examineLedger,
  firstUnknownLine,
  isSameEntry,
  notWhole,
  type NewestEvent,
} from './sealed-directory.ts'
import { takeTurn } from './turn.ts'

export interface Sealing {
  readonly ring: KeyRing
  readonly nowMs: number
  /** A second place for checkpoints, best on another machine. */
  readonly copy: string | undefined
}

/** What is known of the files since they were last read or written. */
interface Known {
  readonly chain: LedgerChain
  readonly trust: LedgerTrust
  readonly last: LedgerCheckpoint | null
  readonly rotations: readonly string[]
  readonly newest: NewestEvent | null
  /** Of the files and the keys: who changes them changes it too. */
  readonly version: string
}

/** Whoever seals again and again reads the files again only when somebody else has written them. */
export class LedgerSealer {
  readonly #questions: Pick<Questions, 'history'>
  readonly #directory: string
  #known: Known | null = null

  constructor(questions: Pick<Questions, 'history'>, directory: string) {
    this.#questions = questions
    this.#directory = directory
  }

  async seal({ ring, nowMs, copy }: Sealing): Promise<LedgerCheckpoint> {
    signingKeyOf(ring)
    makeDirectory(this.#directory)
    const endTurn = takeTurn({ directory: this.#directory, name: 'sealing', act: 'seal' })
    try {
      const writers = new Writers(this.#directory, copy)
      try {
        return await this.#sealNext({ ring, nowMs }, writers)
      } finally {
        writers.close()
      }
    } finally {
      endTurn()
    }
  }

  async #sealNext(
    { ring, nowMs }: Pick<Sealing, 'ring' | 'nowMs'>,
    writers: Writers,
  ): Promise<LedgerCheckpoint> {
    const { chain, trust, last, rotations, newest: known } = await this.#current(ring)
    this.#known = null
    const recorded = rotationsToRecord(ring, rotations).map((each) => chain.appendRotation(each))
    for (const line of recorded) {
      const problem = trust.follow(line)
      if (problem !== null) throw new LeaseError('DECODE_ERROR', `the next line ${problem}`)
      writers.events.append(line)
    }
    const key = signingKeyOf(ring)
    trust.requireSealer(key.keyId, nowMs)
    let newest = known
    for await (const entry of eventsAfter(this.#questions, chain.lastPosition)) {
      newest = { entry, before: chain.lastPosition }
      writers.events.append(chain.append(entry))
    }
    const checkpoint = sealChain(chain, { key, atMs: nowMs, previous: last })
    writers.write(checkpoint)
    this.#writeKeys(ring)
    const told = [...rotations, ...recorded]
    const version = this.#version(ring)
    this.#known = { chain, trust, last: checkpoint, rotations: told, newest, version }
    return checkpoint
  }

  async #current(ring: KeyRing): Promise<Known> {
    const version = this.#version(ring)
    if (this.#known?.version === version && (await this.#isStillThere(this.#known.newest))) {
      return this.#known
    }
    const examined = examineLedger(this.#directory, ring.keys)
    const { first } = examined.verdict
    if (first !== null) throw notWhole(first.line, first.problem)
    const last = examined.checkpoints.at(-1) ?? null
    await this.#requireSameStore(last)
    const { chain, trust, rotations, newest } = examined
    return { chain, trust, last, rotations, newest, version }
  }

  async #isStillThere(newest: NewestEvent | null): Promise<boolean> {
    if (newest === null) return true
    const { entry, before } = newest
    const from = before === null ? {} : { after: before }
    const [found] = await this.#questions.history({ ...from, limit: 1 })
    return found !== undefined && isSameEntry(found, entry)
  }

  async #requireSameStore(last: LedgerCheckpoint | null): Promise<void> {
    const { first } = await compareStore(this.#questions, this.#directory, last)
    if (first !== null) {
      const { position, problem } = first
      const message = `the store must be the one that was sealed, got position ${position} that was ${problem}; seal another store, or a rebuilt one, to a place of its own (--ledger)`
      throw new LeaseError('DECODE_ERROR', message, { details: { ...first } })
    }
    const unknown = await firstUnknownLine(this.#questions, this.#directory, last)
    if (unknown === null) return
    throw notWhole(
      unknown,
      'is not what the store has next and that no checkpoint vouches for (take it and those after it out of events.ndjson)',
    )
  }

  #writeKeys(ring: KeyRing): void {
    const file = path.join(this.#directory, 'keys.json')
    fs.writeFileSync(file, formatKeyRing(ring, { secrets: false }))
  }

  #version(ring: KeyRing): string {
    const versions = [eventsFile, checkpointsFile].map((fileIn) => {
      const status = fs.statSync(fileIn(this.#directory), { throwIfNoEntry: false })
      return status === undefined ? 'none' : `${status.ino} ${status.size} ${status.mtimeMs}`
    })
    return [...versions, ...ring.keys.map(({ keyId }) => keyId)].join()
  }
}

function makeDirectory(directory: string): void {
  try {
    fs.mkdirSync(directory, { recursive: true })
  } catch (cause) {
    throw unusable(directory, cause)
  }
}

/** The files that a seal is written to, all of them open before anything is written to one. */
class Writers {
  readonly events: LineWriter
  readonly #checkpoints: LineWriter
  readonly #copy: LineWriter | null

  constructor(directory: string, copy: string | undefined) {
    this.#copy = copy === undefined ? null : new LineWriter(copy)
    this.events = new LineWriter(eventsFile(directory))
    this.#checkpoints = new LineWriter(checkpointsFile(directory))
  }

  write(checkpoint: LedgerCheckpoint): void {
    this.events.sync()
    for (const writer of [this.#checkpoints, this.#copy]) {
      writer?.append(JSON.stringify(checkpoint))
      writer?.sync()
    }
  }

  close(): void {
    for (const writer of [this.events, this.#checkpoints, this.#copy]) writer?.close()
  }
}
