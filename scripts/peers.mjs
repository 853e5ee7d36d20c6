/**
 * Installs what Tenure is measured beside (bench/package.json), where that is not what its lockfile asks for. The peers
 * are in a folder of their own, so that none of them can become a dependency of the package.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fingerprint, ROOT, runNpmCi, SetupError } from './setup.mjs'

const FOLDER = join(ROOT, 'bench')
const STAMP = join(FOLDER, 'node_modules', '.tenure-setup')

/** Sees to it that the peers are there. The second time it reads two small files and is done. */
export async function providePeers() {
  const wanted = fingerprint(readFileSync(join(FOLDER, 'package-lock.json'), 'utf8'), process)
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === wanted) return
  process.stderr.write('Installing what Tenure is measured beside…\n')
  // None of them needs to be compiled; their drivers are those of the root.
  const { status, output } = await runNpmCi(FOLDER, ['--ignore-scripts'])
  if (status !== 0) {
    throw new SetupError(`${output.trimEnd()}\nnpm ci in bench/ failed with status ${status}.`)
  }
  writeFileSync(STAMP, wanted)
}
