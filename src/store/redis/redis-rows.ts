/** Reads entries, which redis-entry-text.ts writes, and says what both must know of them. */
import type { Delegation } from '../../core/delegation.ts'
import {
  type Claim,
  type Entry,
  type Lease,
  type LeaseState,
  type Metadata,
  type Ticket,
  type TicketState,
  type Under,
} from '../../core/lease.ts'
import type { Resource } from '../../core/resource.ts'
import type { Tick } from '../../core/time.ts'
import type { Kept } from '../speculation/backend.ts'
import { stateOf } from './redis-codes.ts'
import { CREATED_WIDTH, HEAD_JSON_AT } from './redis-script-preamble.ts'

/** The server's clock, whichever server it is: a failover must not end every lease. */
export const CLOCK_DOMAIN = 'redis/time/0#1'

/** Microseconds, or with its domain a tick of a clock that is not the server's. */
export type TickText = number | readonly [domain: string, us: number]

export function tickText({ domain, us }: Tick): TickText {
  return domain === CLOCK_DOMAIN ? us : [domain, us]
}

export function tickOf(text: TickText): Tick {
  if (typeof text === 'number') return { domain: CLOCK_DOMAIN, us: text }
  return { domain: text[0], us: text[1] }
}

export function maybeTickText(tick: Tick | null): TickText | null {
  return tick === null ? null : tickText(tick)
}

export function maybeTickOf(text: TickText | null): Tick | null {
  return text === null ? null : tickOf(text)
}

const ZEROS: readonly string[] = Array.from({ length: 17 }, (_, count) => '0'.repeat(count))

/** A number with zeros before it, up to 16 characters in all. */
export function digits(value: number, width: number): string {
  if (value === 0) return ZEROS[width] ?? ''
  const text = String(value)
  return (ZEROS[width - text.length] ?? '') + text
}

export const VERSION_WIDTH = 11

/** What `movingText` wrote, together with what it left out, in the order of `wholeText`. */
function movingOf(head: string): Fields {
  const fields = JSON.parse(head.slice(HEAD_JSON_AT, -CREATED_WIDTH)) as Fields
  const liveUs = Number(head.slice(38, 54))
  const state = stateOf(fields[0])
  if (fields.length <= TICKET_FIELDS_MAX) return [state, fields[1], fields[2] ?? liveUs]
  const [, ttlMs, renewedAtMs, expiresAtMs, terminatedAtMs, reason, tick = liveUs] = fields
  const renewals = Number(head.slice(54, 64))
  return [state, ttlMs, tick, renewedAtMs, expiresAtMs, terminatedAtMs, renewals, reason]
}

const TICKET_FIELDS_MAX = 3

export function wholeOf(fields: Fields): Fields {
  const [first, tick, expiresAtMs] = fields
  if (typeof first !== 'number') return fields
  return ['active', first, tick, null, expiresAtMs, null, 0, null]
}

/** Whether two states of one entry have the same body. What is asked for never changes but for mode, session and words. */
export function hasSameBody(before: Entry, after: Entry): boolean {
  if (before.mode !== after.mode || before.slots !== after.slots) return false
  if (before.reason !== after.reason || before.metadata !== after.metadata) return false
  if (before.session !== after.session || before.holder !== after.holder) return false
  if (before.kind === 'lease' && after.kind === 'lease') return isSameLease(before, after)
  if (before.kind === 'ticket' && after.kind === 'ticket') return isSameTicket(before, after)
  return false
}

function isSameLease(before: Lease, after: Lease): boolean {
  return (
    before.grantedAtMs === after.grantedAtMs &&
    before.holdUntilUs === after.holdUntilUs &&
    before.lockedUntil === after.lockedUntil &&
    before.revoking === after.revoking &&
    before.upgrading === after.upgrading &&
    before.adopted === after.adopted &&
    before.epoch === after.epoch &&
    before.delegation === after.delegation &&
    before.under === after.under
  )
}

function isSameTicket(before: Ticket, after: Ticket): boolean {
  return (
    before.group === after.group &&
    before.priority === after.priority &&
    before.orderUs === after.orderUs &&
    before.claimWindowMs === after.claimWindowMs &&
    before.offer === after.offer &&
    before.failure === after.failure &&
    before.cycle === after.cycle &&
    before.delegation === after.delegation &&
    before.under === after.under
  )
}

export type Fields = readonly unknown[]

export interface EntryParts {
  readonly id: string
  readonly fence: number
  /** What `wholeText` and `bodyText` say. */
  readonly moving: Fields
  readonly body: Fields
}

