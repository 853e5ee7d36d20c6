/**
 * What a directory with a sealed ledger has in it, and whether it is what was sealed and what the store tells. Both who
 * verifies and who seals on ask this: no key may be made to sign what was tampered with.
 */
import { isLeaseError, LeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { resolveSettings, retentionMs } from '../core/settings.ts'
import {
  LedgerComparison,
  type Comparison,
  type StoreDifference,
} from '../ledger/compare-ledger.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import type { LedgerCheckpoint } from '../ledger/ledger-checkpoint.ts'
import type { LedgerTrust } from '../ledger/recorded-rotation.ts'
import { entryOf, isRecordLine, isRotationLine, LedgerChain } from '../ledger/sealed-ledger.ts'
import type { VerificationKey } from '../registrar/verification-key.ts'
import { LedgerVerification, type LedgerVerdict } from '../ledger/verify-ledger.ts'
import type { Questions } from '../service/lease-questions.ts'
import type { LedgerEntry, Position } from '../store-port/store.ts'
import {
  checkpointsFile,
  eventsFile,
  linesIn,
  readCheckpoints,
} from '../delegation/ledger-files.ts'
import { eventsAfter } from './ledger-source.ts'

export interface ExaminedLedger {
  readonly verdict: LedgerVerdict
  readonly checkpoints: readonly LedgerCheckpoint[]
  readonly chain: LedgerChain
  readonly trust: LedgerTrust
  /** The lines that tell of keys. */
  readonly rotations: readonly string[]
  readonly newest: NewestEvent | null
  /** Whether it has a registrar's own events, which are in no store. */
  readonly isRegistrars: boolean
}

/** The last event of a ledger, and where the one before it was; by them a store is known again. */
export interface NewestEvent {
  readonly entry: LedgerEntry
  readonly before: Position | null
}

/** `more`: checkpoints that the copy has and the directory lacks. */
export function examineLedger(
  directory: string,
  keys: readonly VerificationKey[],
  more: readonly LedgerCheckpoint[] = [],
): ExaminedLedger {
  const checkpoints = [...readCheckpoints(checkpointsFile(directory)), ...more]
  const verification = new LedgerVerification(checkpoints, keys)
  const { chain, trust } = verification
  const rotations: string[] = []
  let newest: { readonly line: string; readonly before: Position | null } | null = null
  let isRegistrars = false
  for (const line of linesIn(eventsFile(directory))) {
    const before = chain.lastPosition
    if (!verification.accept(line)) break
    if (chain.isAtRotation) rotations.push(line)
    else if (isRecordLine(line)) isRegistrars = true
    else newest = { line, before }
  }
  const facts = { verdict: verification.end(), checkpoints, chain, trust, rotations, isRegistrars }
  if (newest === null || !facts.verdict.ok) return { ...facts, newest: null }
  const entry = entryAt(newest.line, chain.count)
  return { ...facts, newest: { entry, before: newest.before } }
}

/** What is sealed of a store: up to a checkpoint of a ledger that was found whole. */
export interface SealedPart {
  readonly directory: string
  readonly last: LedgerCheckpoint | null
  /** The shortest `history_retention_days` since it was sealed, where that was less than it is now. */
  readonly retentionDays: number | undefined
}

/** How far the clock of the store may be ahead of this host's. */
const SKEW_MS = 3_600_000

/**
 * Compares what a checkpoint vouches for with what the store has of it. A difference counts only if a second look finds
 * one: retention may have taken a lease away in the middle of the first.
 */
export async function compareStore(
  questions: Pick<Questions, 'history' | 'settingRows'>,
  part: SealedPart,
): Promise<Comparison> {
  const found = await compareOnce(questions, part)
  return found.first === null ? found : compareOnce(questions, part)
}

async function compareOnce(
  questions: Pick<Questions, 'history' | 'settingRows'>,
  { directory, last, retentionDays }: SealedPart,
): Promise<Comparison> {
  const rows = await questions.settingRows()
  const days = resolveSettings(rows, null).history_retention_days
  const comparison = new LedgerComparison({
    keepMs: retentionMs(Math.min(days, retentionDays ?? days)),
    nowMs: Date.now() + SKEW_MS,
    keepsHistory: (resource) => resolveSettings(rows, resource).keep_history,
  })
  if (last === null || last.position === null) return comparison.end()
  for await (const entry of eventsAfter(questions, null)) comparison.keep(entry)
  // Asked afterwards, so that what was committed meanwhile is left out, too.
  for await (const { position } of eventsAfter(questions, last.position)) {
    comparison.forget(position)
  }
  for (const entry of entriesIn(directory, { from: 1, to: last.events })) comparison.seal(entry)
  return comparison.end()
}

/** Where a store differs from what was sealed, and why that is not retention. */
export function differenceWords({ position, problem, keptUntilMs }: StoreDifference): string {
  const words = `position ${position} that was ${problem}`
  if (keptUntilMs === undefined) return words
  const until = new Date(keptUntilMs).toISOString()
  return `${words}, which retention keeps until ${until} (--retention DAYS if it was shorter for a while)`
}

/**
 * Lines that no checkpoint vouches for were left by a sealer that died, or written by a process that has no key. So they
 * must be what the store has next, one by one; tells the number of the first that is not, or null.
 */
export async function firstUnknownLine(
  questions: Pick<Questions, 'history'>,
  directory: string,
  last: LedgerCheckpoint | null,
): Promise<number | null> {
  const next = eventsAfter(questions, last?.position ?? null)
  for (const entry of entriesIn(directory, { from: (last?.events ?? 0) + 1, to: Infinity })) {
    const { value } = await next.next()
    if (value === undefined || !isSameEntry(value, entry)) return entry.number
  }
  return null
}

export function isSameEntry(a: LedgerEntry, b: LedgerEntry): boolean {
  return a.position === b.position && canonicalJson(a.event) === canonicalJson(b.event)
}

interface Stretch {
  readonly from: number
  readonly to: number
}

function* entriesIn(
  directory: string,
  { from, to }: Stretch,
): Generator<LedgerEntry & { readonly number: number }> {
  let number = 0
  for (const line of linesIn(eventsFile(directory))) {
    number += 1
    if (number > to) return
    if (number >= from && !isRotationLine(line)) yield { ...entryAt(line, number), number }
  }
}

function entryAt(line: string, number: number): LedgerEntry {
  try {
    return entryOf(line)
  } catch (error) {
    throw isLeaseError(error) ? notWhole(number, 'is no event of a lease', error) : error
  }
}

export function notWhole(line: number, problem: string, cause?: unknown): LeaseError {
  const message = `the sealed ledger must be whole, got line ${line} that ${problem}`
  return new LeaseError('DECODE_ERROR', message, { details: { line }, cause })
}

/** The events of a sealed ledger, pruned ones too. Its chain must hold; who signed it is for `verify` to say. */
export function sealedEvents(directory: string): readonly LeaseEvent[] {
  const chain = new LedgerChain()
  const events: LeaseEvent[] = []
  for (const line of linesIn(eventsFile(directory))) {
    const problem = chain.accept(line)
    if (problem !== null) throw notWhole(chain.count + 1, problem)
    if (!chain.isAtRotation) events.push(entryAt(line, chain.count).event)
  }
  if (chain.count > 0) return events
  throw new LeaseError('DECODE_ERROR', `ledger must have events, got none in ${directory}`)
}
