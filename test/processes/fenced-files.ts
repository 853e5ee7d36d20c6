/**
 * A downstream resource that checks fences, independent of Tenure: a table of writes, each taken only if no write
 * with a higher fence came before it. The order of the rows is the order in which they were taken.
 */
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'

export interface TakenWrite {
  readonly resource: string
  readonly fence: number
}

export class FencedFiles {
  readonly #database: SqliteDatabase

  static async open(path: string): Promise<FencedFiles> {
    const Driver = await loadSqlite()
    return new FencedFiles(new Driver(path, { timeout: 10_000 }))
  }

  private constructor(database: SqliteDatabase) {
    this.#database = database
    database.pragma('journal_mode = WAL')
    database.pragma('synchronous = OFF')
    database.exec('CREATE TABLE IF NOT EXISTS writes (resource TEXT, fence INTEGER)')
    database.exec('CREATE INDEX IF NOT EXISTS by_resource ON writes (resource, fence)')
  }

  /** True if the write was taken. Check and write are one statement, so nothing comes between them. */
  write(resource: string, fence: number): boolean {
    const sql = `INSERT INTO writes SELECT ?, ? WHERE NOT EXISTS (
      SELECT 1 FROM writes WHERE resource = ? AND fence > ?)`
    return this.#database.prepare(sql).run(resource, fence, resource, fence).changes === 1
  }

  taken(): readonly TakenWrite[] {
    return this.#database
      .prepare('SELECT resource, fence FROM writes ORDER BY rowid')
      .all() as TakenWrite[]
  }

  close(): void {
    this.#database.close()
  }
}
