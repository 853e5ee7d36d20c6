/**
 * The six tools. Each reads its arguments by `tool-shapes.ts`, asks the host, and answers with what a model can go on with: being
 * refused is an answer like any other, with who is in the way and what to do next. Nothing is remembered between calls: a
 * ticket is the id that its lease will have, and a call that names it within one claim window keeps its place.
 */
import type { Acquired, CallerConnection } from '../client/caller-connection.ts'
import type { Blocker } from '../core/conflict.ts'
import { isAloneOn } from '../core/covering-leases.ts'
import { invalid, isLeaseError, type LeaseError } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import {
  AGENT_HOLD_MS_MAX,
  CLAIM_WINDOW_MS_MAX,
  LIST_LIMIT_DEFAULT,
  UNDER_MAX,
  WAIT_MS_MAX,
} from '../core/limits.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { Reach } from '../core/resource.ts'
import type { Shape, ValueOf } from '../protocol/shape.ts'
import { reportTo } from '../runtime/diagnostics.ts'
import type { AcquireAllRequest } from '../service/lease-api.ts'
import { listAll } from '../service/list-all.ts'
import type { LeaseHost } from './lease-host.ts'
import * as shapes from './tool-shapes.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'

export type View = Readonly<Record<string, unknown>>

export interface LeaseTool {
  readonly says: string
  readonly input: Shape<object>
  readonly output: Shape<object>
  readonly isReading: boolean
  /** `asked` was read by `input`. */
  readonly run: (host: LeaseHost, asked: never, connection: CallerConnection) => Promise<View>
}

/** Marks a lease that was acquired through a tool, which the process renews. */
const TOOL_METADATA: Readonly<Record<string, string>> = { 'tenure.via': 'mcp' }

/** A derived lease carries no metadata, and ends with its parent in any case. */
export function isToolLease({ metadata, parentId }: LeaseInfo): boolean {
  return (parentId ?? null) !== null || metadata?.['tenure.via'] === TOOL_METADATA['tenure.via']
}

const changing = { isReading: false } as const
const reading = { isReading: true } as const

export const LEASE_TOOLS: Readonly<Record<string, LeaseTool>> = {
  lease_acquire: {
    ...{ ...changing, input: shapes.ACQUIRE, output: shapes.GRANT_ANSWER, run: acquire },
    says: 'Take leases on files or other resources before you change them: all of them or none.',
  },
  lease_wait: {
    ...{ ...changing, input: shapes.WAIT, output: shapes.GRANT_ANSWER, run: wait },
    says: 'Go on waiting for what lease_acquire has queued; keeps your place.',
  },
  lease_renew: {
    ...{ ...changing, input: shapes.RENEW, output: shapes.RENEW_ANSWER, run: renew },
    says: 'Give leases their time anew.',
  },
  lease_release: {
    ...{ ...changing, input: shapes.RELEASE, output: shapes.RELEASE_ANSWER, run: release },
    says: 'Give leases back, or leave a queue.',
  },
  lease_status: {
    ...{ ...reading, input: shapes.STATUS, output: shapes.STATUS_ANSWER, run: status },
    says: 'Who holds these, why and until when.',
  },
  lease_list: {
    ...{ ...reading, input: shapes.LIST, output: shapes.LIST_ANSWER, run: list },
    says: 'All live leases and waiting requests.',
  },
}

async function acquire(
  host: LeaseHost,
  asked: ValueOf<typeof shapes.ACQUIRE>,
  connection: CallerConnection,
): Promise<View> {
  const { mode = 'exclusive', waitMs = 0, reason = null } = asked
  const holder = await callerOf(host, asked)
  const ttlMs = asked.ttlMs ?? host.ttlMs
  const members = asked.resources.map((text) => {
    return { id: host.runtime.uuid(), ...host.readReach(text), mode }
  })
  const inside = await insideParent(host, asked.parent, members)
  if (inside !== null) return deriveAll(host, inside, { holder, reason })
  const under = waitMs === 0 ? {} : { under: (await heldIds(host, holder)).slice(0, UNDER_MAX) }
  const group: Group = {
    ...{ group: host.runtime.uuid(), members, holder, reason, metadata: TOOL_METADATA, ...under },
    ...(ttlMs === null ? { isRenewed: true } : { ttlMs: Math.min(ttlMs, AGENT_HOLD_MS_MAX) }),
    maxHoldMs: AGENT_HOLD_MS_MAX,
  }
  return obtain(host, group, { connection, waitMs })
}

type Member = Group['members'][number]
type Inside = readonly { readonly member: Member; readonly parent: LeaseInfo }[]

