/**
 * Groups of attempts as arguments of the script (redis-attempt-script.ts). What has a fixed width is put into one argument
 * per attempt, and names are sent once and then numbered: encoding, sending and taking in an argument costs more than
 * looking into one.
 */
import type { LeaseEvent } from '../../core/event.ts'
import { isLive, type Entry } from '../../core/lease.ts'
import { REQUEST_MEMORY_MS_MIN } from '../../core/limits.ts'
import { isTree, realmOf, type Reach, type Resource } from '../../core/resource.ts'
import type { Attempt, EntryWrite, Kept, Place } from '../speculation/backend.ts'
import { typeCode } from './redis-codes.ts'
import { bodyText, headText } from './redis-entry-text.ts'
import { eventText } from './redis-events.ts'
import { GroupLists, three } from './redis-names.ts'
import { oneByte, PackedTexts } from './redis-packed.ts'
import { addPlain } from './redis-plain-attempt.ts'
import { digits, hasSameBody, VERSION_WIDTH } from './redis-rows.ts'
import { DAY_MS, STATE_FIELD } from './redis-script-preamble.ts'
import { claimsText, isPending, modeOf, scoreText } from './redis-writes.ts'

export interface GroupFacts {
  /** The clock that a test has set, or empty. */
  readonly clock: string
  readonly settingsRevision: number
  readonly sender: string
  readonly channelOf: (session: string) => string
}

/** The one argument of the script. */
export function groupArgs(attempts: readonly Attempt[], facts: GroupFacts): readonly [Buffer] {
  const group = new GroupText(facts.channelOf, attempts[0])
  for (const attempt of attempts) group.add(attempt)
  return [group.list(facts, attempts.length)]
}

class GroupText {
  readonly #channelOf: (session: string) => string
  /** Whose times hold for the group. */
  readonly #first: Attempt | undefined
  readonly #lists = new GroupLists()
  /** What an attempt says that has no width, which comes after what it says of itself. */
  #items = new PackedTexts()

  constructor(channelOf: (session: string) => string, first: Attempt | undefined) {
    this.#channelOf = channelOf
    this.#first = first
    this.#lists.fields.numberOf(STATE_FIELD)
  }

