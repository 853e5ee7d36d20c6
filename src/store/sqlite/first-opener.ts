/**
 * The clock domain on platforms that cannot tell one boot from the next: made up by the first process that opens the
 * database, and shared by those that open it while another has it open. Elsewhere the tick source knows better.
 *
 * The openers are rows of the database, read and written in one write transaction, so two processes cannot both be the
 * first. When none of them is alive, no process can be sure that the monotonic clock is still the same one, so the domain
 * is a new one. Its name has no boot, and therefore proves nothing about processes that used another.
 */
import { isProcessAlive, ownProcessId } from '../../runtime/processes.ts'
import type { TickSource } from '../../runtime/tick-source.ts'
import type { SqliteDatabase } from '../../drivers/sqlite-driver.ts'

export interface FirstOpenerOptions {
  readonly database: SqliteDatabase
  readonly ticks: TickSource
  readonly uuid: () => string
}

interface Opener {
  readonly pid: number
  readonly base: string
  readonly tick_us: number
}

/** To be called outside of any transaction; throws the driver's error when the database is busy. */
export function electDomain({ database, ticks, uuid }: FirstOpenerOptions): string {
  if (ticks.domain !== null) return ticks.domain
  database.exec('BEGIN IMMEDIATE')
  try {
    const openers = database.prepare('SELECT pid, base, tick_us FROM openers').all() as Opener[]
    const tickUs = ticks.tickUs()
    const companion = openers.find(({ pid, tick_us }) => isProcessAlive(pid) && tick_us <= tickUs)
    const base = companion?.base ?? `${ticks.host}//${uuid()}`
    if (companion === undefined) database.exec('DELETE FROM openers')
    database
      .prepare('INSERT OR REPLACE INTO openers VALUES (?, ?, ?)')
      .run(ownProcessId(), base, tickUs)
    database.exec('COMMIT')
    return base
  } catch (error) {
    if (database.inTransaction) database.exec('ROLLBACK')
    throw error
  }
}
