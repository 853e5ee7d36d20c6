/**
 * A sealed ledger on disk: `events.ndjson`, `checkpoints.ndjson`, and the registrar's public keys, in one directory.
 * Lines are only ever appended, and a checkpoint is written when its events are on the disk. Events are read and
 * written a piece at a time: there may be more of them than memory.
 */
import path from 'node:path'
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import { unusable } from '../delegation/key-file.ts'
import { parseCheckpoint, type LedgerCheckpoint } from '../ledger/ledger-checkpoint.ts'
import { fs } from '../runtime/file-system.ts'
import type { Questions } from '../service/lease-questions.ts'
import type { LedgerEntry, Position } from '../store-port/store.ts'

const PAGE = 5_000
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

/** Beside a SQLite file, unless another place was named. */
export function ledgerDirectoryOf(given: string | undefined, url: string, cwd: string): string {
  if (given !== undefined) return path.resolve(cwd, given)
  const file = sqliteFileOf(url)
  if (file !== null) return `${file}.ledger`
  throw invalid('ledger', 'must be given for a store that is not a file', url)
}

/** The file of a SQLite store; null for other stores. */
export function sqliteFileOf(url: string): string | null {
  return /^sqlite:([^?]+)/.exec(url)?.[1] ?? null
}

/** A checkpoint that cannot be read is a `DECODE_ERROR` with the file and the number of its line. */
export function readCheckpoints(file: string): readonly LedgerCheckpoint[] {
  const checkpoints: LedgerCheckpoint[] = []
  for (const line of linesIn(file)) {
    try {
      checkpoints.push(parseCheckpoint(line))
    } catch (cause) {
      const number = checkpoints.length + 1
      const why = isLeaseError(cause) ? cause.message : String(cause)
      const message = `checkpoint ${number} is not as it was sealed, got line ${number} of ${file}: ${why}`
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
  if (!fs.existsSync(file)) return
  const descriptor = openFile(file, 'r')
  try {
    let begun = Buffer.alloc(0)
    const chunk = Buffer.alloc(CHUNK_BYTES)
    for (;;) {
      const size = fs.readSync(descriptor, chunk)
      if (size === 0) return
      const bytes = Buffer.concat([begun, chunk.subarray(0, size)])
      let from = 0
      for (let end = bytes.indexOf(LINE_END); end >= 0; end = bytes.indexOf(LINE_END, from)) {
        yield bytes.toString('utf8', from, end)
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

function openFile(file: string, flags: 'r' | 'a+'): number {
  try {
    return fs.openSync(file, flags)
  } catch (cause) {
    throw unusable(file, cause)
  }
}

/** Appends lines to a file, which it makes and opens at once: whatever is wrong with it shows before anything is written. */
export class LineWriter {
  readonly #file: string
  readonly #descriptor: number
  #lines: string[] = []
  #length = 0

  constructor(file: string) {
    this.#file = file
    this.#descriptor = openFile(file, 'a+')
    dropTornLine(this.#descriptor)
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
    try {
      if (text !== '') fs.writeFileSync(this.#descriptor, text)
    } catch (cause) {
      throw unusable(this.#file, cause)
    }
  }
}

/** What a writer that died has left of its last line. */
function dropTornLine(descriptor: number): void {
  const { size } = fs.fstatSync(descriptor)
  const chunk = Buffer.alloc(CHUNK_BYTES)
  for (let end = size; end > 0;) {
    const from = Math.max(0, end - CHUNK_BYTES)
    fs.readSync(descriptor, chunk, 0, end - from, from)
    const last = chunk.subarray(0, end - from).lastIndexOf(LINE_END)
    const keep = last < 0 ? 0 : from + last + 1
    if (last >= 0 || from === 0) {
      if (keep < size) fs.ftruncateSync(descriptor, keep)
      return
    }
    end = from
  }
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
