/**
 * Git, as a program. It inherits the environment, which inside a hook names the repository and the index that the commit
 * is made from; both may be others than those of the working directory.
 */
import { LeaseError, show } from '../core/errors.ts'
import { hasCode } from '../runtime/file-system.ts'
import { runProgram, type ProgramEnd } from '../runtime/programs.ts'

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
