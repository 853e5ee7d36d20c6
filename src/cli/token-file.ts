/** Where the command line keeps the tokens of a server. */
import path from 'node:path'
import { invalid } from '../core/errors.ts'
import { fs } from '../runtime/file-system.ts'
import { textOption, type Option } from './arguments.ts'
import { defaultDirectory } from './default-store.ts'
import { fromEnv } from './identity.ts'

const TOKEN_FILE = 'tenure.tokens.json'

export const TOKENS_OPTION: Option<string> = textOption(
  'FILE',
  'the file of tokens (default: $TENURE_TOKENS, else tenure.tokens.json beside the default store, if it is there)',
)

function namedFile(given: string | undefined, cwd: string): string | null {
  const named = given ?? fromEnv(process.env, 'TENURE_TOKENS')
  if (named === undefined) return null
  if (named === '') throw invalid('tokens', 'must be a path', named)
  return path.resolve(cwd, named)
}

export function tokenFileOf(given: string | undefined, cwd: string): string {
  return namedFile(given, cwd) ?? path.join(defaultDirectory(cwd, process.env), TOKEN_FILE)
}

/** Null where none was named or made: then no token is needed. */
export function servedTokenFile(given: string | undefined, cwd: string): string | null {
  const named = namedFile(given, cwd)
  const file = named ?? tokenFileOf(undefined, cwd)
  return named !== null || fs.existsSync(file) ? file : null
}
