/**
 * The locking API of Git LFS, so that a stock client locks, lists, verifies and unlocks what hooks, agents and people hold. A
 * lock is a lease: it ends by itself, and the client is told until when in the owner's name and in the message of a refusal.
 *
 * A path is that of a file where the server knows the repository, and then means the same lease as everywhere else; otherwise
 * it is `lfs:REPO/path`. The client compares paths exactly, so a lease of a directory is told as the tracked files below it.
 */
import type { Blocker } from '../core/conflict.ts'
import { invalid } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { covers, nameOf, parseResource, type Resource } from '../core/resource.ts'
import { trackedPaths } from '../git/repository.ts'
import {
  ANY_OBJECT,
  FLAG,
  integer,
  object,
  OPAQUE,
  optional,
  required,
  text,
} from '../protocol/shape.ts'
import type { AcquireAnswer, LeaseList, ListFilter, RenewAnswer } from '../service/lease-api.ts'
import { listWhole } from '../service/list-all.ts'
import { askedCall, doneAnswer, uncounted } from './api-calls.ts'
import type { Call } from './call.ts'
import { forbidden, httpError } from './problem.ts'

const PATH_BYTES_MAX = 1_000
const ROWS_MAX = 1_000
const ROWS_DEFAULT = 100

const REF = optional(ANY_OBJECT, 'The branch, which makes no difference here')
const LIMIT = optional(integer(0, ROWS_MAX), 'How many at most')
const CURSOR = optional(OPAQUE, '`next_cursor` of the page before')
const LOCK = object({ path: required(text(PATH_BYTES_MAX), 'From the top'), ref: REF })
const VERIFY = object({ cursor: CURSOR, limit: LIMIT, ref: REF })
const UNLOCK = object({ force: optional(FLAG, 'Whoever has it'), ref: REF })

export interface LfsRequest {
  readonly call: Call
  /** Who asks. */
  readonly holder: string
  readonly repository: LfsRepository
}

export interface LfsRepository {
  readonly name: string
  /** Its top; null where the server does not know it. */
  readonly root: string | null
}

export interface LfsAnswer {
  readonly status: 200 | 201 | 409
  readonly body: object
}

/** A lease at one path. */
interface Held {
  readonly path: string
  readonly lease: LeaseInfo
}

export interface LfsLine {
  readonly method: string
  /** What the path has behind the repository, by segments. */
  readonly place: readonly string[]
  readonly query: URLSearchParams
  readonly body: unknown
}

export async function answerLfsRequest(
  asked: LfsRequest,
  { method, place, query, body }: LfsLine,
): Promise<LfsAnswer> {
  const [first, id = '', last] = place
  const line = `${method} ${place.length === 3 ? `${first}/ID/${last}` : place.join('/')}`
  // A release is never refused for the requests before it; a revocation is counted where it is made.
  if (line === 'POST locks/ID/unlock') return unlock(asked, id, body)
  asked.call.count()
  const counted = { ...asked, call: uncounted(asked.call) }
  switch (line) {
    case 'POST locks':
      return lock(counted, body)
    case 'GET locks':
      return listLocks(counted, query)
    case 'POST locks/verify':
      return verify(counted, body)
    case 'POST objects/batch':
      throw httpError(
        501,
        'this server keeps locks, and no objects: lock with git lfs lock -r REMOTE',
      )
    default:
      throw httpError(404, 'the path must be locks, locks/verify or locks/ID/unlock')
  }
}

async function lock(asked: LfsRequest, body: unknown): Promise<LfsAnswer> {
  const { call, holder, repository } = asked
  const { path } = LOCK.read(body, 'body')
  const resource = resourceAt(repository, call, path)
  const request = {
    ...{ id: call.runtime.uuid(), resource, holder, session: holder, sequential: true, waitMs: 0 },
    reason: 'git lfs lock',
  }
  const answer = (await askedCall(call, 'acquire', request)) as AcquireAnswer
  if (answer.kind === 'granted') return { status: 201, body: { lock: lockOf(path, answer.lease) } }
  const blockers = answer.kind === 'held' ? answer.blockers : []
  const own = blockers.find((one) => one.holder === holder && isLock(one, resource))
  if (own !== undefined) return renewed(asked, path, own.leaseId)
  const first = blockers.find((one) => one.holder !== holder) ?? blockers[0]
  if (first === undefined) return { status: 201, body: doneAnswer(answer) }
  const message = `${path} is held by ${ownerWords(first)}`
  return { status: 409, body: { lock: lockOf(path, { ...first, id: first.leaseId }), message } }
}

