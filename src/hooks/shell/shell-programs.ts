/**
 * What the programs that agents write files with do, by their arguments. A program that is not here is unknown; one that is
 * here and is called in a way that is not read says so as well. Of git, commands that change the whole checkout are
 * distinguished from commands that write to files by name; `git` itself is not asked.
 */
import path from 'node:path'
import { applyPatchPaths, diffPaths } from '../patch-paths.ts'
import {
  argumentOf,
  operandsOf,
  optionValues,
  UNKNOWN,
  writesTo,
  type Effects,
  type ProgramCall,
} from './shell-effects.ts'
import type { ShellArgument } from './shell-words.ts'

const NOTHING: readonly Effects[] = []

/** A set as text: one name for each line of an array is more than can be read. */
function namesIn(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/))
}

/** These write to nothing but what they are redirected to. */
const READERS: ReadonlySet<string> = namesIn(`
  ls cat head tail grep egrep fgrep rg ag wc echo printf pwd true false : test [ [[ which type
  hash stat file du df cut tr jq diff cmp comm basename dirname realpath readlink date
  printenv id whoami hostname uname ps sleep seq tree less more nl od hexdump md5sum sha1sum
  sha256sum column fold paste rev tac export set unset read wait exit return break local
  continue shift ulimit umask alias mkdir rmdir chmod chown kill free uptime nproc lsof tty
  clear history jobs declare readonly typeset let
`)

export function programEffects(call: ProgramCall): readonly Effects[] {
  const name = path.basename(call.program)
  const read = PROGRAMS[name]
  if (Object.hasOwn(PROGRAMS, name) && read !== undefined) return read(call)
  return READERS.has(name) ? NOTHING : UNKNOWN
}

type Program = (call: ProgramCall) => readonly Effects[]

const PROGRAMS: Readonly<Record<string, Program>> = {
  cd: changeDirectory,
  pushd: changeDirectory,
  popd: () => [{ cwd: null }],
  env: (call) => prefixed(call, { withValue: ['-u', '-C', '-S'], assigns: true }),
  sudo: (call) => prefixed(call, { withValue: ['-u', '-g', '-h', '-p', '-D'], assigns: true }),
  doas: (call) => prefixed(call, { withValue: ['-u'] }),
  nice: (call) => prefixed(call, { withValue: ['-n'] }),
  ionice: (call) => prefixed(call, { withValue: ['-c', '-n'] }),
  timeout: (call) => prefixed(call, { withValue: ['-s', '-k'], operands: 1 }),
  nohup: (call) => prefixed(call, {}),
  stdbuf: (call) => prefixed(call, { withValue: ['-i', '-o', '-e'] }),
  command: (call) => prefixed(call, {}),
  builtin: (call) => prefixed(call, {}),
  exec: (call) => prefixed(call, { withValue: ['-a'] }),
  setsid: (call) => prefixed(call, {}),
  time: (call) => prefixed(call, { withValue: ['-f', '-o'] }),
  bash: shell,
  sh: shell,
  dash: shell,
  zsh: shell,
  eval: ({ args }) => scriptOf(args.map(({ text }) => text)),
  trap: ({ args }) => scriptOf(args.slice(0, 1).map(({ text }) => (text === '-' ? '' : text))),
  // What it runs has leases of its own, and those of the agent as well if it asks for them.
  tenure: ({ args }) => (args[0]?.text === 'run' ? UNKNOWN : NOTHING),
  tee: ({ args, cwd }) => writesTo(operandsOf(args), cwd),
  touch: ({ args, cwd }) => writesTo(operandsOf(args, ['-d', '-r', '-t']), cwd),
  truncate: ({ args, cwd }) => writesTo(operandsOf(args, ['-s', '-r', '--size']), cwd),
  unlink: ({ args, cwd }) => writesTo(operandsOf(args), cwd),
  shred: ({ args, cwd }) => writesTo(operandsOf(args, ['-n', '-s']), cwd),
  rm: ({ args, cwd }) => writesTo(operandsOf(args), cwd),
  sed: inPlaceEditor({ script: 'ef', long: ['--expression', '--file'], withValue: ['-l'] }),
  perl: interpreter({ script: 'eE', withValue: ['-I', '-M', '-m', '-F'] }),
  ruby: interpreter({ script: 'e', withValue: ['-I', '-r'] }),
  mv: (call) => moved(call, { removesSource: true }),
  cp: (call) => moved(call, { removesSource: false }),
  install: (call) => moved(call, { removesSource: false, withValue: ['-m', '-o', '-g'] }),
  ln: linked,
  dd: ({ args, cwd }) => writesTo(valuesOf(args, 'of='), cwd),
  sort: ({ args, cwd }) => writesTo(optionValues(args, ['-o', '--output']), cwd),
  uniq: ({ args, cwd }) => writesTo(operandsOf(args, ['-f', '-s', '-w']).slice(1), cwd),
  xxd: ({ args, cwd }) => writesTo(operandsOf(args, ['-c', '-g', '-l', '-o', '-s']).slice(1), cwd),
  curl: curl,
  wget: wget,
  find: found,
  fd: found,
  fdfind: found,
  awk: awk,
  gawk: awk,
  patch: patched,
  apply_patch: appliedPatch,
  applypatch: appliedPatch,
  git: gitEffects,
}