/** The leases that each resource is inside of; null unless the parent has all of them to itself. */
async function insideParent(
  { api }: LeaseHost,
  holder: string | undefined,
  members: readonly Member[],
): Promise<Inside | null> {
  if (holder === undefined) return null
  const leases: LeaseInfo[] = []
  for await (const page of listAll(api, { holder, state: 'active' })) leases.push(...page)
  const inside = members.flatMap((member) => {
    const { resource, extent = 'exact' } = member
    const parent = leases.find((lease) => isAloneOn(lease, { resource, extent }))
    return parent === undefined ? [] : [{ member, parent }]
  })
  return inside.length === members.length ? inside : null
}

interface Derivation {
  readonly holder: string
  readonly reason: string | null
}

/** All of them or none, as with other leases: what was derived is released again where one of them is refused or fails. */
async function deriveAll(host: LeaseHost, inside: Inside, asked: Derivation): Promise<View> {
  const tried: string[] = []
  const leases: LeaseInfo[] = []
  try {
    for (const { member, parent } of inside) {
      tried.push(member.id)
      leases.push(await derive(host, { member, parent }, asked))
    }
    return grantedView(host, leases)
  } catch (error) {
    const { holder } = asked
    const ends = Promise.all(tried.map((id) => endOne(host, { id, holder, note: undefined })))
    await ends.catch(reportTo('mcp/release'))
    if (isLeaseError(error)) return refusedView(error)
    throw error
  }
}

/** Throws every refusal. */
async function derive(
  { api }: LeaseHost,
  { member, parent }: Inside[number],
  { holder, reason }: Derivation,
): Promise<LeaseInfo> {
  const { id, resource, extent = 'exact', mode = 'exclusive' } = member
  const answer = await api.derive({
    ...{ id, resource, extent, mode, holder, session: holder, reason, by: parent.holder },
    parent: { id: parent.id, resource: parent.resource, extent: parent.extent },
  })
  if (answer.kind === 'queued') throw new Error('a derivation does not wait')
  if (answer.kind === 'granted') return answer.lease
  throw refusalError(answer)
}

/** What a ticket waits for stands in the store, so that another server can go on with it. */
async function wait(
  host: LeaseHost,
  asked: ValueOf<typeof shapes.WAIT>,
  connection: CallerConnection,
): Promise<View> {
  const { tickets: ids, waitMs = shapes.TOOL_WAIT_MS_MAX } = asked
  const holder = await callerOf(host, asked)
  const tickets = await Promise.all(ids.map((id) => host.api.get({ id })))
  const named = tickets.map((ticket, index) => {
    if (ticket !== null) return ticket
    throw invalid('tickets', 'must be those of a request that waits', ids[index])
  })
  const [first] = named
  if (first === undefined || named.some(({ state }) => state === 'failed')) {
    return { granted: false, next: 'The place was lost. Call lease_acquire again.' }
  }
  const members = [...named, ...(await othersOf(host, named))]
  const { ttlMs, maxHoldMs, reason, metadata } = first
  const group: Group = {
    ...{ group: first.group ?? first.id, members: members.map(memberOf), holder },
    ...{ ttlMs, reason, metadata, ...(maxHoldMs === null ? {} : { maxHoldMs }) },
  }
  return obtain(host, group, { connection, waitMs })
}

/** What was asked for together is had together, or not at all, however few of the tickets are named. */
async function othersOf(
  { api }: LeaseHost,
  named: readonly LeaseInfo[],
): Promise<readonly LeaseInfo[]> {
  const [first] = named
  if (first === undefined || first.group === null) return []
  const { group, holder } = first
  const others: LeaseInfo[] = []
  for await (const page of listAll(api, { holder, state: 'pending' })) {
    others.push(...page.filter((one) => one.group === group))
  }
  return others.filter(({ id }) => !named.some((one) => one.id === id))
}

function memberOf({ id, resource, extent, mode }: LeaseInfo): Group['members'][number] {
  return { id, resource, extent, mode }
}

/** One resource or several; what is the same for every request of a tool is added when it is sent. */
type Group = Omit<AcquireAllRequest, 'session' | 'sequential' | 'waitMs' | 'claimWindowMs'>

interface Patience {
  readonly connection: CallerConnection
  readonly waitMs: number
}

async function obtain(host: LeaseHost, group: Group, patience: Patience): Promise<View> {
  const { connection, waitMs } = patience
  const timed = waitMs === 0 ? null : new TimedConnection(connection, host.runtime, waitMs)
  try {
    const { leases } = await send(host, group, timed ?? connection, waitMs)
    return grantedView(host, leases)
  } catch (error) {
    if (timed?.isOver === true && isLeaseError(error, 'ABORTED')) return placeOf(host, group)
    if (isLeaseError(error)) return refusedView(error)
    throw error
  } finally {
    timed?.stop()
  }
}

