/** Sealed ledgers for tests: the history of a scripted store with a checkpoint every so many events. */
import { generateSigningKey } from '../../src/registrar/ed25519.ts'
import { sealChain, type LedgerCheckpoint } from '../../src/ledger/ledger-checkpoint.ts'
import { LedgerChain } from '../../src/ledger/sealed-ledger.ts'
import type { SealedLedger } from '../../src/ledger/verify-ledger.ts'
import type { LedgerEntry } from '../../src/store-port/store.ts'
import { verifier } from '../registrar/grants.ts'

export const SEALER = generateSigningKey()
export const SEAL_KEYS = [verifier(SEALER)]

export function sealed(entries: readonly LedgerEntry[], every: number): SealedLedger {
  const chain = new LedgerChain()
  const lines: string[] = []
  const checkpoints: LedgerCheckpoint[] = []
  const seal = (): void => {
    const previous = checkpoints.at(-1) ?? null
    checkpoints.push(sealChain(chain, { key: SEALER, atMs: 1_000 + chain.count, previous }))
  }
  for (const entry of entries) {
    lines.push(chain.append(entry))
    if (lines.length % every === 0) seal()
  }
  if (checkpoints.at(-1)?.events !== lines.length) seal()
  return { lines, checkpoints }
}

/** What a forger without the key can do: change the events, and write every number and hash anew. */
export function rewritten(lines: readonly string[]): readonly string[] {
  const chain = new LedgerChain()
  return lines.map((line) => {
    const { position, event } = JSON.parse(line) as LedgerEntry
    return chain.append({ position, event })
  })
}
