/**
 * The paths that a commit or a push changes, as bytes from the top of the worktree: a name in git need not be UTF-8.
 * Renames are not looked for, so that one is what it does: a path that goes and a path that comes.
 */
import { invalid } from '../core/errors.ts'
import { git, lineOf, tryGit, type GitOptions } from './git-command.ts'

/** Names alone, ended by NUL, and submodules whatever the configuration ignores of them. */
const NAMES = ['--name-only', '-z', '--no-renames', '--ignore-submodules=none'] as const

/** What the index has and the last commit has not; all of the index where nothing was committed yet. */
export async function stagedPaths(options: GitOptions): Promise<readonly Buffer[]> {
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

const UPDATE_PATTERN = /^\S+ ([0-9a-f]{40,64}) \S+ ([0-9a-f]{40,64})$/

export function readUpdates(text: string): readonly RefUpdate[] {
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
export async function pushedPaths(
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
