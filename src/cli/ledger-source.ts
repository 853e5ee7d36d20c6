/** Where the ledger of a store is sealed to, and the events that it is sealed from. */
import path from 'node:path'
import { invalid, isLeaseError } from '../core/errors.ts'
import type { Questions } from '../service/lease-questions.ts'
import { unescapedPath } from '../store-address.ts'
import type { LedgerEntry, Position } from '../store-port/store.ts'

const PAGE = 5_000

/** Beside a SQLite file, unless another place was named. */
export function ledgerDirectoryOf(given: string | undefined, url: string, cwd: string): string {
  if (given !== undefined) return path.resolve(cwd, given)
  const file = sqliteFileOf(url)
  if (file !== null) return `${file}.ledger`
  throw invalid('ledger', 'must be given for a store that is not a file', url)
}

/** The file of a SQLite store; null for other stores. */
export function sqliteFileOf(url: string): string | null {
  const [, file] = /^sqlite:([^?]+)/.exec(url) ?? []
  return file === undefined ? null : unescapedPath(file)
}

/** The files that a SQLite store is kept in; none for other stores. */
export function storeFilesOf(url: string): readonly string[] {
  const file = sqliteFileOf(url)
  return file === null ? [] : ['', '-wal', '-shm', '-journal'].map((end) => `${file}${end}`)
}

/** All events after a position, page by page. */
export async function* eventsAfter(
  questions: Pick<Questions, 'history'>,
  after: Position | null,
): AsyncGenerator<LedgerEntry> {
  let position = after
  for (;;) {
    const page = await pageAfter(questions, position, PAGE)
    yield* page
    position = page.at(-1)?.position ?? position
    if (page.length < PAGE) return
  }
}

/** Nothing where the store has not reached the position, as one that was lost and made anew has not. */
export async function pageAfter(
  questions: Pick<Questions, 'history'>,
  after: Position | null,
  limit: number,
): Promise<readonly LedgerEntry[]> {
  const from = after === null ? {} : { after }
  try {
    return await questions.history({ ...from, limit, refusals: false })
  } catch (error) {
    if (isLeaseError(error, 'INVALID_INPUT') && error.details['field'] === 'after') return []
    throw error
  }
}
