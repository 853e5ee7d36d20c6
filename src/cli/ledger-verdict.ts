/**
 * What `tenure ledger verify` answers: whether a sealed ledger is what was sealed, whether the copy of its checkpoints
 * agrees, and whether the store still tells the same.
 */
import { canonicalJson } from '../core/canonical-json.ts'
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { evolveEntry } from '../core/evolve.ts'
import { type Entry, type LeaseId, type LeaseInfo, settledState } from '../core/lease.ts'
import { checkpointsFile, isFileAbsent, readCheckpoints } from '../delegation/ledger-files.ts'
import type { Comparison } from '../ledger/compare-ledger.ts'
import { checkpointHash, type LedgerCheckpoint } from '../ledger/ledger-checkpoint.ts'
import type { LedgerVerdict } from '../ledger/verify-ledger.ts'
import { isSigning, type KeyRing } from '../registrar/key-ring.ts'
import { keySuccession, type VerificationKey } from '../registrar/verification-key.ts'
import { report } from '../runtime/diagnostics.ts'
import { fs } from '../runtime/file-system.ts'
import type { ListFilter } from '../service/lease-api.ts'
import type { Questions } from '../service/lease-questions.ts'
import { listAll } from '../service/list-all.ts'
import { type Contradiction, firstContradiction } from './contradictory-events.ts'
import type { Identity } from './identity.ts'
import { eventsAfter } from './ledger-source.ts'
import { plural } from './output.ts'
import {
  compareStore,
  differenceWords,
  examineLedger,
  type SealedPart,
} from './sealed-directory.ts'
import { withQuestions } from './store-access.ts'

export interface DirectoryVerdict extends LedgerVerdict {
  /** What is wrong with the checkpoints, if they cannot be read; then nothing else was looked at. */
  readonly checkpoint: string | null
  readonly copy: string | null
  /** Null if the ledger itself is not what was sealed, or has a registrar's own events, which are in no store. */
  readonly store: ComparedStore | null
}

export interface ComparedStore extends Comparison {
  /** A lease that the store keeps otherwise than its events tell. */
  readonly oddLease: LeaseId | null
  /** The first event of the store that does not follow from those before it, and why. */
  readonly contradiction: Contradiction | null
}

export interface VerifyDirectory {
  readonly directory: string
  readonly keys: readonly VerificationKey[]
  readonly copy: string | undefined
  readonly identity: Identity
  readonly retentionDays: number | undefined
}

/** The keys of the one registrar whose ledger is verified: the one that was named, or that signs here, or the only one. */
export function keysOfOne(
  { keys }: KeyRing,
  named: string | undefined,
): readonly VerificationKey[] {
  const keyId = named ?? (keys.find(isSigning) ?? keys[0])?.keyId
  if (keyId === undefined) return []
  const succession = keySuccession(keys, keyId)
  if (succession.length === 0) throw invalid('key', 'must be one that the file of keys has', keyId)
  const isClear = named !== undefined || keys.some(isSigning) || succession.length === keys.length
  if (isClear) return succession
  throw invalid('keys', 'must be of one registrar, or --key must say whose ledger it is', keyId)
}

export async function verifyDirectory({
  directory,
  keys,
  copy: file,
  identity,
  retentionDays,
}: VerifyDirectory): Promise<DirectoryVerdict> {
  const unread = problemOf(() => readCheckpoints(checkpointsFile(directory)))
  if (unread !== null) return { ...NOTHING_PROVEN, checkpoint: unread }
  const { verdict, checkpoints, isRegistrars } = examineLedger(directory, keys)
  if (checkpoints.length === 0) {
    throw new LeaseError('DECODE_ERROR', `ledger must have a checkpoint, got none in ${directory}`)
  }
  const copy = file === undefined ? null : copyProblem(file, checkpoints)
  const last = checkpoints.at(-1) ?? null
  const part = { directory, last, retentionDays }
  const isOfStore = verdict.ok && !isRegistrars
  const store = isOfStore ? await compareWith(identity, part) : null
  const { first = null, contradiction = null, oddLease = null } = store ?? {}
  const isSame = first === null && contradiction === null && oddLease === null
  const ok = verdict.ok && copy === null && isSame
  return { ...verdict, ok, checkpoint: null, copy, store }
}

const NOTHING_PROVEN: DirectoryVerdict = {
  ...{ ok: false, events: 0, sealed: 0, checkpoints: 0, realms: 0 },
  ...{ keys: [], first: null, checkpoint: null, copy: null, store: null },
}

async function compareWith(identity: Identity, part: SealedPart): Promise<ComparedStore> {
  return withQuestions(identity, async (questions) => {
    const compared = await compareStore(questions, part)
    if (compared.first !== null) return { ...compared, contradiction: null, oddLease: null }
    const contradiction = await firstContradiction(questions)
    const oddLease = contradiction === null ? await firstOddLease(questions) : null
    return { ...compared, contradiction, oddLease }
  })
}

/** A ledger that was cut short together with its checkpoints is found by the copy. */
function copyProblem(file: string, checkpoints: readonly LedgerCheckpoint[]): string | null {
  if (isFileAbsent(file) || !fs.statSync(file).isFile())
    throw invalid('copy', 'must be a file', file)
  const unread = problemOf(() => readCheckpoints(file))
  if (unread !== null) return `the copy: ${unread}`
  const copied = readCheckpoints(file)
  if (copied.length === 0) {
    throw new LeaseError('DECODE_ERROR', `copy must have a checkpoint, got none in ${file}`)
  }
  const known = new Set(checkpoints.map(checkpointHash))
  const odd = copied.find((checkpoint) => !known.has(checkpointHash(checkpoint)))
  return odd === undefined ? null : `checkpoint ${odd.sequence} of the copy is not in the ledger`
}

