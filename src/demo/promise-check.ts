/**
 * Whether the promises were kept. Two accounts that know nothing of each other are looked at: the ledger of the store,
 * and what the agents themselves reported and wrote.
 */
import fs from 'node:fs'
import path from 'node:path'
import type { LeaseEvent } from '../core/event.ts'
import { describeEntry, ENTRY_STATES, type LeaseId, type LeaseInfo } from '../core/lease.ts'
import { LIST_LIMIT_MAX } from '../core/limits.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import { foldLedger } from '../ledger/fold.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import { FILE_NAMES } from './play.ts'
import type { AgentReport } from './report.ts'

export interface PromiseCheck {
  readonly grants: number
  readonly handovers: number
  readonly expiries: number
  readonly longestWaitMs: number
  readonly events: number
  /** By the ledger: grants while another lease of the file was live. */
  readonly overlapsInLedger: number
  /** By the agents' own account: times at which two of them believed to hold one file, or fences out of order. */
  readonly overlapsReported: number
  readonly staleWritersRefused: number
  readonly staleLinesWritten: number
  /** Leases on which the folded ledger and the store do not agree. */
  readonly foldDifferences: number
  readonly leasesLeft: number
  readonly crashed: readonly string[]
}

export interface Evidence {
  readonly api: LeaseApi
  readonly reports: readonly AgentReport[]
  readonly directory: string
  readonly crashed: readonly string[]
}

export async function checkPromises({
  api,
  reports,
  directory,
  crashed,
}: Evidence): Promise<PromiseCheck> {
  await api.cleanup()
  const events = await readLedger(api)
  const kept = await readLeases(api)
  return {
    grants: count(events, 'lease.issued'),
    handovers: events.filter(({ type, before }) => type === 'lease.issued' && before === 'pending')
      .length,
    expiries: count(events, 'lease.expired'),
    longestWaitMs: longestWaitMs(events),
    events: events.length,
    overlapsInLedger: overlapsInLedger(events),
    overlapsReported: overlapsReported(reports),
    staleWritersRefused: reports.filter(({ kind }) => kind === 'refused').length,
    staleLinesWritten: staleLines(directory),
    foldDifferences: foldDifferences(events, kept),
    leasesLeft: kept.filter(({ state }) => state === 'active' || state === 'pending').length,
    crashed,
  }
}

/** What was promised and did not hold, in words; empty when all is well. */
export function brokenPromises(check: PromiseCheck): readonly string[] {
  const broken: readonly (readonly [boolean, string])[] = [
    [check.overlapsInLedger > 0, 'two leases of one file were live at once, by the ledger'],
    [check.overlapsReported > 0, 'two agents held one file at once, by their own account'],
    [check.staleWritersRefused === 0, 'no stale writer was refused'],
    [check.staleLinesWritten > 0, 'a stale line was written'],
    [check.foldDifferences > 0, 'the ledger does not fold to the state'],
    [check.leasesLeft > 0, 'leases were left behind'],
    [check.grants === 0, 'no lease was granted'],
    [check.crashed.length > 0, `an agent crashed (${check.crashed.join('; ')})`],
  ]
  return broken.flatMap(([isBroken, words]) => (isBroken ? [words] : []))
}

async function readLedger(api: LeaseApi): Promise<readonly LeaseEvent[]> {
  const events: LeaseEvent[] = []
  for (let after: string | undefined; ;) {
    const page = await api.history({
      limit: LIST_LIMIT_MAX,
      refusals: false,
      ...(after === undefined ? {} : { after }),
    })
    events.push(...page.map(({ event }) => event))
    if (page.length < LIST_LIMIT_MAX) return events
    after = page.at(-1)?.position
  }
}

async function readLeases(api: LeaseApi): Promise<readonly LeaseInfo[]> {
  const lists = await Promise.all(
    ENTRY_STATES.map(async (state) => api.list({ state, limit: LIST_LIMIT_MAX })),
  )
  return lists.flatMap(({ leases }) => leases)
}

