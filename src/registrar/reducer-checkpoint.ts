/**
 * A reducer's state as text, and back. The text is canonical: leases in order of id, fields in order of name, so its
 * hash is the digest of the state. The digest finds damage; a program that must fear forgery signs the text.
 */
import { createHash } from 'node:crypto'
import { LeaseError, show } from '../core/errors.ts'
import type { Lease, Ticket } from '../core/lease.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import type { LeaseTable } from './lease-table.ts'
import { parseTick, type LogicalTick } from './logical-tick.ts'
import { RegisteredLease } from './registered-lease.ts'
import { parseWallTime, type WallTime } from './wall-time.ts'

const VERSION = 1
const DIGEST_TAG = 'tenure-reducer-state/1\n'

type KeptTime = number | { readonly ns: string }

interface KeptTick {
  readonly value: number | { readonly n: string }
  readonly rateHz: number
  readonly domain: string
}

/** A lease as it is kept: the core's entry, and what is kept beside it. */
interface KeptLease {
  readonly entry: Lease
  readonly workId: string
  readonly issuedBy: string
  readonly issuedAt: KeptTime
  readonly expiresAt: KeptTime
  readonly issuedAtTick: KeptTick | null
  readonly expiresAtTick: KeptTick | null
  readonly signature: string
  readonly lastRenewedAt: KeptTime | null
  readonly terminatedAt: KeptTime | null
}

interface KeptState {
  readonly leases: readonly KeptLease[]
  readonly tickets: readonly Ticket[]
  readonly pruned: readonly string[]
}

export function digestOf(table: LeaseTable): string {
  return hashOf(canonicalJson(keptState(table)))
}

export function checkpointOf(table: LeaseTable): string {
  const state = canonicalJson(keptState(table))
  return `{"version":${VERSION},"digest":"${hashOf(state)}","state":${state}}`
}

/** Puts what a checkpoint tells into an empty table, or throws `DECODE_ERROR`. */
export function restoreTable(table: LeaseTable, text: unknown): void {
  const state = readCheckpoint(text)
  try {
    for (const kept of state.leases) {
      const lease = restoredLease(kept)
      if (table.leases.has(lease.leaseId)) throw new Error(`${lease.leaseId} is there twice`)
      table.put(lease, undefined)
    }
    for (const ticket of state.tickets) table.tickets.set(ticket.id, ticket)
    for (const digest of state.pruned) table.pruned.add(digest)
  } catch (cause) {
    throw undecodable('the checkpoint is not one of a reducer', cause)
  }
}

function keptState({ leases, tickets, pruned }: LeaseTable): KeptState {
  return {
    leases: ordered([...leases.values()]).map(keptLease),
    tickets: [...tickets.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    pruned: [...pruned].toSorted(),
  }
}

export function ordered(leases: readonly RegisteredLease[]): readonly RegisteredLease[] {
  return leases.toSorted((a, b) => (a.leaseId < b.leaseId ? -1 : 1))
}

function keptLease(lease: RegisteredLease): KeptLease {
  const { lastRenewedAt, terminatedAt, issuedAtTick, expiresAtTick } = lease
  return {
    entry: lease.entry,
    workId: lease.workId,
    issuedBy: lease.issuedBy,
    issuedAt: keptTime(lease.issuedAt),
    expiresAt: keptTime(lease.expiresAt),
    issuedAtTick: issuedAtTick === null ? null : keptTick(issuedAtTick),
    expiresAtTick: expiresAtTick === null ? null : keptTick(expiresAtTick),
    signature: Buffer.from(lease.term.registrarSignature).toString('base64url'),
    lastRenewedAt: lastRenewedAt === null ? null : keptTime(lastRenewedAt),
    terminatedAt: terminatedAt === null ? null : keptTime(terminatedAt),
  }
}

function keptTime(time: WallTime): KeptTime {
  return typeof time === 'number' ? time : { ns: String(time) }
}

function keptTick({ value, rateHz, domain }: LogicalTick): KeptTick {
  return { value: typeof value === 'number' ? value : { n: String(value) }, rateHz, domain }
}

function readCheckpoint(text: unknown): KeptState {
  if (typeof text !== 'string') throw undecodable(`the checkpoint must be text, got ${show(text)}`)
  const end = text.indexOf(',"state":')
  const head = /^\{"version":(\d+),"digest":"([0-9a-f]{64})"$/.exec(text.slice(0, Math.max(end, 0)))
  if (head === null || !text.endsWith('}')) {
    throw undecodable('the checkpoint does not begin and end as one')
  }
  if (head[1] !== String(VERSION)) {
    throw undecodable(`the checkpoint must be of version ${VERSION}, got ${head[1]}`)
  }
  const state = text.slice(end + ',"state":'.length, -1)
  if (hashOf(state) !== head[2]) throw undecodable('the checkpoint does not fit its digest')
  try {
    return JSON.parse(state) as KeptState
  } catch (cause) {
    throw undecodable('the checkpoint is no JSON', cause)
  }
}

function restoredLease(kept: KeptLease): RegisteredLease {
  const { entry, workId, issuedBy, lastRenewedAt, terminatedAt } = kept
  const issuedAt = restoredTime(kept.issuedAt)
  const origin = { workId, issuedBy, issuedAt, issuedAtTick: restoredTick(kept.issuedAtTick) }
  return new RegisteredLease(entry, origin, {
    expiresAt: restoredTime(kept.expiresAt),
    expiresAtTick: restoredTick(kept.expiresAtTick),
    registrarSignature: Buffer.from(kept.signature, 'base64url'),
    lastRenewedAt: lastRenewedAt === null ? null : restoredTime(lastRenewedAt),
    terminatedAt: terminatedAt === null ? null : restoredTime(terminatedAt),
  })
}

function restoredTime(time: KeptTime): WallTime {
  return parseWallTime('time', typeof time === 'number' ? time : BigInt(time.ns))
}

function restoredTick(tick: KeptTick | null): LogicalTick | null {
  if (tick === null) return null
  const { value, rateHz, domain } = tick
  const count = typeof value === 'number' ? value : BigInt(value.n)
  return parseTick('tick', { value: count, rateHz, domain })
}

function hashOf(text: string): string {
  return createHash('sha256').update(DIGEST_TAG).update(text).digest('hex')
}

function undecodable(message: string, cause?: unknown): LeaseError {
  return new LeaseError('DECODE_ERROR', message, { cause })
}
