/**
 * A group of attempts as the argument of the script that commits (redis-commit-script.ts), and its answer. The argument is
 * plain JSON, whose fields the script reads by these names. What is undefined is left out, because the script would take a
 * null for something. Numbers that the script only compares or copies are texts.
 */
import { recordedEvents } from '../../core/commit.ts'
import { liveDeadline, type LeaseId } from '../../core/lease.ts'
import { REQUEST_MEMORY_MS_MIN } from '../../core/limits.ts'
import { ancestorsOf, hasEpoch, isTree, realmOf, type Reach } from '../../core/resource.ts'
import type {
  Attempt,
  EntryWrite,
  GroupReply,
  Place,
  PlaceView,
  Reply,
  SeenClaim,
  VersionedEntry,
} from '../optimistic/backend.ts'
import type { SettingKey, SettingRow, SettingScope } from '../../core/settings.ts'
import { notUnderstood } from '../../drivers/redis-errors.ts'
import { LEDGER_SESSION } from './redis-layout.ts'
import { entryText, eventText, isLiveRecord, recordsOf, typeOf, wordOf } from './redis-records.ts'

export interface GroupFacts {
  readonly clock: number | undefined
  readonly settingsRevision: number
  readonly sender: string
  readonly channelOf: (session: string) => string
}

export function groupArgument(attempts: readonly Attempt[], facts: GroupFacts): string {
  const { clock, settingsRevision: revision, sender, channelOf } = facts
  return JSON.stringify({
    clock,
    revision,
    sender,
    ledgerChannel: channelOf(LEDGER_SESSION),
    ...namesIn(attempts),
    attempts: attempts.map((attempt) => attemptArgument(attempt, channelOf)),
  })
}

/**
 * What the script reads at once: of the hashes `live` (`fields`), `known` and `epochs`. Of the ids that are live only those are
 * looked for in the ledger whose record there changes.
 */
function namesIn(attempts: readonly Attempt[]): object {
  const [fields, known, epochs] = [new Set(['state']), new Set<string>(), new Set<string>()]
  for (const { places, writes, events } of attempts) {
    for (const { readSet, realm, own } of places) {
      const { leaseId, resource, requestId } = readSet
      fields.add(leaseId).add(realm)
      if (own === 0) known.add(leaseId)
      if (requestId !== null) known.add(requestId)
      if (hasEpoch(resource)) epochs.add(resource)
      if (!isTree(resource)) continue
      fields.add(resource)
      for (const above of ancestorsOf(resource)) fields.add(above)
    }
    for (const { id, before, after } of writes) {
      const entry = (after ?? before)?.entry
      if (entry === undefined) continue
      fields.add(id).add(entry.resource)
      if (!isLiveRecord(before) || !isLiveRecord(after)) known.add(id)
    }
    for (const { requestId } of events) if (requestId !== null) known.add(requestId)
  }
  return { fields: [...fields], known: [...known], epochs: [...epochs] }
}

function attemptArgument(attempt: Attempt, channelOf: GroupFacts['channelOf']): object {
  const { fromUs, beforeUs, wallMs, fences, epochs } = attempt
  const writes = attempt.writes.filter(({ before, after }) => before !== null || after !== null)
  return {
    notBefore: fromUs,
    validUntil: beforeUs,
    wall: wallMs,
    firstFence: fences?.first,
    lastFence: fences?.last,
    places: attempt.places.map(placeArgument),
    writes: writes.map(writeArgument),
    events: eventArguments(attempt, writes),
    marks: attempt.requests.map((mark) => markArgument(mark, wallMs)),
    epochs,
    wakes: attempt.wakes.map(({ session, leaseId }) => ({ channel: channelOf(session), leaseId })),
  }
}

/** `resource` is that of a tree; elsewhere it is the realm. */
function placeArgument({ readSet, realm, own, claims, behind, hasPrior, epoch }: Place): object {
  const { leaseId, requestId, resource, extent } = readSet
  const place = {
    id: leaseId,
    realm,
    ownVersion: String(own),
    request: requestId ?? undefined,
    hasPrior: hasPrior || undefined,
    epoch: hasEpoch(resource) ? epoch : undefined,
    // All live entries there, as realms list them; or the last of them; neither if they do not matter.
    claims: behind === undefined ? claims?.map(claimText).join('') : undefined,
    behind: behind && claimText(behind),
  }
  if (!isTree(resource)) return place
  const subtree = extent === 'subtree' || undefined
  return { ...place, resource, above: ancestorsOf(resource), subtree }
}

function claimText({ id, claim, record }: SeenClaim): string {
  return `${id} ${claim}${record === undefined ? 'e' : extentOf(record.entry)} `
}

