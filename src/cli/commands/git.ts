/**
 * `tenure git`: what git's hooks call, to refuse a commit or a push that touches what others hold.
 *
 * A path is bytes from the top of the worktree: a name in git need not be UTF-8. Renames are not looked for, so that one is what
 * it does: a path that goes and a path that comes. A file is known by its canonical path, so the same file in two worktrees is
 * two resources, and a repository without a worktree has no files to hold.
 */
import { isUtf8 } from 'node:buffer'
import { ERROR_TABLE, invalid, isLeaseError, LeaseError, pathError } from '../../core/errors.ts'
import { blockerOf, byResource, coveredByOthers } from '../../core/covering-leases.ts'
import { nameOf, parseResource, type Reach, type Resource } from '../../core/resource.ts'
import { fs, canonicalPath, ifThere } from '../../runtime/file-system.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import type { LeaseApi } from '../../service/lease-api.ts'
import { listWhole } from '../../service/list-all.ts'
import { topOf, git, lineOf, tryGit, type GitOptions } from '../../git/repository.ts'
import { readWord } from '../arguments.ts'
import { defineCommand, type CliCommand } from '../command.ts'
import { expiryWords } from '../lease-text.ts'
import { cut, plural, shellWord } from '../output.ts'
import { missingFileOf, withQuestions } from '../store-access.ts'
import { isTty } from '../terminal.ts'

const HOOKS = ['pre-commit', 'pre-push'] as const
type Act = 'commit' | 'push'

const STDIN = 0
const STORE_EXIT_CODE = ERROR_TABLE.STORE_UNAVAILABLE.exitCode
const NAMED_MAX = 20
const REASON_WIDTH_MAX = 200

export const gitCommand: CliCommand = defineCommand({
  positionals: [
    { name: 'HOOK', help: 'pre-commit or pre-push' },
    { name: 'ARGUMENT', help: 'what git tells the hook', optional: true, several: true },
  ],
  options: {},
  notes: [
    "For git's hooks, which tenure init git installs. pre-commit looks at the paths that are staged, pre-push at those that the pushed commits change (git says on stdin which); of a rename at both. A path that is under a live lease of another holder, or below a directory that is, ends the command with 10, and git with it. Whoever holds a path may commit and push it.",
    'Where no store was ever made nothing is held. A store that cannot be asked refuses.',
  ],
  examples: ['tenure git pre-commit', 'tenure git pre-push origin https://example.org/repo.git'],
  run: async ({ identity, positionals, printer, cwd }) => {
    const [name] = positionals
    const act = readWord('HOOK', HOOKS, name) === 'pre-commit' ? 'commit' : 'push'
    const paths = pathsOf(act, cwd)
    if (missingFileOf(identity) !== null) return 0
    const { holder } = identity
    const held = await withQuestions(identity, async (questions) =>
      heldPaths(questions, { holder, cwd, paths }),
    ).catch((error: unknown) => {
      throw unanswered(error, act)
    })
    const [first] = held
    if (first === undefined) return 0
    for (const one of held.slice(0, NAMED_MAX)) printer.remark(heldWords(one))
    if (held.length > NAMED_MAX) printer.remark(`and ${held.length - NAMED_MAX} more`)
    throw refusal(act, first, held)
  },
})

/** What git says on stdin is read in any case: git would complain of a hook that does not. */
function pathsOf(act: Act, cwd: string): () => Promise<readonly Buffer[]> {
  if (act === 'commit') return async () => stagedPaths({ cwd })
  if (isTty(STDIN)) throw invalid('stdin', 'must be what git gives a pre-push hook', 'a terminal')
  const updates = readUpdates(fs.readFileSync(STDIN, 'utf8'))
  return async () => pushedPaths(updates, { cwd })
}

function heldWords({ path, lease }: HeldPath): string {
  const tree = lease.extent === 'subtree' ? ` of ${nameOf(lease.resource)}/` : ''
  const reason = lease.reason === null ? '' : `: ${cut(lease.reason, REASON_WIDTH_MAX)}`
  return `${path} is held by ${lease.holder}, whose lease${tree} ends ${expiryWords(lease)}${reason}`
}