const ORDINARY_FIELDS = 4

/** All fields of a body, of which an ordinary lease is kept without those that are the same in all of them. */
function bodyOf(kept: Fields): Fields {
  if (kept.length !== ORDINARY_FIELDS) return kept
  const [resource, holder, session, createdAtMs] = kept
  const wish = ['l', resource, 'exclusive', 'exact', holder, session, -1, null, null, 0, false]
  const told = [null, null, createdAtMs, true, createdAtMs]
  return [...wish, ...told, null, null, null, false, true, 0]
}

export function entryOf({ id, fence, moving, body: kept }: EntryParts): Entry {
  const body = bodyOf(kept)
  const claim: Claim = {
    id,
    resource: body[1] as Resource,
    mode: body[2] as Claim['mode'],
    extent: body[3] as Claim['extent'],
    holder: body[4] as string,
    session: body[5] as string,
    ttlMs: moving[1] as number,
    maxRenewals: body[6] as number,
    maxHoldMs: body[7] as number | null,
    slots: body[8] as number | null,
    lockDelayMs: body[9] as number,
    breakable: body[10] as boolean,
    reason: body[11] as string | null,
    metadata: body[12] as Metadata | null,
    createdAtMs: body[13] as number,
    recorded: body[14] as boolean,
  }
  // Not several spreads in one literal: those cost about 2 us, and every entry that is read comes by here.
  const entry: Entry =
    body[0] === 't'
      ? Object.assign(claim, ticketFields(moving, body, fence))
      : Object.assign(claim, leaseFields(moving, body, fence))
  const delegation = body[22] as Delegation | null | undefined
  if (delegation !== undefined && delegation !== null) Object.assign(entry, { delegation })
  const under = body[23] as Under | undefined
  return under === undefined ? entry : Object.assign(entry, { under })
}

function leaseFields(moving: Fields, body: Fields, fence: number): Omit<Lease, keyof Claim> {
  return {
    kind: 'lease',
    state: moving[0] as LeaseState,
    fence,
    grantedAtMs: body[15] as number,
    renewedAtMs: moving[3] as number | null,
    expiresAtMs: moving[4] as number,
    terminatedAtMs: moving[5] as number | null,
    deadline: tickOf(moving[2] as TickText),
    holdUntilUs: body[16] as number | null,
    renewals: moving[6] as number,
    releaseReason: moving[7] as Lease['releaseReason'],
    lockedUntil: maybeTickOf(body[17] as TickText | null),
    revoking: body[18] as Lease['revoking'],
    upgrading: body[19] as boolean,
    adopted: body[20] as boolean,
    epoch: body[21] as number,
  }
}

function ticketFields(moving: Fields, body: Fields, fence: number): Omit<Ticket, keyof Claim> {
  const offered = maybeTickOf(body[19] as TickText | null)
  return {
    kind: 'ticket',
    state: moving[0] as TicketState,
    group: body[15] as string | null,
    priority: body[16] as number,
    orderUs: body[17] as number,
    deadline: tickOf(moving[2] as TickText),
    claimWindowMs: body[18] as number,
    offer: offered === null ? null : { fence, deadline: offered },
    failure: body[20] as Ticket['failure'],
    cycle: body[21] as Ticket['cycle'],
  }
}

/** An entry as the server keeps it. */
export interface KeptRecord extends Kept {
  /** When it was created, on the scale of positions of the ledger. */
  readonly created: number
}

const HEAD_PATTERN = /^\d{64}\[.*\]\d{16}$/

export function recordOf(id: string, head: string, body: string): KeptRecord {
  if (!HEAD_PATTERN.test(head)) throw new Error(`the head of entry ${id} is not one of Tenure's`)
  const fence = Number(head.slice(22, 38))
  return {
    entry: entryOf({ id, fence, moving: movingOf(head), body: JSON.parse(body) as Fields }),
    version: Number(head.slice(0, 11)),
    claim: Number(head.slice(11, 22)),
    created: Number(head.slice(-CREATED_WIDTH)),
  }
}

/** Ids, heads and bodies by turns. */
export function recordsOf(triples: readonly string[]): readonly KeptRecord[] {
  const records: KeptRecord[] = []
  for (let at = 0; at + 2 < triples.length; at += 3) {
    records.push(recordOf(triples[at] ?? '', triples[at + 1] ?? '', triples[at + 2] ?? ''))
  }
  return records
}