function grantedView(host: LeaseHost, leases: readonly LeaseInfo[]): View {
  host.onGranted(leases)
  const next = `${host.lifetime} Read the files again before you edit them; call lease_release when you are done.`
  return { granted: true, leases: leases.map(leaseView), next }
}

/** The holder's name is its session, as on the command line: what it has taken by other ways is its own as well. */
function send(
  host: LeaseHost,
  group: Group,
  connection: CallerConnection,
  waitMs: number,
): Promise<Acquired> {
  const { group: id, members, ...common } = group
  const request = {
    ...{ ...common, session: group.holder, sequential: true },
    // The next call says how long it waits; a ticket without a further call ends one claim window later.
    ...{ waitMs: waitMs === 0 ? 0 : WAIT_MS_MAX, claimWindowMs: CLAIM_WINDOW_MS_MAX },
  }
  const [only] = members
  if (members.length > 1 || only === undefined) {
    return host.acquireAll({ ...request, group: id, members }, connection)
  }
  return host.acquire({ ...request, ...only }, connection)
}

async function placeOf({ api }: LeaseHost, { members }: Group): Promise<View> {
  const tickets = members.map(({ id }) => id)
  const found = await Promise.all(
    members.map(({ resource, extent = 'exact' }) => api.inspect({ resource, extent })),
  )
  const places = found.map(({ queue }, index) => {
    return queue.findIndex(({ id }) => id === tickets[index]) + 1
  })
  const place = Math.max(1, ...places)
  const blockers = found
    .flatMap((one) => one.blockers)
    .filter(({ kind, leaseId }) => kind !== 'ticket' && !tickets.includes(leaseId))
  const seconds = CLAIM_WINDOW_MS_MAX / 1_000
  const next = `Call lease_wait with these tickets within ${seconds} s to keep your place, or lease_release them and work on something else.`
  return { granted: false, tickets, place, blockers: blockers.map(blockerView), next }
}

const NEXT_STEPS: Readonly<Record<string, string>> = {
  RESOURCE_HELD: 'Work on something else, or call lease_acquire with waitMs to stand in the queue.',
  WAIT_TIMEOUT: 'Work on something else, or call lease_acquire again.',
  DEADLOCK: 'Others wait for what you hold: release it, then ask again.',
}

/** Throws what is no answer to whether the resource can be had. */
function refusedView(error: LeaseError): View {
  const step = NEXT_STEPS[error.code]
  if (step === undefined) throw error
  const { blockers = [] } = error.details as { readonly blockers?: readonly Blocker[] }
  return { granted: false, blockers: blockers.map(blockerView), next: `${error.message}. ${step}` }
}

async function renew(host: LeaseHost, asked: ValueOf<typeof shapes.RENEW>): Promise<View> {
  const holder = await callerOf(host, asked)
  const { leases = await heldIds(host, holder), ttlMs } = asked
  const longer = ttlMs === undefined ? {} : { ttlMs }
  const answers = await Promise.all(
    leases.map((id) => {
      return host.api.renew({ id, holder, requestId: host.runtime.uuid(), ...longer })
    }),
  )
  const renewed = answers.flatMap((answer) => {
    return answer.kind === 'renewed' ? [leaseView(answer.lease)] : []
  })
  const refused = answers.flatMap((answer, index) => {
    return answer.kind === 'renewed' ? [] : [refusalView(leases[index], answer)]
  })
  return { renewed, refused }
}

async function release(host: LeaseHost, asked: ValueOf<typeof shapes.RELEASE>): Promise<View> {
  const holder = await callerOf(host, asked)
  const { leases = await heldIds(host, holder), note } = asked
  const ends = await Promise.all(leases.map((id) => endOne(host, { id, holder, note })))
  const released = leases.filter((_id, index) => ends[index] === null)
  for (const id of released) host.onReleased(id)
  return { released, refused: ends.filter((end) => end !== null) }
}

interface Ending {
  readonly id: string
  readonly holder: string
  readonly note: string | undefined
}

/** Null: it has ended. A ticket leaves the queue. */
async function endOne({ api }: LeaseHost, { id, holder, note }: Ending): Promise<View | null> {
  const entry = await api.get({ id })
  const session = holder
  if (entry?.state === 'pending') {
    const { resource, extent } = entry
    const left = await api.withdraw({ id, resource, extent, holder, session, why: 'aborted' })
    return left.kind === 'withdrawn' ? null : refusalView(id, left)
  }
  const words = note === undefined ? {} : { note: { reason: note, metadata: TOOL_METADATA } }
  const answer = await api.release({ id, holder, session, releaseReason: 'completed', ...words })
  return answer.kind === 'released' ? null : refusalView(id, answer)
}

