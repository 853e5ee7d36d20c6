/**
 * What `tenure ledger verify` answers: whether a sealed ledger is what was sealed, whether the copy of its checkpoints
 * agrees, and whether the store still tells the same.
 */
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import type { Comparison } from '../ledger/compare-ledger.ts'
import type { LeaseId } from '../core/lease.ts'
import { checkpointHash, type LedgerCheckpoint } from '../ledger/ledger-checkpoint.ts'
import type { VerificationKey } from '../registrar/verification-key.ts'
import type { LedgerVerdict } from '../ledger/verify-ledger.ts'
import { firstContradiction, type Contradiction } from './contradictory-events.ts'
import type { Identity } from './identity.ts'
import { firstOddLease } from './kept-leases.ts'
import { checkpointsFile, isAbsent, readCheckpoints } from '../delegation/ledger-files.ts'
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

/** Whoever cut the ledger and its checkpoints short together is found by the copy. */
function copyProblem(file: string, checkpoints: readonly LedgerCheckpoint[]): string | null {
  if (isAbsent(file)) throw invalid('copy', 'must be a file', file)
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

/** What was tampered with is an answer, and no error of whoever asks. */
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
