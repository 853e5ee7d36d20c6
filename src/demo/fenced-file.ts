/**
 * A file that refuses writers who lost their lease. The highest fence that ever wrote is kept beside it, in
 * `NAME.fence`, and each write checks it.
 *
 * The check and the write must be one atom, or a writer could be paused between the two. So the mark is a tiny SQLite
 * database and the write happens inside its transaction: one writer at a time, and if it is killed in the middle the
 * operating system takes its lock away. (A guard file made with O_EXCL would stay behind and block every agent.)
 */
import fs from 'node:fs'
import { loadSqlite, type SqliteDatabase } from '../drivers/sqlite-driver.ts'

export type WriteResult =
  { readonly kind: 'wrote' } | { readonly kind: 'refused'; readonly highestFence: number }

const BUSY_MS = 5_000

export class FencedFile {
  readonly #path: string
  readonly #mark: SqliteDatabase

  static async open(path: string): Promise<FencedFile> {
    const Driver = await loadSqlite()
    return new FencedFile(path, new Driver(`${path}.fence`, { timeout: BUSY_MS }))
  }

  private constructor(path: string, mark: SqliteDatabase) {
    this.#path = path
    this.#mark = mark
    mark.pragma('synchronous = OFF')
    mark.exec('CREATE TABLE IF NOT EXISTS mark (fence INTEGER NOT NULL)')
  }

  /** Appends a line unless a writer with a higher fence has written before. */
  append(line: string, fence: number): WriteResult {
    this.#mark.exec('BEGIN IMMEDIATE')
    try {
      const highestFence = this.#highestFence()
      if (highestFence > fence) return { kind: 'refused', highestFence }
      this.#mark.exec('DELETE FROM mark')
      this.#mark.prepare('INSERT INTO mark (fence) VALUES (?)').run(fence)
      fs.appendFileSync(this.#path, `${line}\n`)
      this.#mark.exec('COMMIT')
      return { kind: 'wrote' }
    } finally {
      if (this.#mark.inTransaction) this.#mark.exec('ROLLBACK')
    }
  }

  close(): void {
    this.#mark.close()
  }

  #highestFence(): number {
    const row = this.#mark.prepare('SELECT coalesce(max(fence), 0) FROM mark').raw().get()
    return Array.isArray(row) ? Number(row[0]) : 0
  }
}