function refusal(act: Act, { place }: HeldPath, held: readonly HeldPath[]): LeaseError {
  const wait = `tenure wait ${shellWord(nameOf(place))}`
  const message = `this ${act} is refused, because others hold ${plural(held.length, 'path')} of it; work elsewhere, or wait (${wait})`
  const leases = new Map(held.map(({ lease }) => [lease.id, lease]))
  const details = {
    resource: place,
    paths: held.map(({ path, lease }) => ({ path, leaseId: lease.id })),
    blockers: [...leases.values()].map(blockerOf),
    retryAfterMs: Math.max(...held.map(({ lease }) => lease.remainingMs)),
  }
  return new LeaseError('RESOURCE_HELD', message, { details })
}

/** A store that is away cannot say that nobody holds anything. */
function unanswered(error: unknown, act: Act): unknown {
  const isAway = isLeaseError(error) && ERROR_TABLE[error.code].exitCode === STORE_EXIT_CODE
  if (!isAway) return error
  const message = `${error.message}; this ${act} is refused, because nobody can say what others hold (git ${act} --no-verify goes on without asking)`
  return new LeaseError(error.code, message, { details: error.details, cause: error })
}

interface HeldPath {
  /** From the top of the worktree, for people; a name that is no UTF-8 has replacement characters. */
  readonly path: string
  /** What to wait for: the file, or the nearest directory above it whose name a lease can have. */
  readonly place: Resource
  readonly lease: LeaseInfo
}

interface GuardedChange {
  readonly holder: string
  readonly cwd: string
  /** Asked only if others hold something. */
  readonly paths: () => Promise<readonly Buffer[]>
}

async function heldPaths(
  api: Pick<LeaseApi, 'list'>,
  { holder, cwd, paths }: GuardedChange,
): Promise<readonly HeldPath[]> {
  const live = await listWhole(api, { state: 'active' })
  if (live.every((lease) => lease.holder === holder)) return []
  const top = await topOf(cwd)
  if (top === null) return []
  const leases = byResource(live)
  return (await paths()).flatMap((name) => {
    const held = placesOf(Buffer.concat([top, Buffer.from('/'), name])).flatMap((place) => {
      const others = coveredByOthers(leases, place, holder)
      return others.map((lease) => ({ path: name.toString(), place: place.resource, lease }))
    })
    return held.slice(0, 1)
  })
}

/**
 * A path by its spelling, and by where it is on the disk: they differ where names do not tell capitals from small letters.
 * A symbolic link is committed itself, not what it leads to.
 */
function placesOf(name: Buffer): readonly Reach[] {
  const spelt = placeOf(name)
  if (spelt.extent === 'subtree') return [spelt]
  const file = nameOf(spelt.resource)
  try {
    if (ifThere(() => fs.lstatSync(file))?.isSymbolicLink() === true) return [spelt]
    const resource = parseResource(`file:${canonicalPath(file)}`)
    return resource === spelt.resource ? [spelt] : [spelt, { resource, extent: 'exact' }]
  } catch (cause) {
    throw pathError('path', file, cause)
  }
}

/** A file whose name no lease can have is held only by the holder of a subtree above it. */
function placeOf(name: Buffer): Reach {
  let end = name.length
  for (;;) {
    const resource = resourceOf(name.subarray(0, end))
    if (resource !== null) return { resource, extent: end === name.length ? 'exact' : 'subtree' }
    end = Math.max(1, name.lastIndexOf('/', end - 1))
  }
}

/** Null for a name that is no UTF-8, has control characters, or is too long. */
function resourceOf(name: Buffer): Resource | null {
  if (!isUtf8(name)) return null
  try {
    return parseResource(`file:${name.toString()}`)
  } catch (error) {
    // No fault: there is no lease of such a name.
    if (isLeaseError(error, 'INVALID_INPUT')) return null
    throw error
  }
}

/** Names alone, ended by NUL, and submodules whatever the configuration ignores of them. */
const NAMES = ['--name-only', '-z', '--no-renames', '--ignore-submodules=none'] as const

