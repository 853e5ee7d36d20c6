/**
 * The clock domain on platforms that cannot tell one boot from the next: made up by the first process that opens the
 * database, and shared by those that open it while another has it open. Elsewhere the tick source knows better.
 *
 * Each process leaves a file with its process id beside the database. When none of them is alive, nobody can be sure
 * that the monotonic clock is still the same one, so the domain is a new one.
 */
import fs from 'node:fs'
import path from 'node:path'
import { isProcessAlive, ownProcessId } from '../../runtime/processes.ts'
import type { TickSource } from '../../runtime/tick-source.ts'
import type { ClockState } from '../embedded-clock.ts'

export interface FirstOpenerOptions {
  readonly databasePath: string
  readonly ticks: TickSource
  /** The clock that the database remembers. */
  readonly last: ClockState | null
  uuid(): string
}

const OPENER_PATTERN = /^opener-(\d+)$/

export function firstOpenerDomain(options: FirstOpenerOptions): string {
  const { databasePath, ticks, last } = options
  if (ticks.domain !== null) return ticks.domain
  const directory = `${databasePath}-wake`
  fs.mkdirSync(directory, { recursive: true })
  const accompanied = otherOpeners(directory).some(isProcessAlive)
  fs.writeFileSync(path.join(directory, `opener-${ownProcessId()}`), '')
  const sameClock = accompanied && last !== null && last.lastUs <= ticks.tickUs()
  return sameClock ? last.base : `${ticks.host}/${options.uuid()}/0`
}

function otherOpeners(directory: string): readonly number[] {
  return fs
    .readdirSync(directory)
    .map((name) => Number(OPENER_PATTERN.exec(name)?.[1] ?? Number.NaN))
    .filter((pid) => Number.isSafeInteger(pid))
}
