/** The sealed ledger that a server shows. It is verified when somebody looks, and not again within a minute. */
import { isLeaseError } from '../core/errors.ts'
import type { LedgerStanding } from '../server/ledger-standing.ts'
import { checkpointsFile, readCheckpoints } from '../delegation/ledger-files.ts'
import { verdictText, verifyDirectory, type VerifyDirectory } from './ledger-verdict.ts'

const AGAIN_MS = 60_000

export function servedLedger(ledger: VerifyDirectory): () => Promise<LedgerStanding> {
  let known: { readonly atMs: number; readonly standing: Promise<LedgerStanding> } | null = null
  return () => {
    const atMs = Date.now()
    if (known === null || atMs - known.atMs > AGAIN_MS)
      known = { atMs, standing: look(ledger, atMs) }
    return known.standing
  }
}

async function look(ledger: VerifyDirectory, verifiedAtMs: number): Promise<LedgerStanding> {
  try {
    const verdict = await verifyDirectory(ledger)
    const last = readCheckpoints(checkpointsFile(ledger.directory)).at(-1)
    const checkpoint =
      last === undefined ? null : { sequence: last.sequence, atMs: last.atMs, events: last.events }
    const [problem = ''] = verdictText(verdict).split('\n')
    return { checkpoint, verifiedAtMs, problem: verdict.ok ? null : problem }
  } catch (error) {
    // No fault: that it cannot be verified is the answer.
    if (isLeaseError(error)) return { checkpoint: null, verifiedAtMs, problem: error.message }
    throw error
  }
}
