/**
 * Git, as a program: where a repository has its worktree and its hooks, and what it tracks. Git inherits the environment, which
 * inside a hook names the repository and the index that the commit is made from; both may be others than those of the
 * working directory.
 */
import { isUtf8 } from 'node:buffer'
import path from 'node:path'
import { LeaseError, show } from '../core/errors.ts'
import { hasCode } from '../runtime/file-system.ts'
import { runProgram, type ProgramEnd } from '../runtime/programs.ts'

/** The top of the worktree that a directory is in; null in a repository that has none. Throws `INVALID_INPUT` outside of a repository. */
export async function topOf(cwd: string): Promise<Buffer | null> {
  const { exitCode, stdout } = await tryGit(['rev-parse', '--show-toplevel'], { cwd })
  if (exitCode === 0) return lineOf(stdout)
  await git(['rev-parse', '--git-dir'], { cwd })
  return null
}

/** Where git looks for hooks, with `core.hooksPath`, which is taken from where hooks are run: the top of the worktree, or the repository without one. */
export async function hooksDirectory(cwd: string): Promise<string> {
  const top = (await topOf(cwd)) ?? lineOf(await git(['rev-parse', '--absolute-git-dir'], { cwd }))
  const base = top.toString()
  const answer = await git(['rev-parse', '--git-path', 'hooks'], { cwd: base })
  return path.resolve(base, lineOf(answer).toString())
}

/** The files that it tracks, each once also while a merge has left conflicts, from its top, as text: a name that is no UTF-8 has no JSON form. */
export async function trackedPaths(root: string): Promise<readonly string[]> {
  const listed = await git(['ls-files', '-z'], { cwd: root })
  const paths = new Set<string>()
  for (let start = 0; start < listed.length;) {
    const end = listed.indexOf(0, start)
    const name = listed.subarray(start, end < 0 ? listed.length : end)
    if (isUtf8(name)) paths.add(name.toString())
    start = end < 0 ? listed.length : end + 1
  }
  return [...paths]
}

export interface GitOptions {
  readonly cwd: string
  readonly input?: string | Buffer
}

/** What git answers; throws `INVALID_INPUT` with its own words where it fails. */
export async function git(args: readonly string[], options: GitOptions): Promise<Buffer> {
  const { exitCode, stdout, stderr } = await tryGit(args, options)
  if (exitCode === 0) return stdout
  const [words = ''] = stderr.trim().split('\n')
  throw unusable(options.cwd, `git ${args[0]} ended with ${exitCode}: ${words}`)
}

/** The same for questions that git may answer with a failure. */
export async function tryGit(args: readonly string[], options: GitOptions): Promise<ProgramEnd> {
  try {
    return await runProgram(['git', ...args], options)
  } catch (cause) {
    if (!hasCode(cause, 'ENOENT', 'EACCES')) throw cause
    throw unusable(options.cwd, 'git is not installed, or the directory is gone or closed', cause)
  }
}

function unusable(cwd: string, why: string, cause?: unknown): LeaseError {
  const message = `repository must be one that git can read, got ${show(cwd)}: ${why}`
  return new LeaseError('INVALID_INPUT', message, { details: { field: 'repository' }, cause })
}

/** One line of an answer; a name may itself end with white space. */
export function lineOf(answer: Buffer): Buffer {
  return answer.at(-1) === 0x0a ? answer.subarray(0, -1) : answer
}
