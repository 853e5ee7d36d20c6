/** Answers of the script that commits, and settings as the server keeps them. */
import type { SettingKey, SettingRow, SettingScope } from '../../core/settings.ts'
import { notUnderstood } from '../../drivers/redis-errors.ts'
import type { Attempt, GroupReply, Place, PlaceView, Reply } from '../optimistic/backend.ts'
import { recordsOf, typeOf, type KeptRecord } from './redis-records.ts'

/**
 * Clock, revision, settings, how far the clock is behind, how many attempts were looked at; then, by number from 1 on,
 * those of which there is more to say than that they were committed: by how much their fences were moved, or views.
 */
export type ScriptAnswer = readonly [
  nowUs: number,
  revision: number,
  settings: readonly string[] | null,
  behindMs: number,
  attempts: number,
  ...told: unknown[],
]

const COMMITTED: Reply = { kind: 'committed', fencesMovedBy: 0 }

/**
 * The script has run when this reads its answer, so whatever cannot be understood leaves open what was written. An
 * attempt whose own answer is good is not told of that of another.
 */
export function groupReplyOf(
  answer: unknown,
  attempts: readonly Attempt[],
  url: string,
): GroupReply {
  try {
    const [nowUs, revision, settings, behindMs] = answer as ScriptAnswer
    const behind = numberOf(behindMs)
    return {
      nowUs: numberOf(nowUs),
      settingsRevision: numberOf(revision),
      settings: settings === null ? null : settingRows(settings),
      replies:
        behind > 0
          ? attempts.map(() => ({ kind: 'clock_behind', behindMs: behind }))
          : repliesOf(answer as ScriptAnswer, attempts, url),
    }
  } catch (error) {
    throw notUnderstood(error, { url, effect: attempts.length > 0 ? 'writes' : 'reads' })
  }
}

function repliesOf(
  answer: ScriptAnswer,
  attempts: readonly Attempt[],
  url: string,
): readonly Reply[] {
  const count = answer[4]
  if (count !== attempts.length) {
    throw new Error(`expected answers to ${attempts.length} attempts, got ${String(count)}`)
  }
  const replies = attempts.map(() => COMMITTED)
  for (let at = 5; at < answer.length; at += 2) {
    const index = numberOf(answer[at]) - 1
    const attempt = attempts[index]
    if (attempt === undefined) throw new Error(`expected one of ${count} attempts, got ${index}`)
    replies[index] = replyOf(answer[at + 1], attempt, url)
  }
  return replies
}

function replyOf(reply: unknown, { places }: Attempt, url: string): Reply {
  try {
    if (typeof reply === 'number') return { kind: 'committed', fencesMovedBy: reply }
    const views = reply as readonly (readonly unknown[])[]
    if (views.length !== places.length) {
      throw new Error(`expected ${places.length} views, got ${views.length}`)
    }
    return { kind: 'missed', views: views.map((view, index) => wholeOf(view, places[index])) }
  } catch (error) {
    return { kind: 'failed', error: notUnderstood(error, { url, effect: 'writes' }) }
  }
}

function numberOf(told: unknown): number {
  if (typeof told !== 'number') throw new Error(`expected a number, got ${String(told)}`)
  return told
}

/** What the server told, and what it left out because the attempt got in line behind it. */
function wholeOf(told: readonly unknown[], place: Place | undefined): PlaceView {
  const view = viewOf(told)
  if (view.isPart !== true) return view
  const other = new Set(view.entries.map(({ entry }) => entry.id))
  const believed = place?.claims?.flatMap(({ id, record }) => {
    return record === undefined || other.has(id) ? [] : [record]
  })
  return { ...view, entries: [...(believed ?? []), ...view.entries] }
}

/** A view as it is told, with the records as the server keeps them. */
export interface RecordView extends PlaceView {
  readonly entries: readonly KeptRecord[]
}

export function viewOf(view: readonly unknown[]): RecordView {
  const [fence, wallMs, tickets, epoch, leaseId, word, isPart, ...records] = view
  return {
    entries: recordsOf(records),
    lastFence: numberOf(fence),
    lastWallMs: numberOf(wallMs),
    ticketCount: numberOf(tickets),
    prior: leaseId === '' ? null : { leaseId: String(leaseId), type: typeOf(String(word)) },
    epoch: numberOf(epoch),
    ...(isPart === 1 ? { isPart: true } : {}),
  }
}

export function settingField({ key, scope, resourceId }: Omit<SettingRow, 'value'>): string {
  return JSON.stringify([key, scope, resourceId])
}

export function settingRows(pairs: readonly string[]): readonly SettingRow[] {
  const rows: SettingRow[] = []
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    const field = JSON.parse(pairs[at] ?? '') as [SettingKey, SettingScope, string | null]
    const [key, scope, resourceId] = field
    rows.push({ key, value: pairs[at + 1] ?? '', scope, resourceId })
  }
  return rows
}
