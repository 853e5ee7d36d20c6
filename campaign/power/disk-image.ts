/**
 * What a disk may have after a loss of power. Everything up to the last sync of a file is there. Of what was written to the
 * file since, any part may be: each sector of 512 bytes by itself, in any order. What this does not cover: a disk that loses
 * what it has synced, and directory entries, which are taken for durable at once.
 */
import type { Random } from '../../sim/random.ts'
import type { DiskAct, DiskFile } from './recording.ts'

type Change = Extract<DiskAct, { kind: 'write' | 'truncate' }>

const SECTOR = 512

/** How much of what was not synced is there. */
export type Luck = 'nothing' | 'everything' | 'some'

export class Disk {
  readonly #durable: Record<DiskFile, Buffer> = { database: Buffer.alloc(0), log: Buffer.alloc(0) }
  readonly #pending: Record<DiskFile, Change[]> = { database: [], log: [] }

  take(act: DiskAct): void {
    if (act.kind === 'acknowledged') return
    if (act.kind !== 'sync') return void this.#pending[act.file].push(act)
    this.#durable[act.file] = changed(this.#durable[act.file], this.#pending[act.file])
    this.#pending[act.file] = []
  }

  get hasPending(): boolean {
    return this.#pending.database.length + this.#pending.log.length > 0
  }

  image(luck: Luck, random: Random): Readonly<Record<DiskFile, Buffer>> {
    return {
      database: this.#after('database', luck, random),
      log: this.#after('log', luck, random),
    }
  }

  #after(file: DiskFile, luck: Luck, random: Random): Buffer {
    const durable = this.#durable[file]
    if (luck === 'nothing') return durable
    const pending = this.#pending[file]
    if (luck === 'everything') return changed(durable, pending)
    const parts = pending.flatMap(sectorsOf).filter(() => random.chance(0.5))
    return changed(durable, shuffled(parts, random))
  }
}

/** A copy of the content after the changes, made in their order. */
function changed(content: Buffer, changes: readonly Change[]): Buffer {
  const ends = changes.map((change) => (change.kind === 'write' ? endOf(change) : change.size))
  const next = Buffer.alloc(Math.max(content.length, ...ends))
  content.copy(next)
  let size = content.length
  for (const change of changes) {
    if (change.kind === 'write') {
      change.data.copy(next, change.at)
      size = Math.max(size, endOf(change))
    } else {
      // A file that grows again has zeros there.
      next.fill(0, change.size)
      size = change.size
    }
  }
  return next.subarray(0, size)
}

function endOf({ at, data }: Extract<Change, { kind: 'write' }>): number {
  return at + data.length
}

/** Cut where the disk's sectors end. */
function sectorsOf(change: Change): readonly Change[] {
  if (change.kind === 'truncate') return [change]
  const { file, at, data } = change
  const parts: Change[] = []
  for (let from = 0; from < data.length;) {
    const to = Math.min(data.length, from + SECTOR - ((at + from) % SECTOR))
    parts.push({ kind: 'write', file, at: at + from, data: data.subarray(from, to) })
    from = to
  }
  return parts
}

function shuffled(changes: readonly Change[], random: Random): readonly Change[] {
  const order = changes.map((change) => ({ change, key: random.fraction() }))
  return order.toSorted((a, b) => a.key - b.key).map(({ change }) => change)
}
