/**
 * The last checkpoints of the ledgers that a key has sealed, which its rotation names. Each ledger is examined before the
 * rotation vouches for it, and no sealer has its turn until the rotation is made.
 */
import { isLeaseError } from '../core/errors.ts'
import { signingKeyOf, type KeyRing } from '../registrar/key-ring.ts'
import { checkpointHash } from '../ledger/ledger-checkpoint.ts'
import { keySuccession } from '../registrar/verification-key.ts'
import { isAbsent } from '../delegation/ledger-files.ts'
import { examineLedger } from './sealed-directory.ts'
import { waitForTurn } from './turn.ts'

export interface LastCheckpoints {
  readonly hashes: readonly string[]
  /** Ledgers that the rotation cannot vouch for, and why. A rotation is made all the same: a key may have been stolen. */
  readonly unproven: readonly { readonly ledger: string; readonly problem: string }[]
}

export async function withLastCheckpoints<Result>(
  ring: KeyRing,
  directories: readonly string[],
  use: (last: LastCheckpoints) => Result,
): Promise<Result> {
  const keys = keySuccession(ring.keys, signingKeyOf(ring).keyId)
  const hashes: string[] = []
  const unproven: { readonly ledger: string; readonly problem: string }[] = []
  const ends: (() => void)[] = []
  try {
    for (const ledger of directories) {
      if (isAbsent(ledger)) {
        unproven.push({ ledger, problem: 'it is not there' })
        continue
      }
      ends.push(await waitForTurn({ directory: ledger, name: 'sealing', act: 'seal' }))
      const found = lastOf(ledger, keys)
      if ('problem' in found) unproven.push({ ledger, ...found })
      else if (found.hash !== null) hashes.push(found.hash)
    }
    return use({ hashes, unproven })
  } finally {
    for (const end of ends) end()
  }
}

type LastOf = { readonly hash: string | null } | { readonly problem: string }

function lastOf(directory: string, keys: Parameters<typeof examineLedger>[1]): LastOf {
  try {
    const { verdict, checkpoints } = examineLedger(directory, keys)
    if (verdict.first !== null) {
      return { problem: `got line ${verdict.first.line} that ${verdict.first.problem}` }
    }
    const last = checkpoints.at(-1)
    return { hash: last === undefined ? null : checkpointHash(last) }
  } catch (error) {
    if (isLeaseError(error)) return { problem: error.message }
    throw error
  }
}