/** Whoever shares a file has no lock of it: others may have it as well. */
function isLock({ kind, mode, resource }: Blocker, path: Resource): boolean {
  return kind === 'lease' && mode === 'exclusive' && resource === path
}

/** Locking what one has gives it its time anew. */
async function renewed({ call, holder }: LfsRequest, path: string, id: string): Promise<LfsAnswer> {
  const answer = (await askedCall(call, 'renew', { id, holder })) as RenewAnswer
  if (answer.kind !== 'renewed') return { status: 201, body: doneAnswer(answer) }
  return { status: 201, body: { lock: lockOf(path, answer.lease) } }
}

async function listLocks(asked: LfsRequest, query: URLSearchParams): Promise<LfsAnswer> {
  const limit = query.get('limit')
  const page = VERIFY.read(
    {
      ...(limit === null ? {} : { limit: Number(limit) }),
      ...(query.has('cursor') ? { cursor: query.get('cursor') } : {}),
    },
    'query',
  )
  const [path, id] = [query.get('path'), query.get('id')]
  const held = (await heldIn(asked)).filter((one) => {
    return (path === null || one.path === path) && (id === null || one.lease.id === id)
  })
  const { rows, next } = pageOf(held, page)
  return { status: 200, body: { locks: rows.map(lockAt), ...next } }
}

/** Of a path that the caller holds, nobody else's lock is in its way: it is shared, or derived. */
async function verify(asked: LfsRequest, body: unknown): Promise<LfsAnswer> {
  const { holder } = asked
  const held = await heldIn(asked)
  const { rows, next } = pageOf(held, VERIFY.read(body, 'body'))
  const ours = rows.filter(({ lease }) => lease.holder === holder)
  // Also of those that are told on another page.
  const own = new Set(held.filter(({ lease }) => lease.holder === holder).map(({ path }) => path))
  const theirs = rows.filter(({ path, lease }) => lease.holder !== holder && !own.has(path))
  return { status: 200, body: { ours: ours.map(lockAt), theirs: theirs.map(lockAt), ...next } }
}

async function unlock(asked: LfsRequest, id: string, body: unknown): Promise<LfsAnswer> {
  const { call, holder, repository } = asked
  const { force = false } = UNLOCK.read(body, 'body')
  const lease = (await askedCall(uncounted(call), 'get', { id })) as LeaseInfo | null
  if (lease?.state !== 'active') throw httpError(404, `no lock has the id ${id}`)
  if (lease.holder === holder) {
    const request = { id, holder, session: holder, releaseReason: 'completed' }
    doneAnswer(await askedCall(call, 'release', request))
  } else if (force) {
    const request = { id, by: holder, reason: 'git lfs unlock --force' }
    doneAnswer(await askedCall(call, 'revoke', request))
  } else throw forbidden(`the lock is that of ${ownerWords(lease)}`)
  const path = pathOf(repository, lease.resource) ?? nameOf(lease.resource)
  return { status: 200, body: { lock: lockOf(path, lease) } }
}

function lockAt({ path, lease }: Held): object {
  return lockOf(path, lease)
}

/** A lease, or what is told of it to whoever it blocks. */
type Locked = Partial<Pick<LeaseInfo, 'id' | 'grantedAtMs' | 'expiresAtMs' | 'reason'>> &
  Partial<Pick<Blocker, 'sinceMs'>> &
  Pick<LeaseInfo, 'holder'>

function lockOf(path: string, lease: Locked): object {
  const { id, sinceMs, grantedAtMs } = lease
  const locked_at = new Date(sinceMs ?? grantedAtMs ?? 0).toISOString()
  return { id, path, locked_at, owner: { name: ownerWords(lease) } }
}

