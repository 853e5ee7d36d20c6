/** The version of the package that this file is part of. */
import { readFileSync } from 'node:fs'

const MANIFEST = '../../package.json'

export function version(): string {
  const manifest = readFileSync(new URL(MANIFEST, import.meta.url), 'utf8')
  const [, found] = /"version":\s*"([^"]+)"/.exec(manifest) ?? []
  return found ?? 'unknown'
}