function count(events: readonly LeaseEvent[], type: LeaseEvent['type']): number {
  return events.filter((event) => event.type === type).length
}

function longestWaitMs(events: readonly LeaseEvent[]): number {
  const queuedAtMs = new Map<LeaseId, number>()
  let longestMs = 0
  for (const { type, leaseId, atMs } of events) {
    if (type === 'lease.queued') queuedAtMs.set(leaseId, atMs)
    if (type === 'lease.issued') {
      longestMs = Math.max(longestMs, atMs - (queuedAtMs.get(leaseId) ?? atMs))
    }
  }
  return longestMs
}

const ENDINGS: ReadonlySet<string> = new Set([
  'lease.released',
  'lease.transferred',
  'lease.expired',
  'lease.revoked',
])

export function overlapsInLedger(events: readonly LeaseEvent[]): number {
  const live = new Map<string, LeaseId>()
  let overlaps = 0
  for (const { type, resource, leaseId } of events) {
    if (type === 'lease.issued') {
      if (live.has(resource)) overlaps += 1
      live.set(resource, leaseId)
    } else if (ENDINGS.has(type) && live.get(resource) === leaseId) live.delete(resource)
  }
  return overlaps
}

interface Hold {
  readonly file: string
  readonly fence: number
  readonly fromUs: number
  untilUs: number
}

/**
 * An agent believes to hold a file from the moment its acquire returned until the earliest of its release, its loss
 * and its own deadline. Two such spans of one file must not touch, and the later one must have the higher fence.
 */
export function overlapsReported(reports: readonly AgentReport[]): number {
  const holds = holdsOf(reports)
  return FILE_NAMES.reduce(
    (sum, file) => sum + overlapsOf(holds.filter((hold) => hold.file === file)),
    0,
  )
}

function holdsOf(reports: readonly AgentReport[]): readonly Hold[] {
  const holds = new Map<number, Hold>()
  for (const { kind, file, fence, atUs, value } of reports) {
    const hold = holds.get(fence)
    if (kind === 'holds') holds.set(fence, { file, fence, fromUs: atUs, untilUs: value })
    else if (hold === undefined) continue
    else if (kind === 'renewed') hold.untilUs = value
    else if (kind === 'released' || kind === 'lost') hold.untilUs = Math.min(hold.untilUs, atUs)
  }
  return [...holds.values()]
}

function overlapsOf(holds: readonly Hold[]): number {
  const inTime = holds.toSorted((a, b) => a.fromUs - b.fromUs)
  let overlaps = 0
  inTime.forEach((hold, index) => {
    const next = inTime[index + 1]
    if (next !== undefined && (next.fromUs < hold.untilUs || next.fence <= hold.fence))
      overlaps += 1
  })
  return overlaps
}

/** Every line of a file begins with the fence of its writer, so that they must go up. */
function staleLines(directory: string): number {
  return FILE_NAMES.reduce((sum, name) => {
    const fences = fs
      .readFileSync(path.join(directory, name), 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => Number.parseInt(line, 10))
    return sum + fences.filter((fence, index) => fence <= (fences[index - 1] ?? 0)).length
  }, 0)
}

/** All leases have ended, so that the moment at which they are described makes no difference. */
function foldDifferences(events: readonly LeaseEvent[], kept: readonly LeaseInfo[]): number {
  const now = { tick: { domain: '', us: 0 }, wallMs: 0, domainSinceUs: 0, toleranceUs: 0 }
  const folded = new Map(
    [...foldLedger(events)].map(([id, entry]) => [id, canonicalJson(describeEntry(entry, now))]),
  )
  const wrong = kept.filter((lease) => folded.get(lease.id) !== canonicalJson(lease))
  return wrong.length + Math.abs(folded.size - kept.length)
}
