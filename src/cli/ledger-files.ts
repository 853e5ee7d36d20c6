/**
 * A sealed ledger on disk: `events.ndjson`, `checkpoints.ndjson`, and the registrar's public keys, in one directory.
 * Lines are only ever appended, and a checkpoint is written when its events are on the disk.
 */
import path from 'node:path'
import { invalid, LeaseError } from '../core/errors.ts'
import { formatKeyRing, signingKeyOf, type KeyRing } from '../ledger/key-ring.ts'
import { parseCheckpoint, sealChain, type LedgerCheckpoint } from '../ledger/ledger-checkpoint.ts'
import { LedgerChain, linesOf } from '../ledger/sealed-ledger.ts'
import { verifyLedger, type SealedLedger } from '../ledger/verify-ledger.ts'
import { fs } from '../runtime/file-system.ts'
import type { Questions } from '../service/lease-questions.ts'
import type { LedgerEntry, Position } from '../store-port/store.ts'
import { readText } from '../delegation/key-file.ts'

const PAGE = 5_000

/** Beside a SQLite file, unless another place was named. */
export function ledgerDirectoryOf(given: string | undefined, url: string, cwd: string): string {
  if (given !== undefined) return path.resolve(cwd, given)
  const [, file] = /^sqlite:([^?]+)/.exec(url) ?? []
  if (file !== undefined) return `${file}.ledger`
  throw invalid('ledger', 'must be given for a store that is not a file', url)
}

export function readSealedLedger(directory: string): SealedLedger {
  const lines = linesOf(readIfThere(path.join(directory, 'events.ndjson')))
  return { lines, checkpoints: readCheckpoints(path.join(directory, 'checkpoints.ndjson')) }
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
  readonly directory: string
  readonly ring: KeyRing
  readonly nowMs: number
  /** A second place for checkpoints, best on another machine. */
  readonly copy: string | undefined
}

/**
 * Appends what is new in the store and seals it. What is there already is verified first: nobody may be made to sign
 * what was tampered with.
 */
export async function sealLedger(
  questions: Pick<Questions, 'history'>,
  { directory, ring, nowMs, copy }: Sealing,
): Promise<LedgerCheckpoint> {
  const key = signingKeyOf(ring)
  fs.mkdirSync(directory, { recursive: true })
  const release = lockDirectory(directory)
  try {
    const known = readSealedLedger(directory)
    const { first } = verifyLedger(known, ring.keys)
    if (first !== null) {
      const message = `the sealed ledger must be whole, got line ${first.line} that ${first.problem}`
      throw new LeaseError('DECODE_ERROR', message, { details: { ...first } })
    }
    const chain = new LedgerChain()
    for (const line of known.lines) chain.accept(line)
    const lines: string[] = []
    for await (const entry of eventsAfter(questions, chain.lastPosition)) {
      lines.push(chain.append(entry))
    }
    const previous = known.checkpoints.at(-1) ?? null
    const checkpoint = sealChain(chain, { key, atMs: nowMs, previous })
    dropTornLine(path.join(directory, 'events.ndjson'))
    append(path.join(directory, 'events.ndjson'), lines)
    append(path.join(directory, 'checkpoints.ndjson'), [JSON.stringify(checkpoint)])
    if (copy !== undefined) append(copy, [JSON.stringify(checkpoint)])
    fs.writeFileSync(path.join(directory, 'keys.json'), formatKeyRing(ring, { secrets: false }))
    return checkpoint
  } finally {
    release()
  }
}

/** Two that seal at once would number their lines alike. */
function lockDirectory(directory: string): () => void {
  const file = path.join(directory, 'sealing')
  try {
    fs.closeSync(fs.openSync(file, 'wx'))
  } catch (cause) {
    const message = `only one may seal at a time, got ${file} (remove it if its maker died)`
    throw new LeaseError('STORE_CONFLICT', message, { cause })
  }
  return () => fs.rmSync(file, { force: true })
}

/** What a writer that died has left of its last line. */
function dropTornLine(file: string): void {
  const text = readIfThere(file)
  const end = text.lastIndexOf('\n') + 1
  if (end !== text.length) fs.truncateSync(file, Buffer.byteLength(text.slice(0, end)))
}

function append(file: string, lines: readonly string[]): void {
  const descriptor = fs.openSync(file, 'a')
  try {
    if (lines.length > 0) fs.writeSync(descriptor, `${lines.join('\n')}\n`)
    fs.fsyncSync(descriptor)
  } finally {
    fs.closeSync(descriptor)
  }
}
