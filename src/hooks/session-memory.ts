/**
 * What a hook must know of its session's earlier hooks: which content its agents have seen, which leases they were given,
 * what they were denied. Every hook is a process of its own and two may run at once, so the memory is a log to which each
 * appends whole lines, and this folds it. A line that was cut short by a kill says nothing.
 *
 * Losing it costs warnings, never exclusion: that is the store's.
 */
import type { HookOnFailure } from '../core/settings.ts'
import { parseJson } from '../runtime/json-text.ts'

export type MemoryRecord =
  /** The content of a file as an agent has seen or left it. */
  | { readonly k: 'seen'; readonly agent: string; readonly path: string; readonly hash: string }
  /** An edit was let through under this lease; null: under one that covers more than the file. */
  | {
      readonly k: 'edit'
      readonly agent: string
      readonly path: string
      readonly leaseId: string | null
      /** Which store the lease is in. */
      readonly store: string
      readonly atMs: number
    }
  /** What was let through is done. */
  | { readonly k: 'done'; readonly path: string; readonly atMs: number }
  /** The lease has ended, and the agent knows or need not. */
  | { readonly k: 'gone'; readonly leaseId: string }
  | { readonly k: 'denied'; readonly path: string; readonly atMs: number }
  /** What others hold that a command might write to, and how it stood before. */
  | {
      readonly k: 'watch'
      readonly agent: string
      readonly callId: string
      readonly atMs: number
      readonly files: readonly WatchedFile[]
    }
  | { readonly k: 'watched'; readonly callId: string }
  | { readonly k: 'policy'; readonly onFailure: HookOnFailure }

export interface WatchedFile {
  readonly path: string
  readonly hash: string
  readonly leaseId: string
  readonly holder: string
}

export interface RememberedFile {
  readonly path: string
  readonly agent: string
  readonly store: string
}

export interface SessionMemory {
  /** By agent and path, as `seenKey` says. */
  readonly seen: ReadonlyMap<string, string>
  readonly leases: ReadonlyMap<string, RememberedFile>
  /** When each path was last edited, by whichever agent of the session. */
  readonly editedAtMs: ReadonlyMap<string, number>
  /** When an edit of each path was last done. */
  readonly doneAtMs: ReadonlyMap<string, number>
  readonly deniedAtMs: ReadonlyMap<string, number>
  readonly watches: ReadonlyMap<string, Extract<MemoryRecord, { readonly k: 'watch' }>>
  readonly onFailure: HookOnFailure | null
}

export function seenKey(agent: string, path: string): string {
  return `${agent}\0${path}`
}

export const NO_MEMORY: SessionMemory = foldMemory([])

export function foldMemory(records: readonly MemoryRecord[]): SessionMemory {
  const seen = new Map<string, string>()
  const leases = new Map<string, RememberedFile>()
  const editedAtMs = new Map<string, number>()
  const doneAtMs = new Map<string, number>()
  const deniedAtMs = new Map<string, number>()
  const watches = new Map<string, Extract<MemoryRecord, { readonly k: 'watch' }>>()
  let onFailure: HookOnFailure | null = null
  for (const record of records) {
    switch (record.k) {
      case 'seen':
        seen.set(seenKey(record.agent, record.path), record.hash)
        break
      case 'edit':
        editedAtMs.set(record.path, record.atMs)
        deniedAtMs.delete(record.path)
        if (record.leaseId !== null) {
          const { path, agent, store } = record
          leases.set(record.leaseId, { path, agent, store })
        }
        break
      case 'done':
        doneAtMs.set(record.path, record.atMs)
        break
      case 'gone':
        leases.delete(record.leaseId)
        break
      case 'denied':
        deniedAtMs.set(record.path, record.atMs)
        break
      case 'watch':
        watches.set(record.callId, record)
        break
      case 'watched':
        watches.delete(record.callId)
        break
      case 'policy':
        onFailure = record.onFailure
        break
    }
  }
  return { seen, leases, editedAtMs, doneAtMs, deniedAtMs, watches, onFailure }
}

/** The same memory in as few records as it needs. */
export function compactMemory(memory: SessionMemory): readonly MemoryRecord[] {
  const { seen, leases, editedAtMs, doneAtMs, deniedAtMs, watches, onFailure } = memory
  return [
    ...[...seen].map(([key, hash]): MemoryRecord => {
      const [agent = '', path = ''] = key.split('\0')
      return { k: 'seen', agent, path, hash }
    }),
    ...[...editedAtMs].map(([path, atMs]): MemoryRecord => {
      return { k: 'edit', agent: '', path, leaseId: null, store: '', atMs }
    }),
    ...[...leases].map(([leaseId, { agent, path, store }]): MemoryRecord => {
      return { k: 'edit', agent, path, leaseId, store, atMs: editedAtMs.get(path) ?? 0 }
    }),
    ...[...doneAtMs].map(([path, atMs]): MemoryRecord => ({ k: 'done', path, atMs })),
    ...[...deniedAtMs].map(([path, atMs]): MemoryRecord => ({ k: 'denied', path, atMs })),
    ...watches.values(),
    ...(onFailure === null ? [] : [{ k: 'policy', onFailure } as const]),
  ]
}

/** Lines begin as well as end with a line break, so that what follows one that was cut short is whole. */
export function memoryText(records: readonly MemoryRecord[]): string {
  return records.map((record) => `\n${JSON.stringify(record)}\n`).join('')
}

const KINDS: ReadonlySet<unknown> = new Set([
  ...['seen', 'edit', 'done', 'gone', 'denied', 'watch', 'watched', 'policy'],
])

export function parseMemory(text: string): readonly MemoryRecord[] {
  return text.split('\n').flatMap((line): readonly MemoryRecord[] => {
    const record = line === '' ? null : (parseJson(line) as MemoryRecord | null | undefined)
    const isOne = typeof record === 'object' && record !== null && KINDS.has(record.k)
    return isOne ? [record] : []
  })
}
