/** Where git looks for hooks, and where it runs them. */
import path from 'node:path'
import { git, lineOf } from './git-command.ts'
import { topOf } from './worktree.ts'

/** With `core.hooksPath`, which is taken from where hooks are run: the top of the worktree, or the repository without one. */
export async function hooksDirectory(cwd: string): Promise<string> {
  const top = (await topOf(cwd)) ?? lineOf(await git(['rev-parse', '--absolute-git-dir'], { cwd }))
  const base = top.toString()
  const answer = await git(['rev-parse', '--git-path', 'hooks'], { cwd: base })
  return path.resolve(base, lineOf(answer).toString())
}
