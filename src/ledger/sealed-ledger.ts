/**
 * A ledger as lines of text that prove their own order. Each line holds one event of a store, its number in the file,
 * its position in the store, its realm, and the hash over all of that and over the line before it in the same realm.
 *
 * The hash is over the text of the line, so that verifying it needs no second opinion about how JSON is written.
 *
 * Between the events stand the rotations of the registrar's keys, in a chain of their own.
 *
 * A registrar that issues leases itself seals its own events the same way: such a line has a record instead of an event
 * of a store, all of them in one chain, and its number is its position.
 */
import { hash } from 'node:crypto'
import { LEASE_EVENT_TYPES, type LeaseEvent } from '../core/event.ts'
import { realmOf } from '../core/resource.ts'
import type { LedgerEntry, Position } from '../store-port/store.ts'
import { undecodable } from '../registrar/canonical-bytes.ts'
import type { Loose } from '../registrar/key-ring.ts'
import type { EventRecord } from '../registrar/payloads.ts'
import { jsonRecord, requireRecord } from '../registrar/read-payload.ts'

/** How far the chain of one realm has come. */
export interface RealmHead {
  readonly count: number
  readonly hash: string
}

/** No resource is without a name, so no realm of leases is called so. */
const KEYS_REALM = 'keys:'
const RECORDS_REALM = 'registrar:'
const CHAIN_TAG = 'tenure-chain/1\n'
const HASH_LENGTH = 64
const TAIL_LENGTH = ',"hash":""}'.length + HASH_LENGTH

/** Appends to a sealed ledger: knows the head of every realm. */
export class LedgerChain {
  readonly #heads = new Map<string, RealmHead>()
  #count = 0
  #lastPosition: Position | null = null
  #isAtRotation = false

  get count(): number {
    return this.#count
  }

  get lastPosition(): Position | null {
    return this.#lastPosition
  }

  /** Whether the last line is not an event, but a rotation of keys. */
  get isAtRotation(): boolean {
    return this.#isAtRotation
  }

  get heads(): ReadonlyMap<string, RealmHead> {
    return this.#heads
  }

  /** The next line, without its end. */
  append({ position, event }: LedgerEntry): string {
    const line = this.#appendTo(
      realmOf(event.resource),
      position,
      `"event":${JSON.stringify(event)}`,
    )
    this.#isAtRotation = false
    this.#lastPosition = position
    return line
  }

  /** The next line, of a registrar's own event. */
  appendRecord(event: EventRecord): string {
    const position = String(this.#count + 1)
    const record = JSON.stringify(jsonRecord(event))
    const line = this.#appendTo(RECORDS_REALM, position, `"record":${record}`)
    this.#isAtRotation = false
    this.#lastPosition = position
    return line
  }

  /** The next line, about the keys that sign and not about a lease: it has no place in the store. */
  appendRotation(rotation: Loose): string {
    this.#isAtRotation = true
    return this.#appendTo(KEYS_REALM, '', `"rotation":${JSON.stringify(rotation)}`)
  }

  #appendTo(realm: string, position: Position, content: string): string {
    const names = `"position":${JSON.stringify(position)},"realm":${JSON.stringify(realm)}`
    const body = `{"n":${this.#count + 1},${names},${content}`
    const link = this.#link(realm, body)
    this.#advance(realm, link)
    return `${body},"hash":"${link}"}`
  }

  /** Takes a line that must be the next; tells what is wrong with it, or null. */
  accept(line: string): string | null {
    const [, n, position, realm, kind] = LINE_PATTERN.exec(line) ?? []
    if (n === undefined || position === undefined || realm === undefined) return 'is no event'
    const names = { position: textOf(position), realm: textOf(realm) }
    if (names.position === null || names.realm === null) return 'is no event'
    const isRotation = kind === 'rotation'
    const isOfKeys = names.position === '' || names.realm === KEYS_REALM
    if (isOfKeys && !(isRotation && names.position === '' && names.realm === KEYS_REALM)) {
      return 'is no event'
    }
    if (isRotation && !isOfKeys) return 'is no rotation of keys'
    if ((kind === 'record') !== (names.realm === RECORDS_REALM)) return 'is no event'
    if (Number(n) !== this.#count + 1) return `is numbered ${n} instead of ${this.#count + 1}`
    const body = line.slice(0, -TAIL_LENGTH)
    const link = this.#link(names.realm, body)
    if (line.slice(-TAIL_LENGTH) !== `,"hash":"${link}"}`) return 'does not fit its hash'
    if (!isRotation && !this.#isLater(names.position)) return 'stands after a later one'
    this.#advance(names.realm, link)
    this.#isAtRotation = isRotation
    if (!isRotation) this.#lastPosition = names.position
    return null
  }

  #link(realm: string, body: string): string {
    const before = this.#heads.get(realm)?.hash ?? hash('sha256', `${CHAIN_TAG}${realm}`, 'hex')
    return hash('sha256', `${before}${body}`, 'hex')
  }

  /** Positions are opaque; only those that are plain numbers can be told apart here. */
  #isLater(position: Position): boolean {
    if (this.#lastPosition === null || !/^\d{1,15}$/.test(position)) return true
    return Number(position) > Number(this.#lastPosition)
  }

  #advance(realm: string, link: string): void {
    const { count } = this.#heads.get(realm) ?? { count: 0 }
    this.#heads.set(realm, { count: count + 1, hash: link })
    this.#count += 1
  }
}

