/**
 * Where the store is when nobody says: beside the repository that the work is about, so that all its worktrees share
 * it, and otherwise in the user's state directory. Git itself is not asked: starting it costs more than all the rest.
 */
import os from 'node:os'
import path from 'node:path'
import { fs } from '../runtime/file-system.ts'

export type Env = Readonly<Record<string, string | undefined>>

const STORE_FILE = 'tenure.db'

export function defaultStoreUrl(cwd: string, env: Env): string {
  const file = path.join(defaultDirectory(cwd, env), STORE_FILE)
  return `sqlite:${file.replaceAll('%', '%25').replaceAll('?', '%3F')}`
}

/** Where Tenure keeps what nobody gave another place. */
export function defaultDirectory(cwd: string, env: Env): string {
  return gitCommonDirectory(cwd, env) ?? stateDirectory(env)
}

/** What `git rev-parse --git-common-dir` says, made absolute; null outside of a repository. */
export function gitCommonDirectory(cwd: string, env: Env): string | null {
  const common = env['GIT_COMMON_DIR']
  if (common) return path.resolve(cwd, common)
  const named = env['GIT_DIR']
  if (named) return knownRepository(path.resolve(cwd, named))
  for (let directory = cwd; ; directory = path.dirname(directory)) {
    const git = gitDirectoryOf(path.join(directory, '.git'))
    if (git !== null) return knownRepository(git)
    if (directory === path.dirname(directory)) return null
  }
}

/** A name that leads nowhere must not make directories there. */
function knownRepository(gitDirectory: string): string | null {
  const common = commonOf(gitDirectory)
  return fs.existsSync(path.join(common, 'HEAD')) ? common : null
}

/** `.git` is a directory, or in a worktree or submodule a file that says where it is. */
function gitDirectoryOf(dotGit: string): string | null {
  const status = fs.statSync(dotGit, { throwIfNoEntry: false })
  if (status === undefined) return null
  if (status.isDirectory()) return fs.existsSync(path.join(dotGit, 'HEAD')) ? dotGit : null
  const [, target] = /^gitdir: (.+)$/m.exec(tryRead(dotGit)) ?? []
  return target === undefined ? null : path.resolve(path.dirname(dotGit), target)
}

function commonOf(gitDirectory: string): string {
  const common = tryRead(path.join(gitDirectory, 'commondir')).trim()
  return common === '' ? gitDirectory : path.resolve(gitDirectory, common)
}

function tryRead(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** The XDG specification says that a relative path there is to be ignored. */
function stateDirectory(env: Env): string {
  const state = env['XDG_STATE_HOME']
  if (state && path.isAbsolute(state)) return path.join(state, 'tenure')
  return path.join(os.homedir(), '.local', 'state', 'tenure')
}
