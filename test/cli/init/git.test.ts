/** `tenure init git`: the hooks that it puts beside those that are there, with stock git. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { hostedTenure } from '../tenure-process.ts'
import { temporaryRepository, type TemporaryRepository } from '../../git/temporary-repository.ts'

/** A repository without the examples that git brings, in which bob holds `a.ts`, and a change of it is staged. */
async function held(): Promise<TemporaryRepository & { readonly hooks: string }> {
  const repository = temporaryRepository(['--template='])
  const hooks = path.join(repository.root, '.git/hooks')
  fs.mkdirSync(hooks)
  await repository.tenure(['acquire', 'a.ts', '--holder', 'bob', '--ttl', '1h'])
  repository.write('a.ts')
  repository.write('b.ts')
  repository.git('add', 'a.ts')
  return { ...repository, hooks }
}

/** Every file of a directory: its permissions, and its bytes or where it leads. */
function snapshot(directory: string): Readonly<Record<string, string>> {
  const files = fs.readdirSync(directory).map((name) => {
    const file = path.join(directory, name)
    const status = fs.lstatSync(file)
    const content = status.isSymbolicLink()
      ? fs.readlinkSync(file)
      : fs.readFileSync(file, 'latin1')
    return [name, `${(status.mode & 0o7777).toString(8)} ${content}`]
  })
  return Object.fromEntries(files)
}

