/** What git knows of the sources that are tried. */
import { execFileSync } from 'node:child_process'
import { figure, type PartResults } from './results.ts'

/** The commit, abbreviated; with a plus sign if what a step runs has been changed since. */
export function commitOf(root: string): string {
  const tried = ['src', 'campaign', 'sim', 'test', ':!campaign/results']
  const changed = git(root, 'status', '--porcelain', '--', ...tried)
  return `${git(root, 'rev-parse', '--short=8', 'HEAD')}${changed === '' ? '' : '+'}`
}

/** How many files of `src` have changed since the oldest result. Without git, no commit is known. */
export function changedSince(root: string, { steps }: PartResults): string {
  const [oldest] = steps.toSorted((one, other) => one.at.localeCompare(other.at))
  if (oldest === undefined) return '—'
  try {
    const commit = oldest.commit.replace('+', '')
    const names = git(root, 'diff', '--name-only', commit, '--', 'src')
    return `${figure(names === '' ? 0 : names.split('\n').length)} files`
  } catch {
    return 'unknown commit'
  }
}

function git(root: string, ...args: readonly string[]): string {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' }).trim()
}