function valuesOf(args: readonly ShellArgument[], prefix: string): readonly ShellArgument[] {
  return args.flatMap((argument): readonly ShellArgument[] => {
    const { text } = argument
    return text?.startsWith(prefix) === true
      ? [{ ...argument, text: text.slice(prefix.length) }]
      : []
  })
}

function changeDirectory({ args, cwd, context }: ProgramCall): readonly Effects[] {
  const [target] = operandsOf(args)
  if (target === undefined) return [{ cwd: context.variables['HOME'] ?? null }]
  if (target.text === null || target.text === '-') return [{ cwd: null }]
  return [{ cwd: path.resolve(cwd, target.text) }]
}

interface Prefix {
  readonly withValue?: readonly string[]
  /** How many words of its own come before the command. */
  readonly operands?: number
  readonly assigns?: boolean
}

/** A program that runs the rest of its arguments as a command. */
function prefixed(call: ProgramCall, prefix: Prefix): readonly Effects[] {
  const { withValue = [], operands = 0, assigns = false } = prefix
  const { args } = call
  let index = 0
  for (; index < args.length; index += 1) {
    const text = args[index]?.text ?? null
    if (text === null || text === '--') break
    if (withValue.includes(text)) index += 1
    else if (!text.startsWith('-') && !(assigns && /^[A-Za-z_]\w*=/.test(text))) break
  }
  if (args[index]?.text === '--') index += 1
  const [program, ...rest] = args.slice(index + operands)
  if (program === undefined) return NOTHING
  if (program.text === null) return UNKNOWN
  return programEffects({ ...call, program: program.text, args: rest })
}

/** `bash -c SCRIPT`; any other use runs a file that is not read. */
function shell({ args, input }: ProgramCall): readonly Effects[] {
  const at = args.findIndex(({ text }) => text !== null && /^-[a-z]*c$/.test(text))
  if (at === -1) return args.length === 0 && input !== null ? [{ script: input }] : UNKNOWN
  return scriptOf([args[at + 1]?.text ?? null])
}

function scriptOf(texts: readonly (string | null)[]): readonly Effects[] {
  return texts.includes(null) ? UNKNOWN : [{ script: texts.join(' ') }]
}

interface Editor {
  /** Letters of options that say what is to be done, so that no operand does; each takes a value. */
  readonly script: string
  readonly long?: readonly string[]
  readonly withValue: readonly string[]
}

/** `sed -i`, `perl -pi -e`: writes to its operands, of which the first is its script unless an option was. */
function inPlaceEditor({ script, long = [], withValue }: Editor): Program {
  const scripted = new RegExp(`^-\\w*[${script}]$`)
  // What stands behind a letter that takes a value is that value: `-Ilib` has no `-i`.
  const valued = withValue.map((option) => option.slice(1)).join('')
  const inPlace = new RegExp(`^(?:--in-place|-[^\\W${script}${valued}]*i)`)
  return ({ args, cwd }) => {
    const texts = args.map(({ text }) => text ?? '')
    if (!texts.some((text) => inPlace.test(text))) return NOTHING
    const scripts = texts.filter((text) => scripted.test(text) || long.includes(text))
    const isScripted =
      scripts.length > 0 || texts.some((text) => long.some((one) => text.startsWith(`${one}=`)))
    const operands = operandsOf(args, [...scripts, ...withValue])
    // BSD's sed takes the suffix of its backup as an argument of its own, mostly an empty one.
    const files = operands.filter(({ text }) => text !== '')
    return writesTo(isScripted ? files : files.slice(1), cwd)
  }
}

