/** Where the command line keeps its keys and the tokens of a server, and how it changes them. */
import path from 'node:path'
import { invalid, isLeaseError } from '../core/errors.ts'
import { linkedFile, makeDirectoryFor, readKeyFile, writeKeyFile } from '../delegation/key-file.ts'
import type { KeyRing } from '../registrar/key-ring.ts'
import { report } from '../runtime/diagnostics.ts'
import { fs } from '../runtime/file-system.ts'
import { textOption, type Option } from './arguments.ts'
import { defaultDirectory } from './default-store.ts'
import { fromEnv } from './identity.ts'
import { waitForTurn } from '../delegation/turn.ts'

export const KEYS_OPTION: Option<string> = textOption(
  'FILE',
  'the file of keys (default: $TENURE_KEYS, else tenure.keys.json beside the default store)',
)

export const TOKENS_OPTION: Option<string> = textOption(
  'FILE',
  'the file of tokens (default: $TENURE_TOKENS, else tenure.tokens.json beside the default store, if it is there)',
)

type Secrets = 'keys' | 'tokens'

export function keyFileOf(given: string | undefined, cwd: string): string {
  return namedFile('keys', given, cwd) ?? usualFile('keys', cwd)
}

export function tokenFileOf(given: string | undefined, cwd: string): string {
  return namedFile('tokens', given, cwd) ?? usualFile('tokens', cwd)
}

/** Null where none was named or made: then no token is needed. */
export function servedTokenFile(given: string | undefined, cwd: string): string | null {
  const named = namedFile('tokens', given, cwd)
  if (named !== null) return named
  const file = usualFile('tokens', cwd)
  return fs.existsSync(file) ? file : null
}

/** The file that the option or the variable names; null where neither does. */
function namedFile(what: Secrets, given: string | undefined, cwd: string): string | null {
  const named = given ?? fromEnv(process.env, `TENURE_${what.toUpperCase()}`)
  if (named === undefined) return null
  if (named === '') throw invalid(what, 'must be a path', named)
  return path.resolve(cwd, named)
}

function usualFile(what: Secrets, cwd: string): string {
  return path.join(defaultDirectory(cwd, process.env), `tenure.${what}.json`)
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
