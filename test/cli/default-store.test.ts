import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { defaultStoreUrl, gitCommonDirectory } from '../../src/cli/default-store.ts'
import { ledgerDirectoryOf } from '../../src/cli/ledger-source.ts'
import { MAIN, startProgram, tenure } from './tenure-process.ts'

let scratch: string

beforeEach(() => {
  scratch = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-test-')))
})

afterEach(() => fs.rmSync(scratch, { recursive: true, force: true }))

function git(cwd: string, ...args: readonly string[]): string {
  const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.com']
  return execFileSync('git', [...identity, ...args], {
    cwd,
    encoding: 'utf8',
    stdio: 'pipe',
  }).trim()
}

function repository(): string {
  const root = path.join(scratch, 'repository')
  fs.mkdirSync(path.join(root, 'src', 'deep'), { recursive: true })
  git(root, 'init', '-q')
  git(root, 'commit', '-q', '--allow-empty', '-m', 'first')
  return root
}

/** What git itself says, which is what counts. */
function toldByGit(cwd: string): string {
  return path.resolve(cwd, git(cwd, 'rev-parse', '--git-common-dir'))
}

describe('the store when nobody names one', () => {
  it('is in the git directory, from wherever in the repository', () => {
    const root = repository()
    for (const cwd of [root, path.join(root, 'src'), path.join(root, 'src', 'deep')]) {
      expect(gitCommonDirectory(cwd, {})).toBe(toldByGit(cwd))
    }
    expect(defaultStoreUrl(root, {})).toBe(`sqlite:${path.join(root, '.git', 'tenure.db')}`)
  })

  it('is the same for all worktrees of a repository', () => {
    const root = repository()
    const worktree = path.join(scratch, 'worktree')
    git(root, 'worktree', 'add', '-q', worktree)
    expect(gitCommonDirectory(worktree, {})).toBe(toldByGit(worktree))
    expect(defaultStoreUrl(worktree, {})).toBe(defaultStoreUrl(root, {}))
  })

  it('follows GIT_DIR, as git does inside a hook', () => {
    const root = repository()
    const elsewhere = path.join(scratch, 'elsewhere')
    fs.mkdirSync(elsewhere)
    const env = { GIT_DIR: path.join(root, '.git') }
    expect(gitCommonDirectory(elsewhere, env)).toBe(path.join(root, '.git'))
  })

  it('is in the state directory outside of a repository', () => {
    const env = { XDG_STATE_HOME: path.join(scratch, 'state') }
    expect(defaultStoreUrl(scratch, env)).toBe(`sqlite:${scratch}/state/tenure/tenure.db`)
    const home = `sqlite:${os.homedir()}/.local/state/tenure/tenure.db`
    expect(defaultStoreUrl(scratch, {})).toBe(home)
    expect(defaultStoreUrl(scratch, { XDG_STATE_HOME: 'relative' })).toBe(home)
  })

  it.each(['', 'home'])('is not where the home directory is %j', async (home) => {
    const ended = await tenure(['acquire', 'work:1'], { cwd: scratch, env: { HOME: home } })
    expect([ended.code, ended.stderr]).toEqual([
      2,
      `tenure: HOME must be an absolute path, got "${home}" (INVALID_INPUT)\n`,
    ])
    expect(fs.readdirSync(scratch)).toEqual([])
  })

  it('is nowhere where the working directory was removed', async () => {
    const gone = path.join(scratch, 'gone')
    fs.mkdirSync(gone)
    const command = `rmdir "${gone}" && "${process.execPath}" "${MAIN}" hook claude`
    const ended = await startProgram(['sh', '-c', command], { cwd: gone, env: { PWD: gone } }).ended
    expect([ended.code, ended.stderr]).toEqual([
      2,
      `tenure: working directory must be one that still exists, got "${gone}" (INVALID_INPUT)\n`,
    ])
  })

  it('does not take a directory for a repository because of its name', () => {
    fs.mkdirSync(path.join(scratch, '.git'))
    expect(gitCommonDirectory(scratch, {})).toBeNull()
  })
})

describe('a directory whose name a URL would read otherwise', () => {
  const NAMES = ['a?b', '50%', 'x%3Fy', 'x%25y']

  it.each(NAMES)('has the store that is named from it: %s', async (name) => {
    const cwd = path.join(scratch, name)
    fs.mkdirSync(cwd)
    const ended = await tenure(['acquire', 'work:1', '--store', 'sqlite:l.db'], { cwd })
    expect([ended.code, ended.stderr]).toEqual([0, ''])
    expect([fs.readdirSync(scratch), fs.existsSync(path.join(cwd, 'l.db'))]).toEqual([[name], true])
  })

  it.each(NAMES)(
    'has the ledger beside its store, and is the one that doctor looks at: %s',
    async (name) => {
      const state = path.join(scratch, name)
      fs.mkdirSync(state)
      const url = defaultStoreUrl(scratch, { XDG_STATE_HOME: state })
      expect(ledgerDirectoryOf(undefined, url, scratch)).toBe(`${state}/tenure/tenure.db.ledger`)
      const { stdout } = await tenure(['doctor'], { cwd: scratch, env: { XDG_STATE_HOME: state } })
      expect(stdout).toContain(`  ${state} is writable\n`)
    },
  )
})