const LINE_PATTERN =
  /^\{"n":(\d{1,15}),"position":("(?:[^"\\]|\\.){0,256}"),"realm":("(?:[^"\\]|\\.){1,8192}?"),"(event|rotation|record)":\{/

/** Most names need no decoding, and decoding is most of what a line costs. Null if it is no text after all. */
function textOf(json: string): string | null {
  if (!json.includes('\\')) return json.slice(1, -1)
  try {
    return JSON.parse(json) as string
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

/** The position that a line claims to have, for a reader that must be told where it is; null if it is no line. */
export function positionOf(line: string): Position | null {
  const position = LINE_PATTERN.exec(line)?.[2]
  return position === undefined ? null : textOf(position)
}

/** The realm in whose chain a line claims to stand; null if it is no line. */
export function realmNamed(line: string): string | null {
  const realm = LINE_PATTERN.exec(line)?.[3]
  return realm === undefined ? null : textOf(realm)
}

export function isRotationLine(line: string): boolean {
  return LINE_PATTERN.exec(line)?.[4] === 'rotation'
}

/** Whether a line is of a registrar's own event, and not of a store's. */
export function isRecordLine(line: string): boolean {
  return LINE_PATTERN.exec(line)?.[4] === 'record'
}

/** The registrar's own event of a line whose hash was verified, as a reducer takes it. */
export function recordOf(line: string): EventRecord {
  const { record } = parseLine(line)
  if (record !== undefined) return requireRecord(record)
  throw undecodable("a line of the ledger is no event of a registrar's own")
}

/** The event of a line whose hash was verified. */
export function entryOf(line: string): LedgerEntry {
  const { position, event } = parseLine(line)
  const isEvent = LEASE_EVENT_TYPES.some((type) => type === event?.type)
  if (typeof position === 'string' && isEvent) return { position, event }
  throw undecodable('a line of the ledger is no event of a lease')
}

interface ParsedLine {
  readonly position?: string
  readonly event: LeaseEvent
  readonly record?: EventRecord
}

function parseLine(line: string): ParsedLine {
  try {
    return JSON.parse(line) as ParsedLine
  } catch (cause) {
    throw undecodable('a line of the ledger is no JSON', cause)
  }
}

/** The lines of a file. A last line without an end was being written when its writer died, and does not count. */
export function linesOf(text: string): readonly string[] {
  const lines = text.split('\n')
  lines.pop()
  return lines
}
