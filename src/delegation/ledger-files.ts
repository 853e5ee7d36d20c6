/**
 * A sealed ledger on disk: `events.ndjson`, `checkpoints.ndjson`, and the registrar's public keys, in one directory.
 * Lines are only ever appended, and a checkpoint is written when its events are on the disk. Events are read and
 * written a piece at a time: there may be more of them than memory.
 */
import { isUtf8 } from 'node:buffer'
import path from 'node:path'
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import {
  formatKeyRing,
  parseKeyRing,
  ringOfSuccession,
  signingKeyOf,
  type KeyRing,
} from '../registrar/key-ring.ts'
import { parseCheckpoint, type LedgerCheckpoint } from '../ledger/ledger-checkpoint.ts'
import { report } from '../runtime/diagnostics.ts'
import { fs } from '../runtime/file-system.ts'
import { ownProcessId } from '../runtime/system-runtime.ts'
import { readText, using } from './key-file.ts'

const CHUNK_BYTES = 1_048_576
/** Far beyond any event: resource, holder, reason and metadata are all bounded. */
const LINE_BYTES_MAX = 16 * CHUNK_BYTES
const LINE_END = 10

export function eventsFile(directory: string): string {
  return path.join(directory, 'events.ndjson')
}

export function checkpointsFile(directory: string): string {
  return path.join(directory, 'checkpoints.ndjson')
}

export function publicKeysFile(directory: string): string {
  return path.join(directory, 'keys.json')
}

/** What a line of each file begins with. */
export const LINE_BEGINNINGS = { event: '{"n":', checkpoint: '{"sequence":' } as const

/**
 * Refuses to write where something else is kept: the files must be different ones, by whatever names and links they are
 * reached. `others` are not written to, and may be named more than once.
 */
export function refuseSameFiles(written: readonly string[], others: readonly string[]): void {
  const known = new Map(others.map((file) => [identityOf(file), file]))
  for (const file of written) {
    const identity = identityOf(file)
    const same = known.get(identity)
    if (same !== undefined) throw invalid('file', `must be another one than ${same}`, file)
    known.set(identity, file)
  }
}

function identityOf(file: string): string {
  const status = using(file, () => fs.statSync(file, { bigint: true, throwIfNoEntry: false }))
  if (status !== undefined) return `${status.dev} ${status.ino}`
  const directory = path.dirname(file)
  return directory === file ? file : `${identityOf(directory)}/${path.basename(file)}`
}

/** A checkpoint that cannot be read is a `DECODE_ERROR` with the file and the number of its line. */
export function readCheckpoints(file: string): readonly LedgerCheckpoint[] {
  const checkpoints: LedgerCheckpoint[] = []
  for (const line of linesIn(file)) {
    try {
      checkpoints.push(parseCheckpoint(line))
    } catch (cause) {
      if (!isLeaseError(cause)) throw cause
      const number = checkpoints.length + 1
      const message = `checkpoint ${number} is not as it was sealed, got line ${number} of ${file}: ${cause.message}`
      throw new LeaseError('DECODE_ERROR', message, { details: { line: number }, cause })
    }
  }
  return checkpoints
}

/**
 * The lines of a file, none where there is no file. A last line without an end was being written when its writer died,
 * and does not count.
 */
export function* linesIn(file: string): Generator<string> {
  if (isFileAbsent(file)) return
  const descriptor = using(file, () => fs.openSync(file, 'r'))
  try {
    let begun = Buffer.alloc(0)
    const chunk = Buffer.alloc(CHUNK_BYTES)
    for (;;) {
      const size = using(file, () => fs.readSync(descriptor, chunk))
      if (size === 0) return
      const bytes = Buffer.concat([begun, chunk.subarray(0, size)])
      let from = 0
      for (let end = bytes.indexOf(LINE_END); end >= 0; end = bytes.indexOf(LINE_END, from)) {
        yield textOf(bytes.subarray(from, end))
        from = end + 1
      }
      begun = bytes.subarray(from)
      if (begun.length > LINE_BYTES_MAX) {
        throw new LeaseError('DECODE_ERROR', `a line of ${file} is longer than any event`)
      }
    }
  } finally {
    fs.closeSync(descriptor)
  }
}

/** Bytes that are no UTF-8 would all be read as one character, which a line may have: they are taken for others instead. */
function textOf(line: Buffer): string {
  return line.toString(isUtf8(line) ? 'utf8' : 'latin1')
}

/** Only what is not there is absent; what cannot be looked at is an error. */
export function isFileAbsent(file: string): boolean {
  return using(file, () => fs.statSync(file, { throwIfNoEntry: false })) === undefined
}

/** Appends lines to a file, which it makes and opens at once: what is wrong with it shows before anything is written. */
export class LineWriter {
  readonly #file: string
  readonly #descriptor: number
  #lines: string[] = []
  #length = 0