/** What was tampered with is an answer, and no error of the caller. */
function problemOf(read: () => unknown): string | null {
  try {
    read()
    return null
  } catch (error) {
    if (isLeaseError(error) && error.code === 'DECODE_ERROR') return error.message
    throw error
  }
}

export function verdictText(verdict: DirectoryVerdict): string {
  const { first, sealed, keys, checkpoint, copy, store } = verdict
  if (checkpoint !== null) return checkpoint
  if (first !== null) {
    const { line, position, problem } = first
    const place = position === '' ? 'a rotation of keys' : `position ${position ?? 'unknown'}`
    return `line ${line} (${place}) ${problem}`
  }
  if (copy !== null) return copy
  if (store !== null && store.first !== null) {
    return `the store differs from what was sealed: ${differenceWords(store.first)}`
  }
  if (store !== null && store.contradiction !== null) {
    return `the events of the store contradict each other: ${store.contradiction.problem}`
  }
  if (store !== null && store.oddLease !== null) {
    return `the store keeps lease ${store.oddLease} otherwise than its events tell`
  }
  const fate = sealed === 1 ? 'is as it was sealed' : 'are as they were sealed'
  const proven = `${plural(sealed, 'event')} ${fate} by ${keys.join(', ')}`
  return store === null ? proven : `${proven} (${plural(store.prunedLeases, 'pruned lease')})`
}

type Asked = Pick<Questions, 'get' | 'list' | 'history' | 'settings'>

/** What `list` is asked for: all that is live, and then what has ended. */
const LISTED: readonly ListFilter[] = [
  {},
  ...(['released', 'expired', 'revoked', 'failed'] as const).map((state) => ({ state })),
]

/**
 * The first lease that a store keeps otherwise than its events tell: another holder, another beginning, another end. This
 * finds a change of the table behind the store's back. Null if there is none.
 *
 * Deadlines are not compared: renewals need not be recorded. So a lease that has run out by the table has run out.
 */
export async function firstOddLease(questions: Asked): Promise<LeaseId | null> {
  const told = new Map<LeaseId, Entry | null>()
  for await (const { event } of eventsAfter(questions, null)) {
    told.set(event.leaseId, evolved(told.get(event.leaseId), event))
  }
  // Those that no list has are gone, or in a state that they cannot be in.
  const doubtful = new Set(told.keys())
  for (const filter of LISTED) {
    for await (const leases of listAll(questions, filter)) {
      for (const lease of leases) {
        if (isSame(lease, told.get(lease.id) ?? null)) doubtful.delete(lease.id)
        else doubtful.add(lease.id)
      }
    }
  }
  for (const leaseId of doubtful) {
    // What changed between the two readings is no difference; so each that looks like one is looked at by itself.
    if ((await isOdd(questions, leaseId)) && (await isOdd(questions, leaseId))) return leaseId
  }
  return null
}

async function isOdd(questions: Asked, leaseId: LeaseId): Promise<boolean> {
  const kept = await questions.get({ id: leaseId })
  let told: Entry | null | undefined
  const ofLease: Pick<Questions, 'history'> = {
    history: (filter) => questions.history({ ...filter, id: leaseId }),
  }
  for await (const { event } of eventsAfter(ofLease, null)) told = evolved(told, event)
  if (told !== undefined || kept === null) {
    return !isSame(kept, told ?? null) || (await isHidden(questions, kept))
  }
  // Nothing is told of a lease where no history is kept.
  return (await questions.settings({ resource: kept.resource })).keep_history
}

/** Whether a store keeps it as live and does not find it among what is live: then it blocks no request. */
async function isHidden(questions: Asked, kept: LeaseInfo | null): Promise<boolean> {
  if (kept === null || !isLive(kept)) return false
  const { id, resource, holder } = kept
  for await (const leases of listAll(questions, { resource, holder })) {
    if (leases.some((listed) => listed.id === id)) return false
  }
  return true
}

/** What has ended may be gone; what is live by its events may not. */
function isSame(kept: LeaseInfo | null, told: Entry | null): boolean {
  if (kept === null) return told === null || !isLive(told)
  if (told === null || ownershipOf(kept) !== ownershipOf(told)) return false
  return kept.state === told.state || hasRunOut(kept, told)
}

/** Whether it ended by time, which the store settles with a later commit, and tells at once: when it did, too. */
function hasRunOut({ state, terminatedAtMs }: LeaseInfo, told: Entry): boolean {
  if (told.kind === 'ticket') return told.state === 'pending' && state === 'failed'
  return told.state === 'active' && state === settledState(told, true) && terminatedAtMs !== null
}

/** Null where an event does not follow from those before it. */
function evolved(entry: Entry | null | undefined, event: LeaseEvent): Entry | null {
  if (entry === null) return null
  try {
    return evolveEntry(entry, event)
  } catch (error) {
    report('cli/verify', error)
    return null
  }
}

function isLive({ state }: Entry | LeaseInfo): boolean {
  return state === 'active' || state === 'pending'
}

function ownershipOf(lease: LeaseInfo | Entry): string {
  const { id, resource, mode, extent, holder, session, createdAtMs } = lease
  const grantedAtMs = 'grantedAtMs' in lease ? lease.grantedAtMs : null
  // What was offered to a waiter is not yet its own.
  const fence = 'fence' in lease && grantedAtMs !== null ? lease.fence : null
  const facts = { id, resource, mode, extent, holder, session, createdAtMs, fence, grantedAtMs }
  return canonicalJson(facts)
}