function refusalView(id: string | undefined, refusal: Refusal): View {
  const { code, message } = refusalError(refusal)
  return { id, code, message }
}

async function status(host: LeaseHost, asked: ValueOf<typeof shapes.STATUS>): Promise<View> {
  const holder = await callerOf(host, asked, { isNeeded: false })
  const reaches = asked.resources.map((text) => host.readReach(text))
  return { resources: await Promise.all(reaches.map((reach) => statusOf(host, reach, holder))) }
}

async function statusOf({ api }: LeaseHost, reach: Reach, holder: string | null): Promise<View> {
  const { leases, queue, blockers } = await api.inspect(reach)
  const free = blockers.every((blocker) => blocker.holder === holder)
  return { resource: reach.resource, free, leases: leases.map(leaseView), waiting: queue.length }
}

async function list(host: LeaseHost, asked: ValueOf<typeof shapes.LIST>): Promise<View> {
  await callerOf(host, asked, { isNeeded: false })
  const { heldBy, limit = shapes.LISTED_DEFAULT, after } = asked
  const page = await host.api.list({
    ...(heldBy === undefined ? {} : { holder: heldBy }),
    ...(after === undefined ? {} : { after }),
    limit,
  })
  const next = page.next === undefined ? {} : { next: page.next }
  return { leases: page.leases.map(leaseView), ...next }
}

interface Named {
  readonly holder?: string
}

/** Who asks. Every call of a holder is heard of by the host. */
async function callerOf(host: LeaseHost, asked: Named): Promise<string>
async function callerOf(
  host: LeaseHost,
  asked: Named,
  rule: { readonly isNeeded: false },
): Promise<string | null>
async function callerOf(
  host: LeaseHost,
  asked: Named,
  { isNeeded } = { isNeeded: true },
): Promise<string | null> {
  const holder = asked.holder ?? host.holder
  if (holder === null && isNeeded) throw invalid('holder', 'must be given', undefined)
  if (holder !== null) await host.onCall(holder)
  return holder
}

async function heldIds({ api }: LeaseHost, holder: string): Promise<readonly string[]> {
  const ids: string[] = []
  for await (const page of listAll(api, { holder, state: 'active' })) {
    ids.push(...page.map(({ id }) => id))
  }
  return ids
}

/** What the resource `lease://active` has. */
export async function activeLeases({ api }: LeaseHost): Promise<View> {
  const { leases, more } = await api.list({ state: 'active', limit: LIST_LIMIT_DEFAULT })
  return { leases: leases.map(leaseView), more }
}

/** Leases and blockers as a model is shown them: what it needs to go on, and no more. */
function leaseView(lease: LeaseInfo): View {
  const { id, resource, mode, extent, holder, state, fence, reason } = lease
  const { expiresAtMs, remainingMs } = lease
  return {
    ...{ id, resource, mode, extent, holder, state, fence },
    ...(expiresAtMs === null ? {} : { expiresAtMs, remainingMs }),
    ...(reason === null ? {} : { reason }),
  }
}

/** Of a resource that the caller may not see, a server tells the holder alone. */
function blockerView(blocker: Partial<Blocker> & Pick<Blocker, 'holder'>): View {
  const { kind, resource, extent, holder, expiresAtMs, remainingMs, reason } = blocker
  return {
    holder,
    ...(kind === undefined ? {} : { kind, resource, extent }),
    ...(expiresAtMs === undefined || expiresAtMs === null ? {} : { expiresAtMs, remainingMs }),
    ...(reason === undefined || reason === null ? {} : { reason }),
  }
}

type EndListener = (wasWritten: boolean) => void

/**
 * A connection that also ends for a wait when its time is over, so that a call is answered before its client gives it up. What
 * hears of the end after a grant hears of the connection's own end only.
 */
class TimedConnection implements CallerConnection {
  readonly #connection: CallerConnection
  readonly #timer: Timer
  readonly #waiting: EndListener[] = []
  #isOver = false

  constructor(connection: CallerConnection, runtime: Runtime, waitMs: number) {
    this.#connection = connection
    this.#timer = runtime.setTimer(waitMs, () => this.#leave(), { keepAlive: true })
  }

  get isOpen(): boolean {
    return this.#connection.isOpen
  }

  /** Whether the time was over before the wait had come to something. */
  get isOver(): boolean {
    return this.#isOver
  }

  onEnd(listener: EndListener): void {
    this.#waiting.push(listener)
    this.#connection.onEnd(listener)
  }

  /** The wait has come to something. */
  stop(): void {
    this.#timer.cancel()
  }

  #leave(): void {
    this.#isOver = true
    for (const listener of this.#waiting) listener(false)
  }
}
