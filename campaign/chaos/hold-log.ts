/**
 * What a worker writes down about itself, one JSON array a line, in a file of its own. Times are microseconds of the host's
 * monotonic clock, read by the worker, so that the lines of all workers of a host can be compared. A hold is one lease as
 * its holder sees it; holds are numbered in each file.
 */
import fs from 'node:fs'

export type HoldLine =
  /** The lease was asked for at `askedUs` and is granted; its holder believes in it until `untilUs`, as it knows at this moment. */
  | readonly [
      kind: 'start',
      atUs: number,
      hold: number,
      resource: number,
      fence: number,
      untilUs: number,
      askedUs: number,
    ]
  | readonly [kind: 'renewed', atUs: number, hold: number, untilUs: number]
  /** The holder does not believe in it any more: before it sends its release, or when it hears of its loss. */
  | readonly [kind: 'end', atUs: number, hold: number, why: 'released' | 'lost']
  /** The store has answered the release. One that was sent and not answered has no such line. */
  | readonly [kind: 'released', atUs: number, hold: number]
  /** A guarded write: its number in the order in which the guard took them, or null if it was refused. */
  | readonly [kind: 'write', atUs: number, hold: number, order: number | null]
  /** A request that was answered and not granted. */
  | readonly [kind: 'refused', atUs: number, code: string]
  /** The store could not be used, or did not say what it did. */
  | readonly [kind: 'error', atUs: number, code: string]

/** Lines are written at once and whole, so that a killed worker leaves what it had done so far. */
export class HoldLog {
  readonly #file: number

  constructor(path: string) {
    this.#file = fs.openSync(path, 'a')
  }

  write(line: HoldLine): void {
    fs.writeSync(this.#file, `${JSON.stringify(line)}\n`)
  }
}

const CHUNK_BYTES = 1 << 16

/** Reads a log line by line, without ever having all of it. */
export class HoldLogReader {
  readonly #file: number
  readonly #chunk = Buffer.alloc(CHUNK_BYTES)
  #rest = ''
  #lines: string[] = []
  #at = 0
  #isAtEnd = false

  constructor(path: string) {
    this.#file = fs.openSync(path, 'r')
  }

  /**
   * The next line; null at the end. `unreadable` for a line that is none, or has a field that is none. What has no end of line was being written when
   * its worker was killed, and does not count.
   */
  next(): HoldLine | 'unreadable' | null {
    while (this.#at === this.#lines.length) if (!this.#fill()) return null
    const line = this.#lines[this.#at] ?? ''
    this.#at += 1
    return readLine(line)
  }

  #fill(): boolean {
    if (this.#isAtEnd) return false
    const bytes = fs.readSync(this.#file, this.#chunk, 0, CHUNK_BYTES, null)
    if (bytes === 0) {
      this.#isAtEnd = true
      fs.closeSync(this.#file)
      return false
    }
    const parts = `${this.#rest}${this.#chunk.toString('latin1', 0, bytes)}`.split('\n')
    this.#rest = parts.pop() ?? ''
    this.#lines = parts
    this.#at = 0
    return true
  }
}

type FieldCheck = (value: unknown) => boolean

/** A number that is none, which a worker may have come by, is null in JSON. */
const isTime: FieldCheck = (value) => Number.isFinite(value) && Number(value) >= 0
const isCount: FieldCheck = (value) => Number.isSafeInteger(value) && Number(value) > 0
const isOrder: FieldCheck = (value) => value === null || value === 0 || isCount(value)
const isEnd: FieldCheck = (value) => value === 'released' || value === 'lost'
const isCode: FieldCheck = (value) => typeof value === 'string'

/** What follows the kind. */
const FIELDS: ReadonlyMap<unknown, readonly FieldCheck[]> = new Map(
  Object.entries({
    start: [isTime, isCount, isCount, isCount, isTime, isTime],
    renewed: [isTime, isCount, isTime],
    end: [isTime, isCount, isEnd],
    released: [isTime, isCount],
    write: [isTime, isCount, isOrder],
    refused: [isTime, isCode],
    error: [isTime, isCode],
  } satisfies Record<HoldLine[0], readonly FieldCheck[]>),
)

function readLine(text: string): HoldLine | 'unreadable' {
  try {
    const line: unknown = JSON.parse(text)
    return isHoldLine(line) ? line : 'unreadable'
  } catch (error) {
    if (error instanceof SyntaxError) return 'unreadable'
    throw error
  }
}

function isHoldLine(line: unknown): line is HoldLine {
  if (!Array.isArray(line)) return false
  const [kind, ...values] = line as readonly unknown[]
  const checks = FIELDS.get(kind)
  if (checks?.length !== values.length) return false
  return checks.every((check, index) => check(values[index]))
}
