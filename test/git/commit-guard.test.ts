/** Commits of stock git, with `tenure git pre-commit` as their hook. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { hostedTenure, type Ended } from '../cli/tenure-process.ts'
import {
  temporaryRepository,
  withGuards,
  type TemporaryRepository,
} from './temporary-repository.ts'

/** A repository with the guards, in which the files named are committed. */
function guarded(...files: readonly string[]): TemporaryRepository {
  const repository = withGuards(temporaryRepository())
  for (const file of files) repository.write(file)
  repository.git('add', '--all')
  repository.git('commit', '--quiet', '--no-verify', '--allow-empty', '--message=first')
  return repository
}

async function commit({ attempt }: TemporaryRepository, ...more: string[]): Promise<Ended> {
  return attempt(['commit', '--quiet', '--message=next', ...more])
}

const BOB = ['--holder', 'bob', '--ttl', '1h'] as const

describe('a commit', () => {
  it('of what another holds is refused, and says who, why, until when and what to do', async () => {
    const repository = guarded('a.ts', 'b.ts')
    await repository.tenure(['acquire', 'a.ts', ...BOB, '--reason', 'patch 12'])
    repository.write('a.ts', 'changed')
    repository.write('b.ts', 'changed')
    repository.git('add', '--all')
    const { code, stdout, stderr } = await commit(repository)
    expect([code, stdout]).toEqual([1, ''])
    const [held, refused, ...more] = stderr.trimEnd().split('\n')
    expect(held).toMatch(/^a\.ts is held by bob, whose lease ends in (1h|59m .*) \(.+\): patch 12$/)
    expect(refused).toBe(
      `tenure: this commit is refused, because others hold 1 path of it; work elsewhere, or wait (tenure wait ${repository.root}/a.ts) (RESOURCE_HELD)`,
    )
    expect(more).toEqual([])
    // The rest can be committed, and what bob holds when bob is done.
    expect((await commit(repository, '--', 'b.ts')).code).toBe(0)
    await repository.tenure(['release', 'a.ts', '--holder', 'bob'])
    expect(await commit(repository)).toEqual({ code: 0, stdout: '', stderr: '' })
  })

  it("is told in JSON, and is never stopped by its own holder's lease", async () => {
    const repository = guarded('a.ts')
    await repository.tenure(['acquire', 'a.ts', ...BOB])
    repository.write('a.ts', 'changed')
    repository.git('add', '--all')
    const { code, stdout, stderr } = await repository.run(['git', 'pre-commit', '--json'])
    expect([code, stdout]).toEqual([10, ''])
    const resource = `file:${repository.root}/a.ts`
    expect(JSON.parse(stderr)).toMatchObject({
      code: 'RESOURCE_HELD',
      details: { resource, paths: [{ path: 'a.ts' }], blockers: [{ holder: 'bob', resource }] },
    })
    const asBob = { env: { TENURE_HOLDER: 'bob' } }
    expect((await repository.attempt(['commit', '-qm', 'bob'], asBob)).code).toBe(0)
  })

  it('goes by the holder who has part of it from another, and by those who share it', async () => {
    const repository = guarded('lib/a.ts', 'docs/b.md')
    const lease = JSON.parse(await repository.tenure(['acquire', 'lib/', ...BOB, '--json'])) as {
      readonly id: string
    }
    await repository.tenure([
      'derive',
      lease.id,
      '--holder',
      'bob',
      '--to',
      'ann',
      '--resource',
      'lib/a.ts',
    ])
    await repository.tenure(['acquire', 'docs/b.md', ...BOB, '--shared'])
    await repository.tenure(['acquire', 'docs/b.md', '--ttl', '1h', '--shared'])
    repository.write('lib/a.ts', 'changed')
    repository.write('docs/b.md', 'changed')
    expect(await commit(repository, '--all')).toEqual({ code: 0, stdout: '', stderr: '' })
  })

  it('below a directory that another holds is refused, and beside it is not', async () => {
    const repository = guarded('src/deep/a.ts', 'src_backup/a.ts')
    await repository.tenure(['acquire', 'src/', ...BOB])
    repository.write('src_backup/a.ts', 'changed')
    expect((await commit(repository, '--all')).code).toBe(0)
    repository.write('src/deep/a.ts', 'changed')
    repository.git('add', '--all')
    // From a directory below the top, too.
    const cwd = path.join(repository.root, 'src/deep')
    const { code, stderr } = await repository.attempt(['commit', '-m', 'next'], { cwd })
    expect(code).toBe(1)
    expect(stderr).toContain(
      `src/deep/a.ts is held by bob, whose lease of ${repository.root}/src/ ends in `,
    )
  })

  it.each([
    ['its old name', 'old.ts'],
    ['its new name', 'new.ts'],
  ])('of a renamed file is refused if another holds %s', async (_, name) => {
    const repository = guarded('old.ts')
    await repository.tenure(['acquire', name, ...BOB])
    repository.git('mv', 'old.ts', 'new.ts')
    const { code, stderr } = await commit(repository)
    expect(code).toBe(1)
    expect(stderr).toContain(`${name} is held by bob`)
  })

  it('that deletes what another holds is refused', async () => {
    const repository = guarded('a.ts')
    await repository.tenure(['acquire', 'a.ts', ...BOB])
    repository.git('rm', '--quiet', 'a.ts')
    expect((await commit(repository)).stderr).toContain('a.ts is held by bob')
  })

  it('of names with spaces, quotes, line breaks and bytes that are no UTF-8 is judged', async () => {
    const repository = guarded('src/x')
    await repository.tenure(['acquire', "it's here.ts", ...BOB])
    repository.write("it's here.ts")
    repository.git('add', '--all')
    expect((await commit(repository)).stderr).toContain(
      `(tenure wait '${repository.root}/it'\\''s here.ts')`,
    )
    repository.git('reset', '--quiet')
    repository.write('src/two\nlines')
    fs.writeFileSync(
      Buffer.concat([Buffer.from(`${repository.root}/src/`), Buffer.from([0xff])]),
      '',
    )
    repository.git('add', 'src')
    await repository.tenure(['acquire', 'src', ...BOB])
    expect((await commit(repository)).code).toBe(0)
    repository.git('reset', '--quiet', '--soft', 'HEAD^')
    await repository.tenure(['release', 'src', '--holder', 'bob'])
    await repository.tenure(['acquire', 'src/', ...BOB])
    const { code, stderr } = await commit(repository)
    expect(code).toBe(1)
    expect(stderr).toContain('src/two\\u000alines is held by bob')
    expect(stderr).toContain('src/\ufffd is held by bob')
    expect(stderr).toContain(
      `others hold 2 paths of it; work elsewhere, or wait (tenure wait ${repository.root}/src)`,
    )
  })

  it('of a submodule, and of a symbolic link itself, is judged by their own path', async () => {
    const repository = guarded('target.ts')
    const head = repository.git('rev-parse', 'HEAD')
    await repository.tenure(['acquire', 'target.ts', ...BOB])
    fs.symlinkSync('target.ts', path.join(repository.root, 'link.ts'))
    repository.git('add', 'link.ts')
    expect((await commit(repository)).code).toBe(0)
    repository.git('config', 'diff.ignoreSubmodules', 'all')
    repository.git('update-index', '--add', '--cacheinfo', `160000,${head},modules/one`)
    await repository.tenure(['acquire', 'modules/one', ...BOB])
    expect((await commit(repository)).stderr).toContain('modules/one is held by bob')
  })

  it('that is the first of a repository is judged as well', async () => {
    const repository = withGuards(temporaryRepository())
    repository.write('a.ts')
    repository.git('add', '--all')
    await repository.tenure(['acquire', 'a.ts', ...BOB])
    expect((await commit(repository)).stderr).toContain('a.ts is held by bob')
    await repository.tenure(['release', 'a.ts', '--holder', 'bob'])
    expect((await commit(repository)).code).toBe(0)
  })

  it('in another worktree is about the files of that worktree', async () => {
    const repository = guarded('a.ts')
    const cwd = path.join(repository.directory, 'second')
    repository.git('worktree', 'add', '--quiet', cwd, '-b', 'second')
    await repository.tenure(['acquire', 'a.ts', ...BOB])
    fs.writeFileSync(path.join(cwd, 'a.ts'), 'changed')
    expect((await repository.attempt(['commit', '-qam', 'next'], { cwd })).code).toBe(0)
    await repository.tenure(['acquire', path.join(cwd, 'a.ts'), ...BOB])
    fs.writeFileSync(path.join(cwd, 'a.ts'), 'changed again')
    const { code, stderr } = await repository.attempt(['commit', '-qam', 'next'], { cwd })
    expect(code).toBe(1)
    expect(stderr).toContain(`(tenure wait ${cwd}/a.ts)`)
  })

  it('names twenty paths, and counts the rest', async () => {
    const repository = guarded()
    for (let index = 0; index < 25; index += 1) repository.write(`src/${index}.ts`)
    repository.git('add', '--all')
    await repository.tenure(['acquire', 'src/', ...BOB])
    const lines = (await commit(repository)).stderr.trimEnd().split('\n')
    expect(lines).toHaveLength(22)
    expect(lines.slice(20)).toEqual(['and 5 more', expect.stringContaining('others hold 25 paths')])
  })

  it('passes in silence where no store was ever made, and makes none', async () => {
    const repository = guarded('a.ts')
    repository.write('a.ts', 'changed')
    expect(await commit(repository, '--all')).toEqual({ code: 0, stdout: '', stderr: '' })
    expect(fs.readdirSync(path.join(repository.root, '.git'))).not.toContain('tenure.db')
  })

  it('is refused in one line where the store cannot be asked, which --no-verify overrules', async () => {
    const repository = guarded('a.ts')
    repository.write('a.ts', 'changed')
    fs.writeFileSync(path.join(repository.root, '.git/tenure.db'), 'no database')
    const { code, stderr } = await commit(repository, '--all')
    expect(code).toBe(1)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(stderr).toContain('(git commit --no-verify goes on without asking)')
    expect((await commit(repository, '--all', '--no-verify')).code).toBe(0)
  })
})

describe('tenure git', () => {
  it.each([
    [['git', 'pre-receive'], 'HOOK must be pre-commit or pre-push, got "pre-receive"'],
    [['git'], 'HOOK must be given'],
  ])('refuses %j', async (args, message) => {
    const { code, stderr } = await hostedTenure(args)
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })

  it('refuses a directory that is in no repository', async () => {
    const { directory, tenure } = temporaryRepository()
    const env = { TENURE_STORE: `sqlite:${directory}/leases.db` }
    await tenure(['acquire', 'work:W', '--holder', 'bob'], { cwd: directory, env })
    const { code, stderr } = await hostedTenure(['git', 'pre-commit'], { cwd: directory, env })
    expect(code).toBe(2)
    expect(stderr).toContain('repository must be one that git can read, got ')
  })
})
