/** The worktree that a directory is in. */
import { git, lineOf, tryGit } from './git-command.ts'

/** Its top; null in a repository that has none. Throws `INVALID_INPUT` outside of a repository. */
export async function topOf(cwd: string): Promise<Buffer | null> {
  const { exitCode, stdout } = await tryGit(['rev-parse', '--show-toplevel'], { cwd })
  if (exitCode === 0) return lineOf(stdout)
  await git(['rev-parse', '--git-dir'], { cwd })
  return null
}
