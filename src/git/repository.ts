/** Where a repository has its worktree and its hooks, and what it tracks. */
import { isUtf8 } from 'node:buffer'
import path from 'node:path'
import { git, lineOf, tryGit } from './git-command.ts'

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

/** The files that it tracks, from its top, as text: a name that is no UTF-8 has no JSON form. */
export async function trackedPaths(root: string): Promise<readonly string[]> {
  const listed = await git(['ls-files', '-z'], { cwd: root })
  const paths: string[] = []
  for (let start = 0; start < listed.length;) {
    const end = listed.indexOf(0, start)
    const name = listed.subarray(start, end < 0 ? listed.length : end)
    if (isUtf8(name)) paths.push(name.toString())
    start = end < 0 ? listed.length : end + 1
  }
  return paths
}
