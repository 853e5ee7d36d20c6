/** The library of an earlier commit, built from its sources in a folder of its own that goes with this process. */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { ROOT } from '../part.ts'

/** The last one before SQLite, PostgreSQL and Redis keep what is live apart from the ledger. */
export const OLDER_COMMIT = '07153a1d'

let built: string | null = null

/** Its entry file. The first call compiles it, which takes half a minute. */
export async function olderLibrary(): Promise<string> {
  built ??= build()
  return built
}

function build(): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-older-'))
  process.once('exit', () => fs.rmSync(folder, { recursive: true, force: true }))
  const archive = path.join(folder, 'sources.tar')
  execFileSync('git', ['archive', '--output', archive, OLDER_COMMIT], { cwd: ROOT })
  execFileSync('tar', ['-xf', archive, '-C', folder])
  fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'))
  const compiler = path.join(ROOT, 'node_modules', '.bin', 'tsc')
  execFileSync(compiler, ['-b', 'src'], { cwd: folder, stdio: 'pipe' })
  return path.join(folder, 'dist', 'index.js')
}
