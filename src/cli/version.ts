/** The version of the package that this file is part of. */
import { readFileSync } from 'node:fs'

export function version(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  const [, found] = /"version":\s*"([^"]+)"/.exec(manifest) ?? []
  return found ?? 'unknown'
}
