/** Where the command line keeps its keys. */
import path from 'node:path'
import { defaultDirectory } from './default-store.ts'

const KEY_FILE = 'tenure.keys.json'

export function keyFileOf(given: string | undefined, cwd: string): string {
  const named = given ?? process.env['TENURE_KEYS']
  if (named === undefined || named === '') {
    return path.join(defaultDirectory(cwd, process.env), KEY_FILE)
  }
  return path.resolve(cwd, named)
}