/** Without `-i` only a filter that prints is read; any other script may write to whatever it names. */
function interpreter(editor: Editor): Program {
  const edited = inPlaceEditor(editor)
  return (call) => {
    const effects = edited(call)
    if (effects !== NOTHING) return effects
    const texts = call.args.map(({ text }) => text)
    const isFilter = texts.some((text) => text !== null && /^-[0-9alsw]*[np]/.test(text))
    const mayWrite = texts.some((text) => text === null || WRITING.test(text))
    return isFilter && !mayWrite ? NOTHING : UNKNOWN
  }
}

const WRITING = /open|unlink|rename|delete|system|exec|qx|File|IO|[`>|]/

interface Move {
  readonly removesSource: boolean
  readonly withValue?: readonly string[]
}

function moved(
  { args, cwd, context }: Pick<ProgramCall, 'args' | 'cwd' | 'context'>,
  move: Move,
): readonly Effects[] {
  const [given] = optionValues(args, ['-t', '--target-directory'])
  const operands = operandsOf(args, ['-t', '--target-directory', '-S', ...(move.withValue ?? [])])
  const target = given ?? operands.at(-1)
  const sources = given === undefined ? operands.slice(0, -1) : operands
  if (target === undefined || sources.length === 0) return NOTHING
  const texts = sources.map(({ text }) => text)
  if (target.text === null) return UNKNOWN
  const place = path.resolve(cwd, target.text)
  const isInto = given !== undefined || target.text.endsWith('/') || context.isDirectory(place)
  const reached = isInto
    ? texts.map((text) => (text === null ? null : path.join(place, path.basename(text))))
    : [place]
  const written = move.removesSource ? [...texts, ...reached] : reached
  return writesTo(written.map(argumentOf), cwd)
}

function linked({ args, cwd, context }: ProgramCall): readonly Effects[] {
  const operands = operandsOf(args, ['-t', '-S'])
  const [source, target = argumentOf(path.basename(source?.text ?? ''))] = operands
  if (operands.length > 2 || source?.text === null || target.text === null) return UNKNOWN
  if (source === undefined) return NOTHING
  const place = path.resolve(cwd, target.text)
  const name = path.basename(source.text)
  return writesTo([argumentOf(context.isDirectory(place) ? path.join(place, name) : place)], cwd)
}

/** `-O` takes the name from the URL, and `-J` from the server. */
function curl({ args, cwd }: ProgramCall): readonly Effects[] {
  const isNamedElsewhere = args.some(({ text }) => {
    return text !== null && /^(?:-[a-zA-WYZ]*[OJ]|--remote-)/.test(text)
  })
  return isNamedElsewhere ? UNKNOWN : writesTo(optionValues(args, ['-o', '--output']), cwd)
}

function wget({ args, cwd }: ProgramCall): readonly Effects[] {
  const files = optionValues(args, ['-O', '--output-document'])
  return files.length === 0 ? UNKNOWN : writesTo(files, cwd)
}

const FIND_ACTIONS: ReadonlySet<string> = new Set([
  ...['-delete', '-exec', '-execdir', '-ok', '-okdir', '-fprint', '-fprint0', '-fprintf'],
  '-fls',
  // Those of fd.
  ...['-x', '-X', '--exec', '--exec-batch'],
])

function found({ args }: ProgramCall): readonly Effects[] {
  return args.some(({ text }) => text === null || FIND_ACTIONS.has(text)) ? UNKNOWN : NOTHING
}

/** Its script may write to files of its own; only the common ones that print are read. */
function awk({ args }: ProgramCall): readonly Effects[] {
  const isPlain = args.every(({ text }) => text !== null && !/^-i|inplace|system\(|>|\|/.test(text))
  return isPlain ? NOTHING : UNKNOWN
}

function patched({ args, cwd, input, context }: ProgramCall): readonly Effects[] {
  const [strip] = optionValues(args, ['-p', '--strip'])
  const [directory] = optionValues(args, ['-d', '--directory'])
  const [file] = optionValues(args, ['-i', '--input'])
  const place = path.resolve(cwd, directory?.text ?? '.')
  const [operand, diff] = operandsOf(args, ['-p', '-d', '-i', '--strip', '--directory', '--input'])
  const source = file ?? diff
  const text =
    source === undefined || source.text === null
      ? input
      : context.readText(path.resolve(cwd, source.text))
  if (operand !== undefined) return writesTo([operand], place)
  if (text === null) return UNKNOWN
  const level = strip?.text === undefined || strip.text === null ? null : Number(strip.text)
  const names = diffPaths(text, level ?? (/^--- a\//m.test(text) ? 1 : 0))
  return names.length === 0 ? UNKNOWN : writesTo(names.map(argumentOf), place)
}

function appliedPatch({ args, cwd, input }: ProgramCall): readonly Effects[] {
  const [argument] = args
  const text = argument === undefined ? input : (argument.text ?? argument.heredoc)
  const names = text === null ? [] : applyPatchPaths(text)
  return names.length === 0 ? UNKNOWN : writesTo(names.map(argumentOf), cwd)
}

/** They change the index, refs or nothing at all, and no file of the checkout. */
const GIT_READERS: ReadonlySet<string> = namesIn(`
  status log diff show branch fetch add blame ls-files ls-tree tag rev-parse remote config grep
  describe shortlog reflog cat-file push rev-list for-each-ref merge-base diff-tree show-ref
  symbolic-ref notes gc hash-object ls-remote count-objects archive bundle version help var init
  name-rev whatchanged range-diff format-patch check-ignore worktree fsck
`)

/** They write to files that only git knows. */
const WHOLE_TREE: ReadonlySet<string> = namesIn(`
  merge pull cherry-pick revert am submodule sparse-checkout bisect
`)

const GLOBAL_WITH_VALUE = ['-C', '-c', '--git-dir', '--work-tree', '--namespace']

interface GitCall {
  readonly args: readonly ShellArgument[]
  readonly words: readonly string[]
  readonly directory: string
  readonly input: string | null
  readonly context: ProgramCall['context']
}

function gitEffects({ args, cwd, input, context }: ProgramCall): readonly Effects[] {
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
      return words.includes('--cached') ? [] : pathsOf(operandsOf(args), call, 'git rm')
    case 'mv':
      return moved({ ...call, cwd: directory }, { removesSource: true })
    case 'apply':
      return applied(call)
    case 'commit':
      return [{ commit: directory }]
    default:
      if (GIT_READERS.has(name)) return writesTo(optionValues(args, ['--output']), directory)
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

/** A directory stands for all that is below it, and a pattern of git's own for any file. */
function pathsOf(
  paths: readonly ShellArgument[],
  call: GitCall,
  command: string,
): readonly Effects[] {
  const { words, directory, context } = call
  const isListed = words.some((word) => word.startsWith('--pathspec-from-file'))
  const isWhole = paths.some(({ text }) => {
    if (text === '.') return true
    return text !== null && PATHSPEC.test(text) && !context.isThere(path.resolve(directory, text))
  })
  return isListed || isWhole ? moves(call, command) : writesTo(paths, directory)
}

/** `:/` and other magic, and what the shell has left of `*`, `?` and `[…]`. */
const PATHSPEC = /^:|[*?[]/

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
  const [below] = optionValues(args, ['--directory'])
  if (below?.text === null) return UNKNOWN
  const top = path.join(topOf(directory, context), below?.text ?? '')
  return writesTo(names.map(argumentOf), top)

  function readPatch(text: string | null, from: string): string | null {
    if (text === null || text === '-') return text === null ? null : input
    return context.readText(path.resolve(from, text))
  }
}

/** Where the names of a patch begin for git: the top of the checkout, wherever in it the command runs. */
function topOf(directory: string, { isThere }: ProgramCall['context']): string {
  for (let top = directory; ; top = path.dirname(top)) {
    if (isThere(path.join(top, '.git'))) return top
    if (top === path.dirname(top)) return directory
  }
}
