/** Where the command line keeps its keys, and how it changes them. */
import path from 'node:path'
import { invalid, isLeaseError } from '../core/errors.ts'
import { linkedFile, makeDirectoryFor, readKeyFile, writeKeyFile } from '../delegation/key-file.ts'
import type { KeyRing } from '../registrar/key-ring.ts'
import { report } from '../runtime/diagnostics.ts'
import { defaultDirectory } from './default-store.ts'
import { fromEnv } from './identity.ts'
import { waitForTurn } from '../delegation/turn.ts'

const KEY_FILE = 'tenure.keys.json'

export function keyFileOf(given: string | undefined, cwd: string): string {
  const named = given ?? fromEnv(process.env, 'TENURE_KEYS')
  if (named === undefined) return path.join(defaultDirectory(cwd, process.env), KEY_FILE)
  if (named === '') throw invalid('keys', 'must be a path', named)
  return path.resolve(cwd, named)
}

export function withKeyFile<Result>(
  keyFile: string,
  use: (ring: KeyRing) => Promise<Result>,
): Promise<Result> {
  return withTurnOf(keyFile, (file) => use(readKeyFile(file)))
}

/** Holds the turn of a file: of two processes that change it at once, one would write back what the other has changed. */
export async function withTurnOf<Result>(
  name: string,
  use: (file: string) => Result | Promise<Result>,
): Promise<Result> {
  // Turns are taken on the file itself, whatever symbolic links lead to it.
  const file = linkedFile(name)
  makeDirectoryFor(file)
  const { dir: directory, base } = path.parse(file)
  const act = `change ${base}`
  const endTurn = await waitForTurn({ directory, name: `.${base}.turn`, act })
  try {
    return await use(file)
  } finally {
    endTurn()
  }
}

/**
 * Remembers in the file that its key seals this ledger, so that a rotation can name the last checkpoint. False where the
 * file may not be written to; then the rotation must name the ledger.
 */
export async function noteLedger(keyFile: string, directory: string): Promise<boolean> {
  if (readKeyFile(keyFile).ledgers?.includes(directory) === true) return true
  try {
    await withKeyFile(keyFile, async (ring) => {
      writeKeyFile(keyFile, { ...ring, ledgers: [...new Set(ring.ledgers).add(directory)] })
    })
    return true
  } catch (error) {
    if (!isReadOnly(error)) throw error
    report('cli/note-ledger', error)
    return false
  }
}

const READ_ONLY_CODES: readonly unknown[] = ['EROFS', 'EACCES', 'EPERM']

function isReadOnly(error: unknown): boolean {
  const { cause } = isLeaseError(error) ? error : { cause: null }
  return cause instanceof Error && 'code' in cause && READ_ONLY_CODES.includes(cause.code)
}
