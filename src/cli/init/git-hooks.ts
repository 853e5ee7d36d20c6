/**
 * What `tenure init git` changes: a hook that is there is kept, and still called. And how `tenure doctor` tries it.
 *
 * The lines that ask Tenure stand at the beginning of a shell script that is there already, right behind its first line, so
 * that it sees the same name, arguments and input as before, and its exit status stays that of the hook. Taking them out gives
 * the script back byte for byte. Text is one character for each byte here: a script need not be UTF-8.
 */
import path from 'node:path'
import { invalid, isLeaseError } from '../../core/errors.ts'
import { hooksDirectory } from '../../git/repository.ts'
import { fs, ifThere } from '../../runtime/file-system.ts'
import { type ProgramEnd, runProgram } from '../../runtime/programs.ts'
import { attempt, type Check } from '../checkup.ts'
import { type FileChange, readIfThere } from '../file-change.ts'
import { type ProofFile, TRIAL_LIMIT_MS, withHeldFile } from './held-file.ts'

const EXECUTABLE = 0o111

/** `command`: how a shell calls `tenure`. */
export async function hooksToInstall(cwd: string, command: string): Promise<readonly FileChange[]> {
  const directory = await hooksDirectory(cwd)
  const words = Buffer.from(command).toString('latin1')
  return HOOKS.flatMap((hook) => installed(lookAt(directory, hook), words))
}

export async function hooksToRemove(cwd: string): Promise<readonly FileChange[]> {
  const directory = await hooksDirectory(cwd)
  return HOOKS.flatMap((hook) => removed(lookAt(directory, hook)))
}

interface HookFile {
  readonly hook: Hook
  readonly file: string
  /** Null where there is none. */
  readonly text: string | null
  /** Whether git runs the very file: no link, and executable. */
  readonly isPlain: boolean
  readonly kept: string
  readonly hasKept: boolean
}

function lookAt(directory: string, hook: Hook): HookFile {
  const file = path.join(directory, hook)
  const kept = `${file}${KEPT_SUFFIX}`
  const status = ifThere(() => fs.lstatSync(file))
  const bytes = status?.isFile() === true ? readIfThere(file) : null
  return {
    ...{ hook, file, kept },
    text: status === null ? null : (bytes?.toString('latin1') ?? ''),
    isPlain: status?.isFile() === true && (status.mode & EXECUTABLE) !== 0,
    hasKept: ifThere(() => fs.lstatSync(kept)) !== null,
  }
}

function installed(found: HookFile, command: string): readonly FileChange[] {
  const { hook, file, text, isPlain, kept, hasKept } = found
  const made = hasKept ? newHookBefore(hook, command) : newHook(hook, command)
  if (text === null) return [written(file, null, made)]
  if (hasGuard(text) || (isPlain && isShellScript(text))) {
    const after = withGuard(text, hook, command)
    return after === text && isPlain ? [] : [written(file, text, after)]
  }
  if (hasKept) throw invalid('hook', `must not be there beside ${kept}`, file)
  const move: FileChange = { kind: 'move', file, to: kept }
  return [move, written(file, null, newHookBefore(hook, command))]
}

function removed({ file, text, kept, hasKept }: HookFile): readonly FileChange[] {
  const back: readonly FileChange[] = hasKept ? [{ kind: 'move', file: kept, to: file }] : []
  if (text === null) return back
  if (!hasGuard(text)) return []
  const left = withoutGuard(text)
  if (left !== null && !hasKept) return [written(file, text, left)]
  return [{ kind: 'remove', file, before: bytesOf(text) }, ...back]
}

function written(file: string, before: string | null, after: string): FileChange {
  const old = before === null ? null : bytesOf(before)
  return { kind: 'write', file, before: old, after: bytesOf(after), isProgram: true }
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'latin1')
}

/**
 * Whether the hooks of the repository really stop git, tried in a repository that is gone afterwards. Nothing where no hook
 * asks Tenure, or where there is no repository.
 */
export async function proveGit(cwd: string): Promise<readonly Check[]> {
  const directory = await directoryIn(cwd)
  if (directory === null) return []
  const found = await attempt('git', async () => {
    return HOOKS.filter((hook) => isInstalled(directory, hook)).join()
  })
  if (!found.ok) return [found]
  if (found.detail === '') return []
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

export const HOOKS = ['pre-commit', 'pre-push'] as const
type Hook = (typeof HOOKS)[number]

const BEGIN =
  '# >>> tenure: refuses what others hold; tenure init git --remove takes these lines out'
const END = '# <<< tenure'
const OWN_HEAD = '#!/bin/sh\n# Made by tenure init git.\n'

/** What a hook is called that is no shell script, or is a link, or is not run, while another calls it. */
const KEPT_SUFFIX = '.before-tenure'

const CALL_KEPT = `[ ! -x "$0${KEPT_SUFFIX}" ] || exec "$0${KEPT_SUFFIX}" "$@"\n`

/** Shells that read the lines as they are meant. */
const SHELL_PATTERN = /^#![^\n]*[/ ](?:a|ba|da|k|z)?sh(?:[ \t][^\n]*)?\n/

export function isShellScript(text: string): boolean {
  return SHELL_PATTERN.test(text)
}

/** A hook of its own, which goes on with the one that was kept. */
export function newHook(hook: Hook, command: string): string {
  return `${OWN_HEAD}${guardLines(hook, command)}`
}

function newHookBefore(hook: Hook, command: string): string {
  return `${newHook(hook, command)}${CALL_KEPT}`
}

/** The script with the lines, behind its first one; with these instead of others that are there. */
export function withGuard(text: string, hook: Hook, command: string): string {
  const [first = ''] = SHELL_PATTERN.exec(text) ?? []
  const { start, end } = guardIn(text) ?? { start: first.length, end: first.length }
  return `${text.slice(0, start)}${guardLines(hook, command)}${text.slice(end)}`
}

/** Null for what was a hook of its own, and nothing else. */
export function withoutGuard(text: string): string | null {
  const { start, end } = guardIn(text) ?? { start: 0, end: 0 }
  const left = text.slice(0, start) + text.slice(end)
  return left === OWN_HEAD ? null : left
}

export function hasGuard(text: string): boolean {
  return guardIn(text) !== null
}

function guardIn(text: string): { readonly start: number; readonly end: number } | null {
  const start = text.indexOf(`${BEGIN}\n`)
  const end = text.indexOf(`${END}\n`, start)
  return start < 0 || end < 0 ? null : { start, end: end + END.length + 1 }
}

/** Git says on stdin what is pushed; whatever the script does with that comes after. */
function guardLines(hook: Hook, command: string): string {
  const call = `${command} git ${hook} "$@" || exit $?`
  const lines = hook === 'pre-push' ? pushLines(call) : [call]
  return [BEGIN, ...lines, END, ''].join('\n')
}

function pushLines(call: string): readonly string[] {
  return [
    'tenure_refs=$(cat)',
    `printf '%s\\n' "$tenure_refs" | ${call}`,
    'if [ -z "$tenure_refs" ]; then exec </dev/null; else exec <<TENURE_REFS',
    '$tenure_refs',
    'TENURE_REFS',
    'fi',
  ]
}
