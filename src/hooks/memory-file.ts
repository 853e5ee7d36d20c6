/**
 * The file of a session's memory: one for each session, in the state directory, removed when the session ends or nothing
 * was written to it for seven days.
 */
import { createHash } from 'node:crypto'
import path from 'node:path'
import { fs, ifThere } from '../runtime/file-system.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import {
  compactMemory,
  foldMemory,
  memoryText,
  NO_MEMORY,
  parseMemory,
  type MemoryRecord,
  type SessionMemory,
} from './session-memory.ts'

const SUFFIX = '.memory'
const KEPT_MS = 7 * 86_400_000
/** Beyond this it is written anew with what it comes to. What another hook appends at that very moment may be lost. */
const COMPACT_BYTES = 1_048_576
/** Beyond this nothing more is appended: a session that reads so many files goes without the warnings. */
const BYTES_MAX = 16 * COMPACT_BYTES

export class MemoryFile {
  readonly #file: string

  /** `session` is whatever names the session among all; it is not shown in the name of the file. */
  constructor(directory: string, session: string) {
    const digest = createHash('sha256').update(session).digest('hex').slice(0, 32)
    this.#file = path.join(directory, `${digest}${SUFFIX}`)
  }

  read(): SessionMemory {
    const bytes = ifThere(() => fs.readFileSync(this.#file))
    if (bytes === null) return NO_MEMORY
    const memory = foldMemory(parseMemory(bytes.toString()))
    if (bytes.length > COMPACT_BYTES) this.#replace(memory, bytes.length)
    return memory
  }

  append(records: readonly MemoryRecord[]): void {
    if (records.length === 0) return
    const size = ifThere(() => fs.statSync(this.#file))?.size ?? 0
    if (size > BYTES_MAX) return
    fs.mkdirSync(path.dirname(this.#file), { recursive: true, mode: 0o700 })
    fs.appendFileSync(this.#file, memoryText(records), { mode: 0o600 })
  }

  remove(): void {
    fs.rmSync(this.#file, { force: true })
  }

  /** Not if another hook has appended to it since, or has written it anew: then the next read does. */
  #replace(memory: SessionMemory, bytesRead: number): void {
    const fresh = `${this.#file}.${systemRuntime.uuid()}.new`
    fs.writeFileSync(fresh, memoryText(compactMemory(memory)), { mode: 0o600 })
    const size = ifThere(() => fs.statSync(this.#file))?.size
    if (size === bytesRead) fs.renameSync(fresh, this.#file)
    else fs.rmSync(fresh)
  }
}

/** Removes the memories of sessions that were not heard of for seven days. */
export function sweepMemories(directory: string, wallMs: number): void {
  const names = ifThere(() => fs.readdirSync(directory)) ?? []
  for (const name of names.filter((one) => one.includes(SUFFIX))) {
    const file = path.join(directory, name)
    const status = ifThere(() => fs.statSync(file))
    if (status !== null && wallMs - status.mtimeMs > KEPT_MS) fs.rmSync(file, { force: true })
  }
}
