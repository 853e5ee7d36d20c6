/** What `tenure init git` changes: a hook that is there is kept, and still called. */
import path from 'node:path'
import { invalid } from '../../core/errors.ts'
import {
  hasGuard,
  HOOKS,
  isShellScript,
  KEPT_SUFFIX,
  newHook,
  newHookBefore,
  withGuard,
  withoutGuard,
  type Hook,
} from '../../git/hook-text.ts'
import { hooksDirectory } from '../../git/repository.ts'
import { fs, ifThere } from '../../runtime/file-system.ts'
import { readIfThere, type FileChange } from '../file-change.ts'

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
