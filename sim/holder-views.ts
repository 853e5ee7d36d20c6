/**
 * The time during which each holder considered a lease its own, by its handle: from the answer of the grant to the
 * earliest reason to stop, and in which mode.
 */
import type { LeaseId } from '../src/core/lease.ts'
import type { Extent, Mode, Resource } from '../src/core/resource.ts'
import type { Believed, Logged } from './log.ts'

/** A span in one mode. */
export interface HolderView {
  readonly session: string
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly mode: Mode
  readonly slots: number | null
  readonly fromUs: number
  readonly untilUs: number
}

export type Look = Believed & { readonly atUs: number }

/** All that one handle saw. */
export interface HandleLog {
  readonly session: string
  readonly leaseId: LeaseId
  readonly looks: readonly Look[]
  /** When it heard that the lease was lost. */
  readonly signalUs: number | null
  /** When it released, abandoned or closed it by itself, or died. */
  readonly letGoUs: number | null
}

interface HandleRecord {
  readonly session: string
  readonly leaseId: LeaseId
  readonly looks: Look[]
  signalUs: number | null
  letGoUs: number | null
}

export function handleLogs(log: readonly Logged[]): readonly HandleLog[] {
  const records = new Map<string, HandleRecord>()
  for (const entry of log) {
    if (entry.kind === 'believed') recordOf(records, entry).looks.push(entry)
    else if (entry.kind === 'signal') recordOf(records, entry).signalUs ??= entry.atUs
    else if (entry.kind === 'let_go') recordOf(records, entry).letGoUs ??= entry.atUs
    else if (entry.kind === 'crashed' || entry.kind === 'closed') {
      for (const record of records.values()) {
        if (record.session === entry.session) record.letGoUs ??= entry.atUs
      }
    }
  }
  return [...records.values()]
}

function recordOf(
  records: Map<string, HandleRecord>,
  { session, leaseId }: { readonly session: string; readonly leaseId: LeaseId },
): HandleRecord {
  const name = `${session} ${leaseId}`
  const known = records.get(name)
  if (known !== undefined) return known
  const record = { session, leaseId, looks: [], signalUs: null, letGoUs: null }
  records.set(name, record)
  return record
}

/** A view ends at the earliest of the release, the signal, and the holder's own deadline as it last knew it. */
export function holderViews(handles: readonly HandleLog[]): readonly HolderView[] {
  return handles.flatMap((handle) => {
    const first = handle.looks[0]
    if (first === undefined || !isHolding(first)) return []
    let { deadlineUs } = first
    const changes: Look[] = [first]
    for (const look of handle.looks) {
      if (look.atUs >= deadlineUs || !isHolding(look)) continue
      deadlineUs = look.deadlineUs
      if (look.mode !== changes.at(-1)?.mode) changes.push(look)
    }
    const endUs = Math.min(deadlineUs, handle.signalUs ?? Infinity, handle.letGoUs ?? Infinity)
    return changes.map((look, index) => {
      const { session, leaseId, resource, extent, mode, slots, atUs: fromUs } = look
      const untilUs = Math.min(endUs, changes[index + 1]?.atUs ?? Infinity)
      return { session, leaseId, resource, extent, mode, slots, fromUs, untilUs }
    })
  })
}

export function isHolding({ state }: Believed): boolean {
  return state === 'held' || state === 'uncertain'
}
