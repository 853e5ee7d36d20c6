/** Questions about the past: who held what at an instant, and what somebody held over a stretch of time. */
import { invalid } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import { covers, type Resource } from '../core/resource.ts'
import { foldLedger } from '../ledger/fold.ts'
import type { KeptLeases } from '../ledger/held-until.ts'
import { holdingsIn, type Holding } from '../ledger/holdings.ts'
import { replayLedger } from '../ledger/replay-ledger.ts'
import type { Questions } from '../service/lease-questions.ts'
import type { Identity } from './identity.ts'
import { eventsAfter } from './ledger-source.ts'
import { leaseTable, sharingWords } from './lease-text.ts'
import { clockTime, formatTable, type Paint } from './output.ts'
import type { Printer } from './printer.ts'
import { sealedEvents } from './sealed-directory.ts'
import { given, withQuestions } from './store-access.ts'

export interface PastQuestion {
  readonly atMs: number | undefined
  readonly sinceMs: number | undefined
  readonly untilMs: number | undefined
  readonly holder: string | undefined
  readonly resource: Resource | undefined
  /** Of a sealed ledger, which also knows what the store has pruned; undefined: the store is asked. */
  readonly directory: string | undefined
}

export async function tellPast(
  identity: Identity,
  printer: Printer,
  question: PastQuestion,
): Promise<void> {
  const { atMs, sinceMs, untilMs } = question
  if (atMs === undefined && sinceMs === undefined) {
    throw invalid('at', 'must be given, or since', undefined)
  }
  if (atMs !== undefined && (sinceMs !== undefined || untilMs !== undefined)) {
    throw invalid('at', 'must not be given beside since or until', atMs)
  }
  const { directory } = question
  const nowMs = Date.now()
  const { events, kept } =
    directory === undefined
      ? await wholeLedger(identity, Math.max(nowMs, atMs ?? 0))
      : { events: sealedEvents(directory), kept: NOTHING_KEPT }
  if (atMs !== undefined) return tellInstant(printer, question, { events, kept, atMs })
  const stretch = { fromMs: sinceMs ?? 0, toMs: untilMs ?? nowMs }
  if (stretch.fromMs > stretch.toMs) {
    throw invalid('until', 'must not be before since', new Date(stretch.toMs).toISOString())
  }
  const { holder, resource } = question
  const holdings = holdingsIn(events, { ...stretch, nowMs, kept, ...given({ holder, resource }) })
  printer.answer({ ...stretch, holdings }, () => {
    return holdings.length === 0 ? 'nothing was held' : holdingTable(holdings, printer.paint)
  })
}

interface Past {
  readonly events: readonly LeaseEvent[]
  readonly kept: KeptLeases
}

/** A sealed ledger tells what was sealed; how it stands now is not asked. */
const NOTHING_KEPT: KeptLeases = new Map()

async function wholeLedger(identity: Identity, untilMs: number): Promise<Past> {
  return withQuestions(identity, async (questions) => {
    const events: LeaseEvent[] = []
    for await (const { event } of eventsAfter(questions, null)) events.push(event)
    return { events, kept: await keptLeases(questions, events, untilMs) }
  })
}

/** The store's word on those that the ledger leaves active past their end: renewals need not be recorded. */
async function keptLeases(
  questions: Pick<Questions, 'get'>,
  events: readonly LeaseEvent[],
  untilMs: number,
): Promise<KeptLeases> {
  const kept = new Map<LeaseId, LeaseInfo>()
  for (const entry of foldLedger(events).values()) {
    const isUnclear =
      entry.kind === 'lease' && entry.state === 'active' && entry.expiresAtMs <= untilMs
    const found = isUnclear ? await questions.get({ id: entry.id }) : null
    if (found !== null) kept.set(found.id, found)
  }
  return kept
}

function tellInstant(
  printer: Printer,
  question: PastQuestion,
  { events, kept, atMs }: Past & { readonly atMs: number },
): void {
  const leases = replayLedger(events, { atMs, kept }).filter((lease) => isAsked(lease, question))
  printer.answer({ atMs, leases }, () => {
    if (leases.length === 0) return `no leases at ${new Date(atMs).toISOString()}`
    return leaseTable(leases, atMs, printer.paint)
  })
}

function isAsked(lease: LeaseInfo, { holder, resource }: PastQuestion): boolean {
  const isLive = lease.state === 'active' || lease.state === 'pending'
  if (!isLive || (holder !== undefined && lease.holder !== holder)) return false
  return resource === undefined || covers(lease, { resource, extent: 'exact' })
}

const COLUMNS = ['HOLDER', 'RESOURCE', 'MODE', 'FROM', 'UNTIL', 'END', 'FENCE', 'ID'].map(
  (title) => ({ title }),
)

function holdingTable(holdings: readonly Holding[], paint: Paint): string {
  const rows = holdings.map((holding) => [
    { text: holding.holder },
    { text: holding.resource },
    { text: sharingWords({ ...holding, slots: null }) },
    { text: clockTime(holding.fromMs) },
    { text: holding.toMs === null ? 'now' : clockTime(holding.toMs) },
    { text: holding.end === 'active' ? 'held' : (holding.releaseReason ?? holding.end) },
    { text: String(holding.fence) },
    { text: holding.leaseId },
  ])
  return formatTable(COLUMNS, rows, paint)
}