  list({ clock, settingsRevision, sender }: GroupFacts, attempts: number): Buffer {
    const { fields, names, requests, rest } = this.#lists
    const sections = [fields.all, names.all, requests.all]
    const counts = sections.map(({ length }) => three(length)).join('') + three(attempts)
    const all = new PackedTexts()
    for (const text of [clock, String(settingsRevision), sender, counts]) all.add(text)
    all.add(timesText(this.#first))
    for (const section of sections) for (const text of section) all.add(text)
    all.append(rest)
    return all.list()
  }

  add(attempt: Attempt): void {
    const isOwn = this.#hasOwnTimes(attempt)
    if (!isOwn && addPlain(attempt, this.#lists)) return
    const { places, events, epochs, wakes, fences } = attempt
    const writes = attempt.writes.filter(isWrite)
    const items = new PackedTexts()
    this.#items = items
    let text = ''
    for (const place of places) text += this.#place(place)
    for (const write of writes) text += this.#write(write) + versionText(write, places)
    for (const event of events) items.add(eventText(event, bornWith(event, writes)))
    const eventsWithRequest = this.#marks(attempt, writes)
    text += eventsWithRequest.text
    for (const { resource, epoch } of epochs) text += this.#epoch(resource, epoch)
    for (const { session, leaseId } of wakes) {
      items.add(oneByte(this.#channelOf(session)))
      items.add(leaseId)
    }
    const counts =
      three(places.length) +
      three(writes.length) +
      three(events.length) +
      three(eventsWithRequest.count) +
      three(epochs.length) +
      three(wakes.length) +
      three(1 + items.count)
    const numbers = fences === null ? '' : digits(fences.first, 16) + digits(fences.last, 16)
    const flags = (isOwn ? '!' : '=') + (fences === null ? '-' : 'f')
    this.#lists.rest.add(flags + counts + numbers + (isOwn ? timesText(attempt) : '') + text)
    this.#lists.rest.append(items)
  }

  #field(name: string): string {
    return three(this.#lists.fields.numberOf(name))
  }

  #name(name: string): string {
    return three(this.#lists.names.numberOf(name))
  }

  #request(id: string | null): string {
    return three(id === null ? 0 : this.#lists.requests.numberOf(id))
  }

  #hasOwnTimes({ fromUs, beforeUs, wallMs }: Attempt): boolean {
    const first = this.#first
    if (first === undefined) return true
    return fromUs !== first.fromUs || beforeUs !== first.beforeUs || wallMs !== first.wallMs
  }

  #place({ footprint, realm, own, claims, behind, hasPrior, epoch }: Place): string {
    const { leaseId, requestId, resource } = footprint
    const shape = shapeOf(footprint)
    const listed = behind === undefined ? claims : [behind]
    const hasList = listed !== null && listed.length > 0
    if (hasList) this.#items.add(claimsText(listed))
    if (shape !== 'f') this.#items.add(oneByte(resource))
    const depth = behind !== undefined ? 't' : hasList ? 'l' : claims === null ? '*' : '0'
    const numbers = this.#field(leaseId) + this.#field(realm) + this.#request(requestId)
    const premises = digits(own, VERSION_WIDTH) + digits(epoch, 16)
    return shape + depth + (hasPrior ? '1' : '0') + numbers + premises
  }

  #write(write: EntryWrite): string {
    const { id, before, after } = write
    const entry = (after ?? before)?.entry
    if (entry === undefined) throw new Error(`nothing is to be written of entry ${id}`)
    const mode = modeOf(write)
    const shape = shapeOf(entry)
    const items = this.#items
    const hasBody = after !== null && (before === null || !hasSameBody(before.entry, after.entry))
    items.add(after === null ? '' : headText(after))
    if (hasBody) items.add(bodyText(entry))
    if (mode !== 'k') {
      items.add(scoreText(after))
      if (shape !== 'f') items.add(oneByte(entry.resource))
    }
    const flags = mode + shape + (hasBody ? 'b' : '-') + liveMark(before, after)
    const tickets = TICKETS[1 + Number(isPending(after)) - Number(isPending(before))] ?? '0'
    const session = this.#name(entry.session)
    const oldSession = before === null ? session : this.#name(before.entry.session)
    return (
      flags +
      (entry.recorded ? 'r' : 'u') +
      tickets +
      this.#field(id) +
      this.#field(realmOf(entry.resource)) +
      this.#name(entry.holder) +
      session +
      oldSession
    )
  }

  /** What request ids have done: `e` as long as its entry is kept, `m` until a moment. */
  #marks({ events, requests, wallMs }: Attempt, writes: readonly EntryWrite[]): Marks {
    let text = ''
    let count = 0
    for (const { requestId, leaseId, type } of events) {
      if (requestId === null) continue
      const ttlMs = writes.find(({ id }) => id === leaseId)?.after?.entry.ttlMs ?? 0
      text += this.#request(requestId) + longMark(Math.max(REQUEST_MEMORY_MS_MIN, ttlMs))
      this.#items.add(`${leaseId}e${typeCode(type)}`)
      count += 1
    }
    for (const { requestId, leaseId, type, keepUntilMs } of requests) {
      text += this.#request(requestId) + longMark(keepUntilMs - wallMs)
      this.#items.add(`${leaseId}m${typeCode(type)}${keepUntilMs}`)
      count += 1
    }
    return { text, count }
  }

  #epoch(resource: Resource, epoch: number): string {
    const shape = shapeOf({ resource, extent: 'exact' })
    if (shape !== 'f') this.#items.add(oneByte(resource))
    this.#items.add(digits(epoch, 16))
    return shape + this.#field(realmOf(resource))
  }
}

interface Marks {
  readonly text: string
  readonly count: number
}

const NO_VERSION = ' '.repeat(VERSION_WIDTH)

/** Blank where a place says the same. */
function versionText({ id, before }: EntryWrite, places: readonly Place[]): string {
  const version = before?.version ?? 0
  const [place] = places
  const isSaid = place?.footprint.leaseId === id && place.own === version
  return isSaid ? NO_VERSION : digits(version, VERSION_WIDTH)
}

/** One ticket less, as many, one more; as characters around `0`. */
const TICKETS = ['/', '0', '1']

function longMark(keepMs: number): string {
  return keepMs > DAY_MS ? '1' : '0'
}

function timesText(attempt: Attempt | undefined): string {
  if (attempt === undefined) return ''
  const { fromUs, beforeUs, wallMs } = attempt
  return digits(fromUs, 16) + digits(beforeUs, 16) + digits(wallMs, 13)
}

function isWrite({ before, after }: EntryWrite): boolean {
  return before !== null || after !== null
}

/** The entry that an event creates, if it does. A commit that rebuilds a store tells more of it than that. */
function bornWith(event: LeaseEvent, writes: readonly EntryWrite[]): Entry | null {
  if (event.before !== null) return null
  for (const { id, before, after } of writes) {
    if (id === event.leaseId) return before === null ? (after?.entry ?? null) : null
  }
  return null
}

/** Flat, or of a tree: exact, or with its subtree. */
function shapeOf({ resource, extent }: Reach): 'f' | 'x' | 's' {
  if (!isTree(resource)) return 'f'
  return extent === 'subtree' ? 's' : 'x'
}

/** Whether it comes to life, stays so, ends, or neither was nor is live. */
function liveMark(before: Kept | null, after: Kept | null): '+' | '=' | '-' | '0' {
  const was = before !== null && isLive(before.entry)
  const is = after !== null && isLive(after.entry)
  if (is) return was ? '=' : '+'
  return was ? '-' : '0'
}
