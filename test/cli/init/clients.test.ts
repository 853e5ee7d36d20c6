/** `tenure init` for the clients of coding agents: their settings, with what people wrote in them. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { readJsonText, valueOf } from '../../../src/cli/init/json-text.ts'
import { hostedTenure } from '../tenure-process.ts'
import { temporaryRepository, type TemporaryRepository } from '../../git/temporary-repository.ts'

const CLIENTS = [
  ['claude', '.claude/settings.json'],
  ['codex', '.codex/hooks.json'],
  ['gemini', '.gemini/settings.json'],
  ['cursor', '.cursor/hooks.json'],
  ['copilot', '.github/hooks/tenure.json'],
] as const

function read({ root }: TemporaryRepository, file: string): string {
  return fs.readFileSync(path.join(root, file), 'utf8')
}

/** The settings, as JSON. */
function hooksOf(repository: TemporaryRepository, file: string): Record<string, unknown> {
  const { hooks } = JSON.parse(read(repository, file)) as { hooks: Record<string, unknown> }
  return hooks
}

const SETTINGS = `{
  // What the team agreed on.
  "permissions": { "allow": ["Bash(npm test)"] },
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [{ "type": "command", "command": "./check.sh" }] }, // ours
    ],
  },
}
`

describe('tenure init', () => {
  it.each(CLIENTS)('%s makes %s, and removes what it made', async (client, file) => {
    const repository = temporaryRepository()
    const { tenure, root } = repository
    const shown = await tenure(['init', client])
    expect(shown).toMatch(new RegExp(`^--- /dev/null\\n\\+\\+\\+ ${file}\\n@@ -0,0 \\+1,`))
    expect(fs.readdirSync(root)).toEqual(['.git'])
    expect(await tenure(['init', client, '--write'])).toBe(`${file} is made\n`)
    const made = read(repository, file)
    expect(made).toMatch(
      new RegExp(`tenure( |",\\s+"args": \\[\\s+"|.*",\\s+")hook( |",\\s+")${client}"`),
    )
    expect(await tenure(['init', client, '--write'])).toBe('all is there already\n')
    expect(read(repository, file)).toBe(made)
    expect(await tenure(['init', client, '--remove'])).toBe(`${file} is removed\n`)
    expect(fs.existsSync(path.join(root, file))).toBe(false)
  })

  it('mcp names its server beside others, and gives back what was there', async () => {
    const repository = temporaryRepository()
    const { tenure, write } = repository
    const texts = [
      '{}',
      '{ "mcpServers": {} }\n',
      '{\n  // ours\n  "mcpServers": {\n    "other": { "command": "x" }, // keep\n  },\n}\n',
      '{ "mcpServers": { "other": { "command": "x" } }, "more": [1] }',
    ]
    for (const text of texts) {
      write('.mcp.json', text)
      await tenure(['init', 'mcp', '--write'])
      const value = valueOf(readJsonText(read(repository, '.mcp.json')))
      const own = { type: 'stdio', command: 'tenure', args: ['mcp'] }
      expect(value).toMatchObject({ mcpServers: { tenure: own } })
      expect(await tenure(['init', 'mcp', '--write'])).toBe('all is there already\n')
      await tenure(['init', 'mcp', '--remove'])
      expect(read(repository, '.mcp.json')).toBe(text)
    }
    write('.mcp.json', '{ "mcpServers": [] }')
    await expect(tenure(['init', 'mcp', '--write'])).rejects.toThrow('mcpServers must be an object')
  })

  it('lfs names its locks behind what is there, which git reads, and gives that back', async () => {
    const repository = temporaryRepository()
    const { tenure, write, git, root } = repository
    const file = path.join(root, '.lfsconfig')
    for (const text of [null, '[lfs]\n\tfetchinclude = a\n', '[lfs]\n\tfetchinclude = a']) {
      if (text !== null) write('.lfsconfig', text)
      await tenure(['init', 'lfs', '--write'])
      const read = (key: string): string => git('config', '--file', file, '--get', key)
      expect(read('lfs.url')).toBe('http://127.0.0.1:7420/lfs/default/repo')
      expect(read('lfs.locksverify')).toBe('true')
      expect(await tenure(['init', 'lfs', '--write'])).toBe('all is there already\n')
      await tenure(['init', 'lfs', '--remove'])
      expect(fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : null).toBe(text)
    }
  })

  it('lfs names a repository whose name is more than a name in a URL, or to git', async () => {
    const { tenure, git, directory } = temporaryRepository()
    const cwd = path.join(directory, 'a #b?c')
    git('init', '--quiet', cwd)
    await tenure(['init', 'lfs', '--write'], { cwd })
    const url = git('config', '--file', path.join(cwd, '.lfsconfig'), '--get', 'lfs.url')
    expect(url).toBe('http://127.0.0.1:7420/lfs/default/a%20%23b%3Fc')
  })

  it('claude writes what its client reads', async () => {
    const repository = temporaryRepository()
    await repository.tenure(['init', 'claude', '--write'])
    const hook = { type: 'command', command: 'tenure', args: ['hook', 'claude'], timeout: 10 }
    const writes = 'Edit|Write|NotebookEdit|Bash'
    const matcher = `Read|${writes}|mcp__tenure__.*`
    expect(hooksOf(repository, '.claude/settings.json')).toEqual({
      SessionStart: [{ hooks: [hook] }],
      PreToolUse: [{ matcher, hooks: [{ ...hook, onFailure: 'block' }] }],
      PostToolUse: [{ matcher: writes, hooks: [hook] }],
      PostToolUseFailure: [{ matcher: writes, hooks: [hook] }],
      SubagentStop: [{ hooks: [hook] }],
      SessionEnd: [{ hooks: [hook] }],
    })
  })

  it('keeps what is there with its comments, and a copy of it, from wherever it is called', async () => {
    const repository = temporaryRepository()
    const { tenure, root, write } = repository
    const file = '.claude/settings.json'
    const copy = path.join(root, `${file}.before-tenure`)
    write(file, SETTINGS)
    fs.chmodSync(path.join(root, file), 0o600)
    write('src/x')
    const below = { cwd: path.join(root, 'src') }
    const shown = await tenure(['init', 'claude'], below)
    expect(shown).toContain('--- ../.claude/settings.json\n+++ ../.claude/settings.json\n')
    expect(shown).not.toMatch(/^-[^-]/m)
    expect(read(repository, file)).toBe(SETTINGS)
    expect(await tenure(['init', 'claude', '--write'], below)).toBe(
      `../${file} is changed; ../${file}.before-tenure is as it was\n`,
    )
    expect(fs.readFileSync(copy, 'utf8')).toBe(SETTINGS)
    const written = read(repository, file)
    for (const line of SETTINGS.split('\n')) expect(written).toContain(line)
    expect(fs.statSync(path.join(root, file)).mode & 0o777).toBe(0o600)
    expect(await tenure(['init', 'claude', '--write'])).toBe('all is there already\n')

    expect(await tenure(['init', 'claude', '--remove'])).toBe(
      `${file} is changed\n${file}.before-tenure is removed\n`,
    )
    expect(read(repository, file)).toBe(SETTINGS)
    expect(fs.readdirSync(path.join(root, '.claude'))).toEqual(['settings.json'])
  })

  it('takes out its own from what was changed since, and leaves the copy', async () => {
    const repository = temporaryRepository()
    const { tenure, root, write } = repository
    const file = '.gemini/settings.json'
    write(file, '{}\n')
    await tenure(['init', 'gemini', '--write'])
    write(file, read(repository, file).replace(/\}\n$/, ',\n  "theme": "dark"\n}\n'))
    await tenure(['init', 'gemini', '--remove'])
    expect(JSON.parse(read(repository, file))).toEqual({ theme: 'dark' })
    expect(fs.readFileSync(path.join(root, `${file}.before-tenure`), 'utf8')).toBe('{}\n')
  })

  it('brings up to date what an older one wrote, and keeps the copy of what was before', async () => {
    const repository = temporaryRepository()
    const { tenure, root, write } = repository
    const file = '.codex/hooks.json'
    write(file, '{ "hooks": {} }\n')
    await tenure(['init', 'codex', '--write'])
    const current = read(repository, file)
    write(
      file,
      current.replaceAll('tenure hook codex', "'/old/node' '/old/cli/main.js' hook codex"),
    )
    await tenure(['init', 'codex', '--write'])
    expect(JSON.parse(read(repository, file))).toEqual(JSON.parse(current))
    expect(fs.readFileSync(path.join(root, `${file}.before-tenure`), 'utf8')).toBe(
      '{ "hooks": {} }\n',
    )
    await tenure(['init', 'codex', '--remove'])
    expect(read(repository, file)).toBe('{ "hooks": {} }\n')
  })

  it.each([
    ['no JSON', (file: string) => fs.writeFileSync(file, '{ hooks: 1 }'), 'line 1: expected a key'],
    [
      'no UTF-8',
      (file: string) => fs.writeFileSync(file, Buffer.from([0x7b, 0xff, 0x7d])),
      'it is no UTF-8',
    ],
    [
      'hooks that are none',
      (file: string) => fs.writeFileSync(file, '{"hooks": "none"}'),
      'hooks must be an object',
    ],
    [
      'a link',
      (file: string) => fs.symlinkSync('../shared.json', file),
      'must not be a symbolic link (to ../shared.json)',
    ],
    ['a directory', (file: string) => fs.mkdirSync(file), 'EISDIR'],
  ])('refuses %s in one line, and leaves it as it is', async (_, make, message) => {
    const { root } = temporaryRepository()
    fs.mkdirSync(path.join(root, '.claude'))
    const file = path.join(root, '.claude/settings.json')
    make(file)
    const before = fs.lstatSync(file)
    for (const how of ['--write', '--remove']) {
      const { code, stdout, stderr } = await hostedTenure(['init', 'claude', how], { cwd: root })
      expect([code, stdout]).toEqual([2, ''])
      expect(stderr).toContain(message)
      expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    }
    const after = fs.lstatSync(file)
    expect([after.ino, after.mtimeMs]).toEqual([before.ino, before.mtimeMs])
    expect(fs.readdirSync(path.join(root, '.claude'))).toEqual(['settings.json'])
  })

  it.each([
    ['claude', '.claude', 'settings.json'],
    ['copilot', '.github', 'hooks/tenure.json'],
    ['lfs', '.lfsconfig', ''],
  ])('changes nothing for %s through the link %s', async (client, link, inside) => {
    const { root, directory } = temporaryRepository()
    const shared = path.join(directory, 'shared')
    if (inside === '') fs.writeFileSync(shared, '[other]\n')
    else fs.mkdirSync(path.dirname(path.join(shared, inside)), { recursive: true })
    fs.symlinkSync(shared, path.join(root, link))
    for (const how of ['--write', '--remove']) {
      const { code, stderr } = await hostedTenure(['init', client, how], { cwd: root })
      expect([code, stderr]).toEqual([2, expect.stringContaining('must not be a symbolic link')])
    }
    expect(fs.readlinkSync(path.join(root, link))).toBe(shared)
    expect(fs.existsSync(path.join(shared, inside))).toBe(inside === '')
  })

  it('says in one line that a directory cannot be written', async () => {
    const { root } = temporaryRepository()
    fs.writeFileSync(path.join(root, '.codex'), '')
    const { code, stdout, stderr } = await hostedTenure(['init', 'codex', '--write'], { cwd: root })
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^tenure: file must be one that can be read and written, got .*\n$/)
  })

  it('says what it did in JSON, and works where there is no repository', async () => {
    const { directory, tenure } = temporaryRepository()
    const place = { cwd: directory }
    const file = path.join(directory, '.cursor/hooks.json')
    const answer = JSON.parse(
      await tenure(['init', 'cursor', '--write', '--json'], place),
    ) as unknown
    expect(answer).toEqual({ target: 'cursor', written: true, changes: [{ action: 'make', file }] })
    expect((JSON.parse(fs.readFileSync(file, 'utf8')) as { version: number }).version).toBe(1)
  })
})
