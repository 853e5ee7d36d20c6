/** Whether the hooks of the repository really stop git, tried in a repository that is gone afterwards. */
import path from 'node:path'
import { isLeaseError } from '../../core/errors.ts'
import { hasGuard, HOOKS, type Hook } from '../../git/hook-text.ts'
import { hooksDirectory } from '../../git/repository.ts'
import { fs } from '../../runtime/file-system.ts'
import { runProgram, type ProgramEnd } from '../../runtime/programs.ts'
import { attempt, type Check } from '../checkup.ts'
import { readIfThere } from '../file-change.ts'
import { TRIAL_LIMIT_MS, withHeldFile, type ProofFile } from './held-file.ts'

/** Nothing where no hook asks Tenure, or where there is no repository. */
export async function proveGit(cwd: string): Promise<readonly Check[]> {
  const directory = await directoryIn(cwd)
  if (directory === null || !HOOKS.some((hook) => isInstalled(directory, hook))) return []
  const checks: Check[] = []
  for (const hook of HOOKS) {
    checks.push(await attempt(`git ${hook}`, async () => proveHook(directory, hook)))
  }
  return checks
}

async function directoryIn(cwd: string): Promise<string | null> {
  try {
    return await hooksDirectory(cwd)
  } catch (error) {
    // No fault: the doctor looks at what there is, and here is no repository, or no git.
    if (isLeaseError(error, 'INVALID_INPUT')) return null
    throw error
  }
}

function isInstalled(directory: string, hook: Hook): boolean {
  const text = readIfThere(path.join(directory, hook))?.toString('latin1')
  return text !== undefined && hasGuard(text)
}

async function proveHook(directory: string, hook: Hook): Promise<string> {
  const act = hook === 'pre-commit' ? 'commit' : 'push'
  if (!isInstalled(directory, hook)) {
    throw new Error(`${path.join(directory, hook)} does not ask Tenure: tenure init git --write`)
  }
  return withHeldFile(async (held) => {
    const ended = await (act === 'commit' ? tryCommit : tryPush)(directory, held)
    if (ended.exitCode !== 0 && ended.stderr.includes(held.holder)) {
      return `a ${act} of what another holds is refused`
    }
    if (ended.exitCode === 0) {
      const why = isExecutable(path.join(directory, hook)) ? '' : `: ${hook} is not executable`
      throw new Error(`a ${act} of what another holds went through${why}`)
    }
    const [words = ''] = ended.stderr.trim().split('\n')
    throw new Error(`every ${act} fails, whoever holds what: ${words}`)
  })
}

function isExecutable(file: string): boolean {
  return (fs.statSync(file).mode & 0o111) !== 0
}

async function tryCommit(hooks: string, held: ProofFile): Promise<ProgramEnd> {
  await gitIn(held, 'init', '--quiet')
  await gitIn(held, 'add', '--all')
  return gitIn(held, '-c', `core.hooksPath=${hooks}`, 'commit', '--quiet', '--message=trial')
}

async function tryPush(hooks: string, held: ProofFile): Promise<ProgramEnd> {
  await gitIn(held, 'init', '--quiet')
  await gitIn(held, 'add', '--all')
  await gitIn(held, 'commit', '--quiet', '--no-verify', '--message=trial')
  const remote = path.join(held.directory, '.git', 'remote.git')
  await gitIn(held, 'init', '--quiet', '--bare', remote)
  return gitIn(held, '-c', `core.hooksPath=${hooks}`, 'push', '--quiet', remote, 'HEAD')
}

/** Without what a user may have configured to happen at a commit. */
const PLAIN = ['user.name=tenure', 'user.email=tenure@localhost', 'commit.gpgSign=false']

async function gitIn(held: ProofFile, ...args: readonly string[]): Promise<ProgramEnd> {
  const { directory: cwd, env } = held
  const options = PLAIN.flatMap((setting) => ['-c', setting])
  return runProgram(['git', ...options, ...args], { cwd, env, limitMs: TRIAL_LIMIT_MS })
}
