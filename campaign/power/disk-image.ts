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
    for (const change of this.#pending[act.file])
      this.#durable[act.file] = changed(this.#durable[act.file], change)
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
    if (luck === 'everything') return pending.reduce(changed, durable)
    const parts = pending.flatMap(sectorsOf).filter(() => random.chance(0.5))
    return shuffled(parts, random).reduce(changed, durable)
  }
}

function changed(content: Buffer, change: Change): Buffer {
  if (change.kind === 'truncate') return resized(content, change.size)
  const { at, data } = change
  const next =
    content.length < at + data.length ? resized(content, at + data.length) : Buffer.from(content)
  data.copy(next, at)
  return next
}

function resized(content: Buffer, size: number): Buffer {
  const next = Buffer.alloc(size)
  content.copy(next, 0, 0, Math.min(size, content.length))
  return next
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
