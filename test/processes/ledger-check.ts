/** Reads a whole ledger through the face that everybody uses, and compares it with what the store keeps. */
import { type Entry, ENTRY_STATES, describeEntry, type LeaseInfo } from '../../src/core/lease.ts'
import { LIST_LIMIT_MAX } from '../../src/core/limits.ts'
import type { Now } from '../../src/core/time.ts'
import { canonicalJson } from '../../src/core/canonical-json.ts'
import { foldLedger } from '../../src/ledger/fold.ts'
import type { LeaseApi, LedgerEntry } from '../../src/service/lease-api.ts'

export async function wholeHistory(api: LeaseApi): Promise<readonly LedgerEntry[]> {
  const history: LedgerEntry[] = []
  for (;;) {
    const last = history.at(-1)
    const after = last === undefined ? {} : { after: last.position }
    const page = await api.history({ ...after, limit: LIST_LIMIT_MAX, refusals: false })
    history.push(...page)
    if (page.length < LIST_LIMIT_MAX) return history
  }
}

/**
 * Entries on which the folded ledger and the store do not agree. Everything must be over and settled: what has ended
 * looks the same at any time, so no clock has to be guessed.
 */
export async function ledgerDifferences(
  api: LeaseApi,
  history: readonly LedgerEntry[],
): Promise<readonly string[]> {
  const folded = new Map<string, Entry>(foldLedger(history.map(({ event }) => event)))
  const kept = new Map((await wholeList(api)).map((lease) => [lease.id, lease]))
  return [...new Set([...folded.keys(), ...kept.keys()])].flatMap((id) => {
    const entry = folded.get(id)
    const told = entry === undefined ? 'nothing' : canonicalJson(describeEntry(entry, ANY_TIME))
    const seen = canonicalJson(kept.get(id) ?? null)
    return told === seen ? [] : [`the ledger tells ${told}, the store keeps ${seen}`]
  })
}

const ANY_TIME: Now = {
  tick: { domain: 'any', us: 0 },
  wallMs: 0,
  domainSinceUs: 0,
  toleranceUs: 0,
}

async function wholeList(api: LeaseApi): Promise<readonly LeaseInfo[]> {
  const lists = await Promise.all(
    ENTRY_STATES.map((state) => api.list({ state, limit: LIST_LIMIT_MAX })),
  )
  if (lists.some(({ more }) => more)) throw new Error('there are more leases than a list can have')
  return lists.flatMap(({ leases }) => leases)
}
