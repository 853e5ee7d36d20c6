/**
 * What git does to files. Commands that change the whole checkout are distinguished from commands that
 * write to files by name; `git` itself is not asked.
 */
import path from 'node:path'
import { diffPaths } from '../patch-paths.ts'
import {
  argumentOf,
  operandsOf,
  UNKNOWN,
  writesTo,
  type Effects,
  type ProgramCall,
} from './shell-effects.ts'
import type { ShellArgument } from './shell-words.ts'

/** They change the index, refs or nothing at all, and no file of the checkout. */
const READERS: ReadonlySet<string> = new Set([
  ...[
    'status',
    'log',
    'diff',
    'show',
    'branch',
    'fetch',
    'add',
    'blame',
    'ls-files',
    'ls-tree',
    'tag',
  ],
  ...[
    'rev-parse',
    'remote',
    'config',
    'grep',
    'describe',
    'shortlog',
    'reflog',
    'cat-file',
    'push',
  ],
  ...[
    'rev-list',
    'for-each-ref',
    'merge-base',
    'diff-tree',
    'show-ref',
    'symbolic-ref',
    'notes',
    'gc',
  ],
  ...[
    'hash-object',
    'ls-remote',
    'count-objects',
    'archive',
    'bundle',
    'version',
    'help',
    'var',
    'init',
  ],
  ...['name-rev', 'whatchanged', 'range-diff', 'format-patch', 'check-ignore', 'worktree', 'fsck'],
])

/** They write to files that only git knows. */
const WHOLE_TREE: ReadonlySet<string> = new Set([
  ...['merge', 'pull', 'cherry-pick', 'revert', 'am', 'submodule', 'sparse-checkout', 'bisect'],
])

const GLOBAL_WITH_VALUE = ['-C', '-c', '--git-dir', '--work-tree', '--namespace']

interface GitCall {
  readonly args: readonly ShellArgument[]
  readonly words: readonly string[]
  readonly directory: string
  readonly input: string | null
  readonly context: ProgramCall['context']
}

export function gitEffects({ args, cwd, input, context }: ProgramCall): readonly Effects[] {
  const place = subcommandAt(args, cwd)
  if (place === null) return UNKNOWN
  const { index, directory } = place
  const name = args[index]?.text ?? null
  if (name === null) return []
  const rest = args.slice(index + 1)
  const words = rest.map(({ text }) => text ?? '')
  return named(name, { args: rest, words, directory, input, context })
}

/** Where the subcommand stands, and in which directory it runs. */
function subcommandAt(
  args: readonly ShellArgument[],
  cwd: string,
): { readonly index: number; readonly directory: string } | null {
  let directory = cwd
  let index = 0
  for (; index < args.length; index += 1) {
    const text = args[index]?.text ?? null
    if (text === null) return null
    if (!text.startsWith('-')) break
    if (!GLOBAL_WITH_VALUE.includes(text)) continue
    index += 1
    const value = args[index]?.text ?? null
    if (value === null) return null
    if (text === '-C' || text === '--work-tree') directory = path.resolve(directory, value)
  }
  return { index, directory }
}

function named(name: string, call: GitCall): readonly Effects[] {
  const { args, words, directory } = call
  switch (name) {
    case 'checkout':
      return checkedOut(call)
    case 'switch':
    case 'rebase':
      return moves(call, `git ${name}`)
    case 'stash':
      return ['list', 'show', 'drop', 'clear', 'create', 'store'].includes(words[0] ?? '')
        ? []
        : moves(call, 'git stash')
    case 'reset':
      return words.some((word) => ['--hard', '--merge', '--keep'].includes(word))
        ? moves(call, 'git reset --hard')
        : []
    case 'clean':
      return words.some((word) => word === '--force' || /^-[a-z]*f/.test(word))
        ? moves(call, 'git clean')
        : []
    case 'restore':
      return restored(call)
    case 'rm':
      return words.includes('--cached') ? [] : writesTo(operandsOf(args), directory)
    case 'mv':
      return renamed(call)
    case 'apply':
      return applied(call)
    case 'commit':
      return [{ commit: directory }]
    default:
      if (READERS.has(name)) return []
      if (WHOLE_TREE.has(name)) return [{ isUnknown: true, named: [directory] }]
      return UNKNOWN
  }
}

function moves({ directory }: GitCall, command: string): readonly Effects[] {
  return [{ checkout: { directory, command } }]
}

/** With `--`, or with a word that is there as a file, it writes to files by name; otherwise it moves the checkout. */
function checkedOut(call: GitCall): readonly Effects[] {
  const { args, words, directory, context } = call
  const at = words.indexOf('--')
  if (at !== -1) return pathsOf(args.slice(at + 1), call, 'git checkout')
  const operands = operandsOf(args, ['-b', '-B', '--orphan', '--conflict'])
  const isBranch = words.some((word) => ['-b', '-B', '--orphan', '--detach'].includes(word))
  const files = operands.filter(({ text }) => {
    return text !== null && context.isThere(path.resolve(directory, text))
  })
  if (isBranch || files.length === 0) return moves(call, 'git checkout')
  return pathsOf(files, call, 'git checkout')
}

function restored(call: GitCall): readonly Effects[] {
  const { args, words } = call
  const isIndexOnly =
    words.some((word) => word === '--staged' || word === '-S') &&
    !words.some((word) => word === '--worktree' || word === '-W')
  if (isIndexOnly) return []
  return pathsOf(operandsOf(args, ['-s', '--source']), call, 'git restore')
}

/** A directory stands for all that is below it. */
function pathsOf(
  paths: readonly ShellArgument[],
  call: GitCall,
  command: string,
): readonly Effects[] {
  const isWhole = paths.some(({ text }) => text === '.' || text === ':/')
  return isWhole ? moves(call, command) : writesTo(paths, call.directory)
}

function renamed({ args, directory, context }: GitCall): readonly Effects[] {
  const operands = operandsOf(args)
  const target = operands.at(-1)
  const sources = operands.slice(0, -1)
  if (target === undefined || target.text === null) return UNKNOWN
  const place = path.resolve(directory, target.text)
  const reached = context.isDirectory(place)
    ? sources.map((source): ShellArgument => {
        const text = source.text === null ? null : path.join(place, path.basename(source.text))
        return { ...source, text }
      })
    : [target]
  return writesTo([...sources, ...reached], directory)
}

function applied({ args, words, directory, input, context }: GitCall): readonly Effects[] {
  if (words.some((word) => ['--check', '--stat', '--numstat', '--summary'].includes(word)))
    return []
  if (words.includes('--cached')) return []
  const strip = words.find((word) => /^-p\d+$/.test(word))?.slice(2)
  const files = operandsOf(args, ['-p', '-C', '--directory', '--exclude', '--include'])
  const texts = files.length === 0 ? [input] : files.map(({ text }) => readPatch(text, directory))
  const known = texts.filter((text) => text !== null)
  const names = known.flatMap((text) => diffPaths(text, strip === undefined ? 1 : Number(strip)))
  if (known.length < texts.length || names.length === 0) return UNKNOWN
  return writesTo(names.map(argumentOf), directory)

  function readPatch(text: string | null, from: string): string | null {
    if (text === null || text === '-') return text === null ? null : input
    return context.readText(path.resolve(from, text))
  }
}
