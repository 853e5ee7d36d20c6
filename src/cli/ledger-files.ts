/**
 * A sealed ledger on disk: `events.ndjson`, `checkpoints.ndjson`, and the registrar's public keys, in one directory.
 * Lines are only ever appended, and a checkpoint is written when its events are on the disk.
 */
import path from 'node:path'
import { invalid, LeaseError } from '../core/errors.ts'
import { formatKeyRing, signingKeyOf, type KeyRing } from '../ledger/key-ring.ts'
import { parseCheckpoint, sealChain, type LedgerCheckpoint } from '../ledger/ledger-checkpoint.ts'
import { rotationsToRecord } from '../ledger/recorded-rotation.ts'
import { isRotationLine, LedgerChain, linesOf } from '../ledger/sealed-ledger.ts'
import { verifyLedger, type SealedLedger } from '../ledger/verify-ledger.ts'
import { fs } from '../runtime/file-system.ts'
import type { Questions } from '../service/lease-questions.ts'
import type { LedgerEntry, Position } from '../store-port/store.ts'
import { readText } from '../delegation/key-file.ts'
import { takeTurn } from './turn.ts'

const PAGE = 5_000
const EVENTS = 'events.ndjson'
const CHECKPOINTS = 'checkpoints.ndjson'

/** Beside a SQLite file, unless another place was named. */
export function ledgerDirectoryOf(given: string | undefined, url: string, cwd: string): string {
  if (given !== undefined) return path.resolve(cwd, given)
  const [, file] = /^sqlite:([^?]+)/.exec(url) ?? []
  if (file !== undefined) return `${file}.ledger`
  throw invalid('ledger', 'must be given for a store that is not a file', url)
}

export function readSealedLedger(directory: string): SealedLedger {
  const lines = linesOf(readIfThere(path.join(directory, EVENTS)))
  return { lines, checkpoints: readCheckpoints(path.join(directory, CHECKPOINTS)) }
}

export function readCheckpoints(file: string): readonly LedgerCheckpoint[] {
  return linesOf(readIfThere(file)).map(parseCheckpoint)
}

function readIfThere(file: string): string {
  return fs.existsSync(file) ? readText(file) : ''
}

/** All events after a position, page by page. */
export async function* eventsAfter(
  questions: Pick<Questions, 'history'>,
  after: Position | null,
): AsyncGenerator<LedgerEntry> {
  let position = after
  for (;;) {
    const from = position === null ? {} : { after: position }
    const page = await questions.history({ ...from, limit: PAGE })
    yield* page
    position = page.at(-1)?.position ?? position
    if (page.length < PAGE) return
  }
}

export interface Sealing {
  readonly ring: KeyRing
  readonly nowMs: number
  /** A second place for checkpoints, best on another machine. */
  readonly copy: string | undefined
}

/** What is known of the files since they were last read or written. */
interface Known {
  readonly chain: LedgerChain
  readonly last: LedgerCheckpoint | null
  readonly rotations: readonly string[]
  /** Of the files: who changes them changes it too. */
  readonly version: string
}

/**
 * Appends what is new in the store and seals it. What is there already is verified first: nobody may be made to sign
 * what was tampered with. Whoever seals again and again reads it again only when somebody else has written it.
 */
export class LedgerSealer {
  readonly #questions: Pick<Questions, 'history'>
  readonly #directory: string
  #known: Known | null = null

  constructor(questions: Pick<Questions, 'history'>, directory: string) {
    this.#questions = questions
    this.#directory = directory
  }

  async seal({ ring, nowMs, copy }: Sealing): Promise<LedgerCheckpoint> {
    const key = signingKeyOf(ring)
    fs.mkdirSync(this.#directory, { recursive: true })
    const endTurn = takeTurn({ directory: this.#directory, name: 'sealing', act: 'seal' })
    try {
      const { chain, last, rotations } = this.#current(ring)
      this.#known = null
      const recorded = rotationsToRecord(ring, rotations).map((each) => chain.appendRotation(each))
      const lines = [...recorded]
      for await (const entry of eventsAfter(this.#questions, chain.lastPosition)) {
        lines.push(chain.append(entry))
      }
      const checkpoint = sealChain(chain, { key, atMs: nowMs, previous: last })
      this.#write(lines, checkpoint, copy)
      const file = path.join(this.#directory, 'keys.json')
      fs.writeFileSync(file, formatKeyRing(ring, { secrets: false }))
      const told = [...rotations, ...recorded]
      this.#known = { chain, last: checkpoint, rotations: told, version: this.#version() }
      return checkpoint
    } finally {
      endTurn()
    }
  }

  #current(ring: KeyRing): Known {
    const version = this.#version()
    if (this.#known?.version === version) return this.#known
    const ledger = readSealedLedger(this.#directory)
    const { first } = verifyLedger(ledger, ring.keys)
    if (first !== null) {
      const message = `the sealed ledger must be whole, got line ${first.line} that ${first.problem}`
      throw new LeaseError('DECODE_ERROR', message, { details: { ...first } })
    }
    const chain = new LedgerChain()
    for (const line of ledger.lines) chain.accept(line)
    const rotations = ledger.lines.filter(isRotationLine)
    return { chain, last: ledger.checkpoints.at(-1) ?? null, rotations, version }
  }

  #write(lines: readonly string[], checkpoint: LedgerCheckpoint, copy: string | undefined): void {
    const text = JSON.stringify(checkpoint)
    append(path.join(this.#directory, EVENTS), lines)
    append(path.join(this.#directory, CHECKPOINTS), [text])
    if (copy !== undefined) append(copy, [text])
  }

  #version(): string {
    const versions = [EVENTS, CHECKPOINTS].map((name) => {
      const status = fs.statSync(path.join(this.#directory, name), { throwIfNoEntry: false })
      return status === undefined ? 'none' : `${status.ino} ${status.size} ${status.mtimeMs}`
    })
    return versions.join()
  }
}

/** What a writer that died has left of its last line. */
function dropTornLine(file: string): void {
  const text = readIfThere(file)
  const end = text.lastIndexOf('\n') + 1
  if (end !== text.length) fs.truncateSync(file, Buffer.byteLength(text.slice(0, end)))
}

function append(file: string, lines: readonly string[]): void {
  dropTornLine(file)
  const descriptor = fs.openSync(file, 'a')
  try {
    if (lines.length > 0) fs.writeFileSync(descriptor, `${lines.join('\n')}\n`)
    fs.fsyncSync(descriptor)
  } finally {
    fs.closeSync(descriptor)
  }
}