/** All that a client prints of a lock is its path and its owner. */
function ownerWords({ holder, expiresAtMs, reason }: Locked): string {
  const until = typeof expiresAtMs === 'number' ? ` until ${timeWords(expiresAtMs)}` : ''
  return `${holder}${until}${typeof reason === 'string' ? ` (${reason})` : ''}`
}

function timeWords(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

/** A page goes on after the last lock of the one before, because others come and go meanwhile: a number would pass over some. */
function pageOf(
  held: readonly Held[],
  { cursor, limit }: { readonly cursor?: string; readonly limit?: number },
): { readonly rows: readonly Held[]; readonly next: { readonly next_cursor?: string } } {
  const after = cursor === undefined ? null : placeIn(cursor)
  const rest = after === null ? held : held.filter((one) => inOrder(after, placeOf(one)) < 0)
  const rows = rest.slice(0, limit === undefined || limit === 0 ? ROWS_DEFAULT : limit)
  const last = rows.at(-1)
  if (last === undefined || rows.length === rest.length) return { rows, next: {} }
  const { id, path } = placeOf(last)
  return { rows, next: { next_cursor: `${id}/${path}` } }
}

interface Place {
  readonly path: string
  readonly id: string
}

function placeOf({ path, lease: { id } }: Held): Place {
  return { path, id }
}

function placeIn(cursor: string): Place {
  const [, id, path] = /^([0-9a-f-]{36})\/(.+)$/s.exec(cursor) ?? []
  if (id !== undefined && path !== undefined) return { path, id }
  throw invalid('cursor', 'must be what another page gave', cursor)
}

function inOrder(one: Place, other: Place): number {
  if (one.path !== other.path) return one.path < other.path ? -1 : 1
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0
}

/** Every path of the repository that is under a lease, in order. */
async function heldIn({ call, repository }: LfsRequest): Promise<readonly Held[]> {
  const list = async (filter: ListFilter): Promise<LeaseList> => {
    return (await askedCall(call, 'list', filter)) as LeaseList
  }
  const leases = await listWhole({ list }, { state: 'active' })
  const trees = leases.filter(({ extent }) => extent === 'subtree')
  const exact = leases.flatMap((lease): readonly Held[] => {
    const path = lease.extent === 'exact' ? pathOf(repository, lease.resource) : null
    return path === null ? [] : [{ path, lease }]
  })
  const below = await treePaths(repository, trees)
  return [...exact, ...below].sort((a, b) => inOrder(placeOf(a), placeOf(b)))
}

/** Directories can be held in a repository that the server knows only. */
async function treePaths(
  repository: LfsRepository,
  trees: readonly LeaseInfo[],
): Promise<readonly Held[]> {
  const { root } = repository
  if (root === null || trees.length === 0) return []
  const top = { resource: parseResource(`file:${root}`), extent: 'subtree' } as const
  const touching = trees.filter((lease) => covers(lease, top) || covers(top, lease))
  if (touching.length === 0) return []
  const paths = await trackedPaths(root)
  return touching.flatMap((lease) => {
    const inside = paths.filter((path) => {
      const resource = parseResource(`file:${root}/${path}`)
      return covers(lease, { resource, extent: 'exact' })
    })
    return inside.map((path) => ({ path, lease }))
  })
}

function resourceAt({ name, root }: LfsRepository, { runtime }: Call, path: string): Resource {
  const segments = path.split('/')
  if (segments.some((segment) => ['', '.', '..'].includes(segment))) {
    throw invalid('path', 'must lead from the top of the repository to a file', path)
  }
  if (root === null) return parseResource(`lfs:${name}/${path}`)
  return parseResource(`file:${runtime.canonicalPath(`${root}/${path}`)}`)
}

/** Null for what is not in the repository. */
function pathOf({ name, root }: LfsRepository, resource: Resource): string | null {
  const prefix = root === null ? `lfs:${name}/` : `file:${root}/`
  return resource.startsWith(prefix) ? resource.slice(prefix.length) : null
}