describe('tenure init git', () => {
  it('shows what it would change, changes it when told to, and takes it out again', async () => {
    const { hooks, run, tenure, attempt, directory, git } = await held()
    const shown = await run(['init', 'git'])
    expect(shown.code).toBe(0)
    expect(shown.stdout).toContain(
      '--- /dev/null\n+++ .git/hooks/pre-commit\n@@ -0,0 +1,5 @@\n+#!/bin/sh\n',
    )
    expect(shown.stdout).toContain('\n+tenure git pre-commit "$@" || exit $?\n')
    expect(shown.stderr).toBe('nothing is changed yet; --write does it\n')
    expect(snapshot(hooks)).toEqual({})
    const made = await tenure(['init', 'git', '--write'])
    expect(made).toBe('.git/hooks/pre-commit is made\n.git/hooks/pre-push is made\n')
    const installed = snapshot(hooks)
    expect(await tenure(['init', 'git', '--write'])).toBe('all is there already\n')
    expect(snapshot(hooks)).toEqual(installed)

    expect((await attempt(['commit', '-qm', 'x'])).stderr).toContain('a.ts is held by bob')
    git('commit', '--quiet', '--no-verify', '--message=x')
    git('init', '--quiet', '--bare', `${directory}/origin.git`)
    const push = ['push', '--quiet', `${directory}/origin.git`, 'main']
    expect((await attempt(push)).stderr).toContain('a.ts is held by bob')

    const removed = await tenure(['init', 'git', '--remove'])
    expect(removed).toBe('.git/hooks/pre-commit is removed\n.git/hooks/pre-push is removed\n')
    expect(snapshot(hooks)).toEqual({})
    expect(await tenure(['init', 'git', '--remove'])).toBe('nothing is there to remove\n')
    expect((await attempt(push)).code).toBe(0)
  })

  it('asks before a shell script that is there, which sees all that it saw and has the last word', async () => {
    const { hooks, tenure, attempt, git, directory } = await held()
    const log = path.join(directory, 'log')
    const lines = `echo "$0 $*" >> '${log}'\ncat >> '${log}'\nexit 3`
    fs.writeFileSync(path.join(hooks, 'pre-commit'), `#!/bin/sh -eu\n${lines}`, { mode: 0o750 })
    const odd = Buffer.concat([Buffer.from(`#!/usr/bin/env bash\n# `), Buffer.from([0xff, 0x0a])])
    fs.writeFileSync(path.join(hooks, 'pre-push'), Buffer.concat([odd, Buffer.from(lines)]))
    fs.chmodSync(path.join(hooks, 'pre-push'), 0o755)
    const before = snapshot(hooks)
    await tenure(['init', 'git', '--write'])
    const installed = snapshot(hooks)
    expect(Object.keys(installed)).toEqual(Object.keys(before))

    expect((await attempt(['commit', '-qm', 'x'])).stderr).toContain('a.ts is held by bob')
    expect(fs.existsSync(log)).toBe(false)
    git('reset', '--quiet')
    git('add', 'b.ts')
    expect((await attempt(['commit', '-qm', 'x'])).code).toBe(1)
    expect(fs.readFileSync(log, 'utf8')).toBe('.git/hooks/pre-commit \n')
    fs.rmSync(log)
    git('commit', '--quiet', '--no-verify', '--message=x')
    const origin = path.join(directory, 'origin.git')
    git('init', '--quiet', '--bare', origin)
    expect((await attempt(['push', origin, 'main'])).code).toBe(1)
    const zeros = '0'.repeat(40)
    expect(fs.readFileSync(log, 'utf8')).toBe(
      `.git/hooks/pre-push ${origin} ${origin}\nrefs/heads/main ${git('rev-parse', 'main')} refs/heads/main ${zeros}\n`,
    )

    await tenure(['init', 'git', '--remove'])
    expect(snapshot(hooks)).toEqual(before)
  })

  it('keeps a hook that is no shell script, or leads elsewhere, and calls it', async () => {
    const { hooks, tenure, attempt, git, directory } = await held()
    const program = path.join(directory, 'hook.cjs')
    const log = path.join(directory, 'log')
    const text = `#!${process.execPath}\nrequire('node:fs').writeFileSync('${log}', 'ran')\nprocess.exit(7)\n`
    fs.writeFileSync(program, text, { mode: 0o755 })
    fs.copyFileSync(program, path.join(hooks, 'pre-commit'))
    fs.symlinkSync('../../../hook.cjs', path.join(hooks, 'pre-push'))
    const before = snapshot(hooks)
    const moved = await tenure(['init', 'git', '--write'])
    expect(moved).toContain('.git/hooks/pre-commit is now .git/hooks/pre-commit.before-tenure\n')
    expect(await tenure(['init', 'git', '--write'])).toBe('all is there already\n')

    expect((await attempt(['commit', '-qm', 'x'])).stderr).toContain('a.ts is held by bob')
    expect(fs.existsSync(log)).toBe(false)
    git('reset', '--quiet')
    git('add', 'b.ts')
    expect((await attempt(['commit', '-qm', 'x'])).code).toBe(1)
    expect(fs.readFileSync(log, 'utf8')).toBe('ran')
    fs.rmSync(log)
    git('commit', '--quiet', '--no-verify', '--message=x')
    git('init', '--quiet', '--bare', `${directory}/origin.git`)
    expect((await attempt(['push', `${directory}/origin.git`, 'main'])).code).toBe(1)
    expect(fs.readFileSync(log, 'utf8')).toBe('ran')

    await tenure(['init', 'git', '--remove'])
    expect(snapshot(hooks)).toEqual(before)
  })

  it('does not bring to life a hook that git does not run', async () => {
    const { hooks, tenure, attempt, git } = await held()
    fs.writeFileSync(path.join(hooks, 'pre-commit'), '#!/bin/sh\nexit 1\n', { mode: 0o644 })
    const before = snapshot(hooks)
    await tenure(['init', 'git', '--write'])
    expect((await attempt(['commit', '-qm', 'x'])).stderr).toContain('a.ts is held by bob')
    git('reset', '--quiet')
    git('add', 'b.ts')
    expect((await attempt(['commit', '-qm', 'x'])).code).toBe(0)
    await tenure(['init', 'git', '--remove'])
    expect(snapshot(hooks)).toEqual(before)
  })

  it('goes on with one that was cut short, and renews one that lost its permission', async () => {
    const { hooks, tenure, git, attempt } = await held()
    const hook = path.join(hooks, 'pre-commit')
    fs.writeFileSync(`${hook}.before-tenure`, '#!/usr/bin/env true\n', { mode: 0o755 })
    await tenure(['init', 'git', '--write'])
    expect(fs.readFileSync(hook, 'utf8')).toContain('exec "$0.before-tenure" "$@"')
    fs.chmodSync(hook, 0o644)
    expect(await tenure(['init', 'git', '--write'])).toBe('.git/hooks/pre-commit is changed\n')
    expect((await attempt(['commit', '-qm', 'x'])).stderr).toContain('a.ts is held by bob')
    await tenure(['init', 'git', '--remove'])
    expect(git('rev-parse', '--git-path', 'hooks')).toBe('.git/hooks')
    expect(snapshot(hooks)).toEqual({ 'pre-commit': '755 #!/usr/bin/env true\n' })
  })

  it('looks where git looks: core.hooksPath, from a directory below and from a worktree', async () => {
    const { root, directory, hooks, tenure, git, write } = await held()
    git('config', 'core.hooksPath', '.githooks')
    write('src/x')
    const below = { cwd: path.join(root, 'src') }
    const made = await tenure(['init', 'git', '--write'], below)
    expect(made).toBe('../.githooks/pre-commit is made\n../.githooks/pre-push is made\n')
    await tenure(['init', 'git', '--remove'], below)
    expect(snapshot(path.join(root, '.githooks'))).toEqual({})
    git('config', '--unset', 'core.hooksPath')
    git('commit', '--quiet', '--message=x')
    git('worktree', 'add', '--quiet', `${directory}/second`)
    await tenure(['init', 'git', '--write'], { cwd: `${directory}/second` })
    expect(Object.keys(snapshot(hooks))).toEqual(['pre-commit', 'pre-push'])
  })

  it('says in one line what it cannot do', async () => {
    const { root, directory, git, write } = await held()
    write('file')
    git('config', 'core.hooksPath', path.join(root, 'file/hooks'))
    for (const [args, message, cwd] of [
      [['init', 'git', '--write'], 'file must be one that can be read and written, got ', root],
      [['init', 'git'], 'repository must be one that git can read, got ', directory],
      [
        ['init', 'svn'],
        'TARGET must be among claude, codex, gemini, cursor, copilot, mcp, lfs, git, got "svn"',
        root,
      ],
      [['init', 'git', '--write', '--remove'], 'remove must not be given beside write', root],
    ] as const) {
      const { code, stdout, stderr } = await hostedTenure(args, { cwd })
      expect([code, stdout]).toEqual([2, ''])
      expect(stderr).toContain(`tenure: ${message}`)
      expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    }
  })

  it('names the program in full where a shell would not find it', async () => {
    const { run, attempt, hooks } = await held()
    const env = { PATH: '/usr/bin:/bin' }
    const { code, stderr: remark } = await run(['init', 'git', '--write'], { env })
    expect(code).toBe(0)
    expect(remark).toBe(
      'no tenure is on the path, so that this program is called by its full name\n',
    )
    expect(fs.readFileSync(path.join(hooks, 'pre-commit'), 'utf8')).toMatch(
      /^\S+ \S+main\.js git pre-commit/m,
    )
    const { stderr } = await attempt(['commit', '-qm', 'x'], { env })
    expect(stderr).toContain('a.ts is held by bob')
  })
})
