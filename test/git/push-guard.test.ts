/** Pushes of stock git, with `tenure git pre-push` as their hook. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Ended } from '../cli/tenure-process.ts'
import {
  temporaryRepository,
  withGuards,
  type TemporaryRepository,
} from './temporary-repository.ts'

interface Pushing extends TemporaryRepository {
  /** A commit of one file, past the guard. */
  commit(file: string, text?: string): string
  push(...args: readonly string[]): Promise<Ended>
}

/** A repository that has pushed `a.ts` and `b.ts` to its origin, with bob holding `a.ts`. */
async function pushing(): Promise<Pushing> {
  const repository = temporaryRepository()
  const commit = (file: string, text = `${file} of a commit`): string => {
    repository.write(file, text)
    repository.git('add', '--all')
    repository.git('commit', '--quiet', '--no-verify', `--message=${file}`)
    return repository.git('rev-parse', 'HEAD')
  }
  commit('a.ts')
  commit('b.ts')
  const origin = path.join(repository.directory, 'origin.git')
  repository.git('init', '--quiet', '--bare', '--initial-branch=main', origin)
  repository.git('remote', 'add', 'origin', origin)
  repository.git('push', '--quiet', 'origin', 'main')
  withGuards(repository)
  await repository.tenure(['acquire', 'a.ts', '--holder', 'bob', '--ttl', '1h', '--reason', 'mine'])
  const push: Pushing['push'] = async (...args) => {
    return repository.attempt(['push', '--quiet', 'origin', ...args])
  }
  return { ...repository, commit, push }
}

const PASSES: Ended = { code: 0, stdout: '', stderr: '' }

describe('a push', () => {
  it('of commits that touch what another holds is refused, others pass', async () => {
    const { commit, push } = await pushing()
    commit('b.ts', 'changed')
    expect(await push('main')).toEqual(PASSES)
    commit('a.ts', 'changed')
    commit('a.ts', 'a.ts of a commit')
    const { code, stdout, stderr } = await push('main')
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^a\.ts is held by bob, whose lease ends in .+: mine$/m)
    expect(stderr).toContain('tenure: this push is refused, because others hold 1 path of it')
  })

  it('of a new branch or a tag is judged by what no remote has yet', async () => {
    const { commit, push, git } = await pushing()
    git('switch', '--quiet', '--create', 'feature')
    commit('b.ts', 'changed')
    git('tag', 'light')
    git('tag', '--annotate', 'heavy', '--message=x')
    git('tag', 'blob', git('rev-parse', 'HEAD:b.ts'))
    expect(await push('feature', 'light', 'heavy', 'blob')).toEqual(PASSES)
    commit('a.ts', 'changed')
    git('tag', 'next')
    expect((await push('next')).stderr).toContain('a.ts is held by bob')
    expect((await push('HEAD:refs/heads/other')).stderr).toContain('a.ts is held by bob')
  })

  it('of what is named with spaces is judged like any other', async () => {
    const { commit, push } = await pushing()
    commit('b.ts', 'changed')
    expect(await push('HEAD@{0 seconds ago}:refs/heads/other')).toEqual(PASSES)
    commit('a.ts', 'changed')
    const refused = await push('HEAD@{0 seconds ago}:refs/heads/other')
    expect(refused.stderr).toContain('a.ts is held by bob')
  })

  it('that deletes a branch passes', async () => {
    const { push, git } = await pushing()
    git('branch', 'old')
    expect(await push('old')).toEqual(PASSES)
    expect(await push(':old')).toEqual(PASSES)
  })

  it('of a merge is judged by what the merge itself changes', async () => {
    const { commit, push, git, root } = await pushing()
    git('switch', '--quiet', '--create', 'side')
    commit('a.ts', 'from the side')
    git('push', '--quiet', '--no-verify', 'origin', 'side')
    git('switch', '--quiet', 'main')
    commit('b.ts', 'from the main line')
    git('merge', '--quiet', '--no-edit', 'side')
    // The remote has the change of a.ts already, from whoever pushed it.
    expect(await push('main')).toEqual(PASSES)
    git('switch', '--quiet', 'side')
    commit('c.ts')
    git('switch', '--quiet', 'main')
    commit('d.ts')
    git('merge', '--quiet', '--no-commit', 'side')
    fs.writeFileSync(path.join(root, 'a.ts'), 'changed by the merge')
    git('commit', '--all', '--quiet', '--no-verify', '--message=merge')
    expect((await push('main')).stderr).toContain('a.ts is held by bob')
  })

  it('that takes commits from the remote is judged by them, too', async () => {
    const { commit, push, git } = await pushing()
    commit('a.ts', 'changed')
    git('push', '--quiet', '--no-verify', 'origin', 'main')
    git('reset', '--quiet', '--hard', 'HEAD^')
    commit('b.ts', 'changed')
    expect((await push('--force', 'main')).stderr).toContain('a.ts is held by bob')
  })

  it('to a remote whose commits were never fetched is judged by what is here', async () => {
    const { commit, push, git, directory } = await pushing()
    const clone = path.join(directory, 'clone')
    git('clone', '--quiet', path.join(directory, 'origin.git'), clone)
    git('-C', clone, 'commit', '--quiet', '--allow-empty', '--message=elsewhere')
    git('-C', clone, 'push', '--quiet', 'origin', 'main')
    commit('b.ts', 'changed')
    expect(await push('--force', 'main')).toEqual(PASSES)
  })

  it('from a repository without a worktree passes: no file in it can be held', async () => {
    const { directory, git, attempt } = await pushing()
    const bare = path.join(directory, 'bare.git')
    git('clone', '--quiet', '--bare', path.join(directory, 'origin.git'), bare)
    git(
      'config',
      '--file',
      path.join(bare, 'config'),
      'core.hooksPath',
      git('rev-parse', '--path-format=absolute', '--git-path', 'hooks'),
    )
    const env = {
      TENURE_STORE: `sqlite:${git('rev-parse', '--path-format=absolute', '--git-path', 'tenure.db')}`,
    }
    const args = ['push', '--quiet', 'origin', 'main:refs/heads/copy']
    expect(await attempt(args, { cwd: bare, env })).toEqual(PASSES)
  })

  it('is refused where git does not say what is pushed', async () => {
    const { shell } = await pushing()
    const { code, stderr } = await shell('echo nonsense | tenure git pre-push origin x')
    expect(code).toBe(2)
    expect(stderr).toBe(
      'tenure: stdin must have the lines that git gives a pre-push hook, got "nonsense" (INVALID_INPUT)\n',
    )
  })
})