/** What the index has and the last commit has not; all of the index where nothing was committed yet. */
async function stagedPaths(options: GitOptions): Promise<readonly Buffer[]> {
  const head = await tryGit(['rev-parse', '--quiet', '--verify', 'HEAD^{tree}'], options)
  const tree = head.exitCode === 0 ? head.stdout : await emptyTree(options)
  const base = lineOf(tree).toString()
  return namesIn(await git(['diff-index', '--cached', ...NAMES, base], options))
}

async function emptyTree(options: GitOptions): Promise<Buffer> {
  return git(['hash-object', '-t', 'tree', '--stdin'], options)
}

/** One line of what git tells a pre-push hook: what is to become of a ref of the remote. */
interface RefUpdate {
  /** Null for a ref that is deleted. */
  readonly local: string | null
  /** Null for a ref that the remote does not have yet. */
  readonly remote: string | null
}

/** What is pushed stands there as the user wrote it, with its spaces (`HEAD@{2 days ago}`). */
const UPDATE_PATTERN = /^.+ ([0-9a-f]{40,64}) \S+ ([0-9a-f]{40,64})$/

function readUpdates(text: string): readonly RefUpdate[] {
  const lines = text.split('\n').filter((line) => line !== '')
  return lines.map((line) => {
    const [, local, remote] = UPDATE_PATTERN.exec(line) ?? []
    if (local === undefined || remote === undefined) {
      throw invalid('stdin', 'must have the lines that git gives a pre-push hook', line)
    }
    return { local: objectOf(local), remote: objectOf(remote) }
  })
}

/** Git writes zeros for an object that there is not. */
function objectOf(id: string): string | null {
  return /^0+$/.test(id) ? null : id
}

/**
 * What the commits change that the push brings to the remote, and those that a forced push takes from it. Commits that a
 * remote is known to have are published already. Of a merge only what is in none of its parents counts: the
 * rest was changed by commits of their own.
 */
async function pushedPaths(
  updates: readonly RefUpdate[],
  options: GitOptions,
): Promise<readonly Buffer[]> {
  const kept = updates.filter(({ local }) => local !== null)
  if (kept.length === 0) return []
  const local = kept.map((update) => update.local ?? '')
  const known = await knownObjects(
    kept.flatMap((update) => update.remote ?? []),
    options,
  )
  const published = await git(['for-each-ref', '--format=^%(objectname)', 'refs/remotes/'], options)
  const brought = await commitsOf([...local, ...without(known), published.toString()], options)
  const taken = await commitsOf([...known, ...without(local)], options)
  const input = Buffer.concat([brought, taken])
  const args = ['diff-tree', '--stdin', '--no-commit-id', '--root', '-r', '-c', ...NAMES]
  return namesIn(await git(args, { ...options, input }))
}

/** To git, revisions whose history is left out. */
function without(ids: readonly string[]): readonly string[] {
  return ids.map((id) => `^${id}`)
}

/** Those that are in this repository: the remote may have what was never fetched. */
async function knownObjects(
  ids: readonly string[],
  options: GitOptions,
): Promise<readonly string[]> {
  const input = ids.map((id) => `${id}\n`).join('')
  const answer = await git(['cat-file', '--batch-check=%(objectname)'], { ...options, input })
  const lines = answer.toString().split('\n')
  return ids.filter((id) => lines.includes(id))
}

/** Of a tag that leads to no commit there are none. */
async function commitsOf(revisions: readonly string[], options: GitOptions): Promise<Buffer> {
  const input = revisions.map((revision) => `${revision}\n`).join('')
  return git(['rev-list', '--stdin'], { ...options, input })
}

function namesIn(answer: Buffer): readonly Buffer[] {
  const names = new Map<string, Buffer>()
  for (let start = 0; start < answer.length;) {
    const end = answer.indexOf(0, start)
    const name = answer.subarray(start, end < 0 ? answer.length : end)
    names.set(name.toString('latin1'), name)
    start += name.length + 1
  }
  return [...names.values()]
}
