/**
 * The six tools. Each reads its arguments by `tool-ts`, asks the host, and answers with what a model can go on with: being
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
  ALL_MEMBERS_MAX,
  CLAIM_WINDOW_MS_MAX,
  LIST_LIMIT_DEFAULT,
  NAME_BYTES_MAX,
  TTL_MS_MAX,
  TTL_MS_MIN,
  UNDER_MAX,
  WAIT_MS_MAX,
} from '../core/limits.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { Reach } from '../core/resource.ts'
import { HOLDER_NAME, HTTP_ROWS_MAX } from '../protocol/questions.ts'
import {
  ANY_OBJECT,
  choice,
  FLAG,
  integer,
  list,
  object,
  OPAQUE,
  optional,
  required,
  text,
  UUID,
  WORDS,
  type Shape,
  type ValueOf,
} from '../protocol/shape.ts'
import { reportTo } from '../runtime/diagnostics.ts'
import type { AcquireAllRequest } from '../service/lease-api.ts'
import { activeOf, listWhole } from '../service/list-all.ts'
import type { LeaseHost } from './lease-host.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'

/** Clients give a call up after 60 s. */
const TOOL_WAIT_MS_MAX = 45_000
const LISTED_DEFAULT = 50

/** The reader refuses what is no such text; a model that is told so once needs no pattern. */
function brief<Value>(shape: Shape<Value>): Shape<Value> {
  return { ...shape, schema: { type: 'string' } }
}

const KIND_BYTES_MAX = 33
const NAME = brief(text(NAME_BYTES_MAX + KIND_BYTES_MAX))
const HOLDER_TEXT = brief(HOLDER_NAME)
const NOTE = brief(WORDS)
const ID = brief(UUID)
const SOME = { min: 1, max: ALL_MEMBERS_MAX, expectation: `must be 1..${ALL_MEMBERS_MAX}` }
const RESOURCES = required(list(NAME, SOME), 'Paths (`src/` means all below) or `kind:name`')
const HOLDER = optional(HOLDER_TEXT, 'Who you are, if the client does not say')
const TTL_MS = optional(integer(TTL_MS_MIN, TTL_MS_MAX, 'ms'), 'Lifetime without renewal')
const LEASES = optional(list(ID, SOME), 'Ids', { default: { words: 'all of yours' } })

const ACQUIRE = object({
  resources: RESOURCES,
  waitMs: optional(integer(0, TOOL_WAIT_MS_MAX, 'ms'), 'Stand in the queue so long'),
  mode: optional(choice(['exclusive', 'shared']), 'Default exclusive'),
  ttlMs: TTL_MS,
  reason: optional(NOTE, 'Shown to blocked requests'),
  holder: HOLDER,
  parent: optional(HOLDER_TEXT, 'Whose leases yours may be inside'),
})
const WAIT = object({
  tickets: required(list(ID, SOME), 'From lease_acquire'),
  waitMs: optional(integer(1, TOOL_WAIT_MS_MAX, 'ms'), 'How long'),
  holder: HOLDER,
})
const RENEW = object({ leases: LEASES, ttlMs: TTL_MS, holder: HOLDER })
const RELEASE = object({
  leases: LEASES,
  note: optional(NOTE, 'For the next holder'),
  holder: HOLDER,
})
const STATUS = object({ resources: RESOURCES, holder: HOLDER })
const LIST = object({
  heldBy: optional(HOLDER_TEXT, 'Only of this holder'),
  limit: optional(integer(1, HTTP_ROWS_MAX), `How many (${LISTED_DEFAULT})`),
  after: optional(OPAQUE, '`next` of the page before'),
  holder: HOLDER,
})

const ROWS: Shape<readonly Readonly<Record<string, unknown>>[]> = list(ANY_OBJECT, {
  max: Number.POSITIVE_INFINITY,
  expectation: 'must be a list of objects',
})
const REFUSED = required(ROWS, 'Id, code and why')
const NEXT = required(OPAQUE, 'What to do now')