  /** `beginning`: of its lines. What a writer that died has left of one is cut off; anything else is refused. */
  constructor(file: string, beginning: string) {
    this.#file = file
    this.#descriptor = using(file, () => fs.openSync(file, 'a+'))
    const { keep, size, begun } = tornLine(this.#descriptor)
    if (keep === size) return
    if (isBegun(begun, beginning)) fs.ftruncateSync(this.#descriptor, keep)
    else {
      this.close()
      throw invalid('file', `must end with a line that begins ${beginning}`, file)
    }
  }

  append(line: string): void {
    this.#lines.push(line)
    this.#length += line.length
    if (this.#length >= CHUNK_BYTES) this.#flush()
  }

  /** Puts all that was appended on the disk. */
  sync(): void {
    this.#flush()
    fs.fsyncSync(this.#descriptor)
  }

  close(): void {
    fs.closeSync(this.#descriptor)
  }

  #flush(): void {
    const text = this.#lines.map((line) => `${line}\n`).join('')
    this.#lines = []
    this.#length = 0
    if (text !== '') using(this.#file, () => fs.writeFileSync(this.#descriptor, text))
  }
}

interface TornLine {
  readonly size: number
  /** Where the last line that was written whole ends. */
  readonly keep: number
  /** The first characters after it. */
  readonly begun: string
}

const BEGUN_BYTES = 64

function tornLine(descriptor: number): TornLine {
  const { size } = fs.fstatSync(descriptor)
  const keep = endOfLines(descriptor, size)
  const bytes = Buffer.alloc(Math.min(BEGUN_BYTES, size - keep))
  fs.readSync(descriptor, bytes, 0, bytes.length, keep)
  return { size, keep, begun: bytes.toString('utf8') }
}

function endOfLines(descriptor: number, size: number): number {
  const chunk = Buffer.alloc(CHUNK_BYTES)
  for (let end = size; end > 0;) {
    const from = Math.max(0, end - CHUNK_BYTES)
    fs.readSync(descriptor, chunk, 0, end - from, from)
    const last = chunk.subarray(0, end - from).lastIndexOf(LINE_END)
    if (last >= 0) return from + last + 1
    end = from
  }
  return 0
}

function isBegun(begun: string, beginning: string): boolean {
  return begun.startsWith(beginning) || beginning.startsWith(begun)
}

/** A file that is written as a whole beside the one that it replaces in the end, so that no reader sees half of it. */
export class Replacement {
  readonly #file: string
  readonly #temporary: string
  #descriptor: number | null

  /** Throws when nothing can be written there. */
  constructor(file: string) {
    this.#file = isFileAbsent(file) ? file : fs.realpathSync(file)
    this.#temporary = `${this.#file}.${ownProcessId()}.new`
    this.#descriptor = using(file, () => {
      fs.rmSync(this.#temporary, { force: true })
      const descriptor = fs.openSync(this.#temporary, 'wx')
      const mode = fs.statSync(this.#file, { throwIfNoEntry: false })?.mode
      if (mode !== undefined) fs.fchmodSync(descriptor, mode)
      return descriptor
    })
  }

  commit(text: string): void {
    const descriptor = this.#descriptor
    if (descriptor === null) throw new Error('it was written before')
    using(this.#file, () => {
      fs.writeFileSync(descriptor, text)
      fs.fsyncSync(descriptor)
      this.#close()
      fs.renameSync(this.#temporary, this.#file)
    })
  }

  /** Leaves nothing behind, whether or not it was written. What went wrong before is not lost over it. */
  end(): void {
    try {
      this.#close()
      fs.rmSync(this.#temporary, { force: true })
    } catch (error) {
      report('ledger/replacement', error)
    }
  }

  #close(): void {
    if (this.#descriptor !== null) fs.closeSync(this.#descriptor)
    this.#descriptor = null
  }
}

export function makeDirectory(directory: string): void {
  using(directory, () => fs.mkdirSync(directory, { recursive: true }))
}

/** What lies beside the ledger is public, and is replaced; a file with a secret in it, or with anything else, is not. */
export function requirePublicKeys(file: string): void {
  if (isFileAbsent(file)) return
  const expectation = 'must be public keys that are written anew'
  try {
    if (parseKeyRing(readText(file)).keys.every(({ signing }) => signing === null)) return
  } catch (error) {
    throw isLeaseError(error) ? invalid('keys.json', expectation, file) : error
  }
  throw invalid('keys.json', expectation, file)
}

/** The public keys of the registrar that signs, beside what it has signed. */
export function writePublicKeys(directory: string, ring: KeyRing): void {
  const replacement = new Replacement(publicKeysFile(directory))
  const own = ringOfSuccession(ring, signingKeyOf(ring).keyId)
  try {
    replacement.commit(formatKeyRing(own, { secrets: false }))
  } finally {
    replacement.end()
  }
}

/** The files of a ledger that grow, both of them open before anything is written to one. */
export class LedgerWriters {
  readonly events: LineWriter
  readonly #checkpoints: LineWriter

  constructor(directory: string) {
    this.events = new LineWriter(eventsFile(directory), LINE_BEGINNINGS.event)
    this.#checkpoints = new LineWriter(checkpointsFile(directory), LINE_BEGINNINGS.checkpoint)
  }

  write(checkpoint: LedgerCheckpoint): void {
    this.#checkpoints.append(JSON.stringify(checkpoint))
    this.#checkpoints.sync()
  }

  close(): void {
    this.events.close()
    this.#checkpoints.close()
  }
}