/** `s` for a subtree, `e` for what is exact. */
function extentOf({ resource, extent }: Reach): string {
  return isTree(resource) && extent === 'subtree' ? 's' : 'e'
}

function writeArgument(write: EntryWrite): object {
  const { id, before, after } = write
  const entry = (after ?? before)?.entry
  if (entry === undefined) throw new Error(`nothing is to be written of entry ${id}`)
  const tickets = Number(isPending(after)) - Number(isPending(before))
  return {
    id,
    // Its version; 0 if it was not there.
    expected: String(before?.version ?? 0),
    isRecorded: entry.recorded || undefined,
    // Nothing is kept of it.
    isGone: after === null || undefined,
    ...(isLiveRecord(after)
      ? { head: `${after.version} ${after.claim}`, ...entryText(after.entry) }
      : {}),
    ...listFields(write),
    // How many tickets of the realm there are more.
    ...(tickets === 0 ? {} : { tickets, realm: realmOf(entry.resource) }),
  }
}

/**
 * In which lists it changes: where its claim is listed (`place`) and how, without `claim` it is not any more; its rank among the
 * deadlines, false for none any more; whose sets of live ids it joins or leaves.
 */
function listFields({ before, after }: EntryWrite): object {
  const was = isLiveRecord(before) ? before : null
  const is = isLiveRecord(after) ? after : null
  const entry = (is ?? was)?.entry
  if (entry === undefined) return {}
  const claim = is === null ? undefined : `${is.claim}${extentOf(entry)}`
  const isMoved = was?.entry.session !== is?.entry.session
  return {
    ...(was?.claim === is?.claim
      ? {}
      : { place: entry.resource, isTree: isTree(entry.resource) || undefined, claim }),
    due: is === null ? false : (liveDeadline(is.entry)?.us ?? 0),
    holder: was === null || is === null ? entry.holder : undefined,
    leaves: isMoved ? was?.entry.session : undefined,
    joins: isMoved ? is?.entry.session : undefined,
  }
}

function isPending(kept: VersionedEntry | null): boolean {
  return kept?.entry.state === 'pending'
}

function eventArguments({ events }: Attempt, writes: readonly EntryWrite[]): readonly object[] {
  const changes = writes.map(({ id, after }) => ({ id, after: after?.entry ?? null }))
  const begun = new Set<LeaseId>()
  return recordedEvents({ events, changes }).map((recorded) => {
    const { event, ended } = recorded
    const { leaseId: id, requestId } = event
    const write = writes.find((one) => one.id === id)
    const begins = write !== undefined && !isLiveRecord(write.before) && !begun.has(id)
    begun.add(id)
    return {
      id,
      ...eventText(recorded),
      request: requestId ?? undefined,
      // The entry was not live before.
      begins: begins || undefined,
      // The version of the entry that it ended.
      version: ended === null ? undefined : String(write?.after?.version ?? 1),
    }
  })
}

function markArgument(
  { requestId, leaseId, type, keepUntilMs }: Attempt['requests'][number],
  wallMs: number,
): object {
  const text = `${leaseId} ${wordOf(type)} ${keepUntilMs}`
  const isLong = keepUntilMs - wallMs > REQUEST_MEMORY_MS_MIN || undefined
  return { request: requestId, text, isLong }
}

/**
 * Clock, revision, settings, how far the clock is behind, how many attempts were looked at; then, by number from 1 on,
 * those of which there is more to say than that they were committed: by how much their fences were moved, or views.
 */
type ScriptAnswer = readonly [
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

/** What the server told, and what it left out because the attempt went behind it. */
function wholeOf(told: readonly unknown[], place: Place | undefined): PlaceView {
  const view = viewOf(told)
  if (view.isPartial !== true) return view
  const other = new Set(view.entries.map(({ entry }) => entry.id))
  const believed = place?.claims?.flatMap(({ id, record }) => {
    return record === undefined || other.has(id) ? [] : [record]
  })
  return { ...view, entries: [...(believed ?? []), ...view.entries] }
}

function viewOf(view: readonly unknown[]): PlaceView {
  const [fence, wallMs, tickets, epoch, leaseId, word, isPartial, ...records] = view
  return {
    entries: recordsOf(records),
    lastFence: numberOf(fence),
    lastWallMs: numberOf(wallMs),
    ticketCount: numberOf(tickets),
    prior: leaseId === '' ? null : { leaseId: String(leaseId), type: typeOf(String(word)) },
    epoch: numberOf(epoch),
    ...(isPartial === 1 ? { isPartial: true } : {}),
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