const GRANT_ANSWER = object(
  {
    granted: required(FLAG, 'All of them, or none'),
    leases: optional(ROWS, 'With id, fence and expiry'),
    blockers: optional(ROWS, 'Who, why, until when'),
    tickets: optional(list(ID, SOME), 'For lease_wait'),
    place: optional(integer(1, Number.MAX_SAFE_INTEGER), 'In the queue'),
    next: NEXT,
  },
  'answer',
)
const RENEW_ANSWER = object({ renewed: required(ROWS, 'Leases'), refused: REFUSED }, 'answer')
const RELEASE_ANSWER = object(
  { released: required(list(ID, { ...SOME, min: 0 }), 'Ids'), refused: REFUSED },
  'answer',
)
const STATUS_ANSWER = object(
  { resources: required(ROWS, 'Free for you or not, leases, how many wait') },
  'answer',
)
const LIST_ANSWER = object(
  { leases: required(ROWS, 'Leases and tickets'), next: optional(OPAQUE, 'For `after`') },
  'answer',
)

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
    ...{ ...changing, input: ACQUIRE, output: GRANT_ANSWER, run: acquire },
    says: 'Take leases on files or other resources before you change them: all of them or none.',
  },
  lease_wait: {
    ...{ ...changing, input: WAIT, output: GRANT_ANSWER, run: wait },
    says: 'Go on waiting for what lease_acquire has queued; keeps your place.',
  },
  lease_renew: {
    ...{ ...changing, input: RENEW, output: RENEW_ANSWER, run: renew },
    says: 'Give leases their time anew.',
  },
  lease_release: {
    ...{ ...changing, input: RELEASE, output: RELEASE_ANSWER, run: release },
    says: 'Give leases back, or leave a queue.',
  },
  lease_status: {
    ...{ ...reading, input: STATUS, output: STATUS_ANSWER, run: status },
    says: 'Who holds these, why and until when.',
  },
  lease_list: {
    ...{ ...reading, input: LIST, output: LIST_ANSWER, run: listLeases },
    says: 'All live leases and waiting requests.',
  },
}

async function acquire(
  host: LeaseHost,
  asked: ValueOf<typeof ACQUIRE>,
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
  const leases = await activeOf(api, holder)
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
  asked: ValueOf<typeof WAIT>,
  connection: CallerConnection,
): Promise<View> {
  const { tickets: ids, waitMs = TOOL_WAIT_MS_MAX } = asked
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
  const pending = await listWhole(api, { holder, state: 'pending' })
  const own = pending.filter((one) => one.group === group)
  return own.filter(({ id }) => !named.some((one) => one.id === id))
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

async function renew(host: LeaseHost, asked: ValueOf<typeof RENEW>): Promise<View> {
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

async function release(host: LeaseHost, asked: ValueOf<typeof RELEASE>): Promise<View> {
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

async function status(host: LeaseHost, asked: ValueOf<typeof STATUS>): Promise<View> {
  const holder = await callerOf(host, asked, { isNeeded: false })
  const reaches = asked.resources.map((text) => host.readReach(text))
  return { resources: await Promise.all(reaches.map((reach) => statusOf(host, reach, holder))) }
}

async function statusOf({ api }: LeaseHost, reach: Reach, holder: string | null): Promise<View> {
  const { leases, queue, blockers } = await api.inspect(reach)
  const free = blockers.every((blocker) => blocker.holder === holder)
  return { resource: reach.resource, free, leases: leases.map(leaseView), waiting: queue.length }
}

async function listLeases(host: LeaseHost, asked: ValueOf<typeof LIST>): Promise<View> {
  await callerOf(host, asked, { isNeeded: false })
  const { heldBy, limit = LISTED_DEFAULT, after } = asked
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
  return (await activeOf(api, holder)).map(({ id }) => id)
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
