/**
 * Where the store is when no option or variable says: beside the repository that the work is about, so that all its worktrees share
 * it, and otherwise in the user's state directory. Git itself is not asked: starting it costs more than all the rest.
 *
 * A repository that is there and cannot be read is an error. Passing over it would put two agents into two stores.
 */
import os from 'node:os'
import path from 'node:path'
import { invalid, pathError } from '../core/errors.ts'
import { fs, ifThere } from '../runtime/file-system.ts'
import { escapedPath } from '../store-address.ts'

export type Env = Readonly<Record<string, string | undefined>>

const STORE_FILE = 'tenure.db'

export function defaultStoreUrl(cwd: string, env: Env): string {
  return `sqlite:${escapedPath(path.join(defaultDirectory(cwd, env), STORE_FILE))}`
}

/** Where Tenure keeps what was given no other place. */
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
  return hasHead(common) ? common : null
}

/** `.git` is a directory, or in a worktree or submodule a file that says where it is. */
function gitDirectoryOf(dotGit: string): string | null {
  const status = look(dotGit, (file) => fs.statSync(file))
  if (status === null) return null
  if (status.isDirectory()) return hasHead(dotGit) ? dotGit : null
  const [, target] = /^gitdir: (.+)$/m.exec(textOf(dotGit)) ?? []
  return target === undefined ? null : path.resolve(path.dirname(dotGit), target)
}

function commonOf(gitDirectory: string): string {
  const common = textOf(path.join(gitDirectory, 'commondir')).trim()
  return common === '' ? gitDirectory : path.resolve(gitDirectory, common)
}

function hasHead(gitDirectory: string): boolean {
  return look(path.join(gitDirectory, 'HEAD'), (file) => fs.statSync(file)) !== null
}

/** Empty for a file that is not there. */
function textOf(file: string): string {
  return look(file, () => fs.readFileSync(file, 'utf8')) ?? ''
}

/** Null for a file that is not there. */
function look<Result>(file: string, read: (file: string) => Result): Result | null {
  try {
    return ifThere(() => read(file))
  } catch (cause) {
    throw pathError('git', file, cause)
  }
}

/** The XDG specification says that a relative path there is to be ignored. */
export function stateDirectory(env: Env): string {
  const state = env['XDG_STATE_HOME']
  if (state && path.isAbsolute(state)) return path.join(state, 'tenure')
  const home = os.homedir()
  // A store beside every directory that a command is called from would be no store that others share.
  if (!path.isAbsolute(home)) throw invalid('HOME', 'must be an absolute path', home)
  return path.join(home, '.local', 'state', 'tenure')
}
