/** `tenure doctor` tries what is set up: the hooks of clients, called as the clients would, and those of git. */
import { once } from 'node:events'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { CLIENT_SETTINGS } from '../../../src/cli/init/client-settings.ts'
import { start } from '../tenure-process.ts'
import { temporaryRepository, type TemporaryRepository } from '../../git/temporary-repository.ts'

interface Check {
  readonly name: string
  readonly ok: boolean
  readonly detail: string
}

const CLIENTS = Object.keys(CLIENT_SETTINGS)
const PIECES = [...CLIENTS, 'mcp', 'git pre-commit', 'git pre-push']
const TARGETS = [...CLIENTS, 'mcp', 'git']

/** What the doctor says of what was set up. Whatever it needs for that is gone afterwards, and nothing else has changed. */
async function findings(
  repository: TemporaryRepository,
): Promise<Readonly<Record<string, string>>> {
  const { run, root, directory } = repository
  const [temporary, state] = [path.join(directory, 'temporary'), path.join(directory, 'state')]
  fs.mkdirSync(temporary, { recursive: true })
  const before = fs.readdirSync(root, { recursive: true })
  const env = { TMPDIR: temporary, XDG_STATE_HOME: state }
  const { stdout } = await run(['doctor', '--json'], { env })
  expect(fs.readdirSync(temporary)).toEqual([])
  expect(fs.existsSync(state)).toBe(false)
  expect(fs.readdirSync(root, { recursive: true })).toEqual(before)
  const { checks } = JSON.parse(stdout) as { readonly checks: readonly Check[] }
  const found = checks.filter(({ name }) => PIECES.includes(name))
  return Object.fromEntries(
    found.map(({ name, ok, detail }) => [name, `${ok ? 'ok' : 'wrong'}: ${detail}`]),
  )
}

/** Changes a file below the top of the repository. */
function change({ root }: TemporaryRepository, name: string, [from, to]: [string, string]): void {
  const file = path.join(root, name)
  const text = fs.readFileSync(file, 'utf8')
  expect(text).toContain(from)
  fs.writeFileSync(file, text.replaceAll(from, to))
}

describe('tenure doctor', () => {
  it('says nothing of what was never set up, and proves that all the rest is stopped', async () => {
    const repository = temporaryRepository()
    expect(await findings(repository)).toEqual({})
    const ran = path.join(repository.directory, 'ran')
    const hook = path.join(repository.root, '.git/hooks/pre-commit')
    fs.writeFileSync(hook, `#!/bin/sh\ntouch '${ran}'\n`, { mode: 0o755 })
    for (const target of TARGETS) await repository.tenure(['init', target, '--write'])
    const edit = 'ok: an edit of what another holds is denied'
    expect(await findings(repository)).toEqual({
      claude: `${edit} (settings.json, PreToolUse)`,
      codex: `${edit} (hooks.json, PreToolUse)`,
      gemini: `${edit} (settings.json, BeforeTool)`,
      cursor: `${edit} (hooks.json, preToolUse)`,
      copilot: `${edit} (tenure.json, preToolUse)`,
      mcp: 'ok: a lease of what another holds is refused (.mcp.json)',
      'git pre-commit': 'ok: a commit of what another holds is refused',
      'git pre-push': 'ok: a push of what another holds is refused',
    })
    // The hook that was there comes after, and would run only if ours let the commit through.
    expect(fs.existsSync(ran)).toBe(false)
  })

  it('ends at a signal with what it tries, however long that would go on, and leaves nothing', async () => {
    const { directory, root, tenure } = temporaryRepository()
    await tenure(['init', 'claude', '--write'])
    const listener = net.createServer()
    onTestFinished(() => void listener.close())
    await once(listener.listen(0, '127.0.0.1'), 'listening')
    const { port } = listener.address() as net.AddressInfo
    const hangs = `require('node:net').connect(${port}, '127.0.0.1')`
    const programs = path.join(directory, 'hanging')
    const temporary = path.join(directory, 'temporary')
    for (const place of [programs, temporary]) fs.mkdirSync(place)
    const script = `#!/bin/sh\nexec '${process.execPath}' -e "${hangs}"\n`
    fs.writeFileSync(path.join(programs, 'tenure'), script, { mode: 0o755 })
    const PATH = `${programs}:${process.env['PATH']}`
    const env = { PATH, HOME: directory, TMPDIR: temporary, XDG_STATE_HOME: directory }
    const doctor = start(['doctor'], { cwd: root, env })
    const [trial] = (await once(listener, 'connection')) as [net.Socket]
    trial.on('error', () => undefined)
    const gone = once(trial.resume(), 'close')
    doctor.process.kill('SIGINT')
    expect(await doctor.ended).toEqual({ code: 130, stdout: '', stderr: '' })
    await gone
    expect(fs.readdirSync(temporary)).toEqual([])
  })

  it('says why something would stop nobody, or everybody', async () => {
    const repository = temporaryRepository()
    for (const target of TARGETS) await repository.tenure(['init', target, '--write'])
    const other = path.join(temporaryRepository().root, 'another.db')
    const elsewhere = `TENURE_STORE=sqlite:${other} tenure hook`
    change(repository, '.claude/settings.json', ['"tenure"', '"/nowhere/tenure"'])
    change(repository, '.codex/hooks.json', ['tenure hook', '/nowhere/tenure hook'])
    change(repository, '.gemini/settings.json', ['BeforeTool', 'BeforeModel'])
    change(repository, '.cursor/hooks.json', ['{', ''])
    change(repository, '.github/hooks/tenure.json', ['tenure hook', elsewhere])
    change(repository, '.mcp.json', ['"mcp"', '"mpc"'])
    fs.chmodSync(path.join(repository.root, '.git/hooks/pre-commit'), 0o644)
    change(repository, '.git/hooks/pre-push', ['| tenure git', '| tenuer git'])
    const found = await findings(repository)
    const through = 'wrong: an edit of what another holds goes through:'
    expect(found).toMatchObject({
      claude: `${through} /nowhere/tenure cannot be run`,
      gemini: 'wrong: no hook of BeforeTool asks Tenure: tenure init gemini --write',
      'git pre-commit':
        'wrong: a commit of what another holds went through: pre-commit is not executable',
    })
    expect(found['codex']).toContain(`${through} the hook ended with 127 and said `)
    expect(found['cursor']).toContain('wrong: file must be JSON with the settings of hooks')
    expect(found['mcp']).toMatch(
      /^wrong: the server does not tell who holds a file: tenure: .*"mpc"/,
    )
    expect(found['copilot']).toBe(`${through} the hook ended with 0 and said nothing`)
    expect(found['git pre-push']).toMatch(
      /^wrong: every push fails, whoever holds what: .*tenuer: .*not found/,
    )
    fs.rmSync(path.join(repository.root, '.git/hooks/pre-push'))
    fs.rmSync(path.join(repository.root, '.mcp.json'))
    for (const client of CLIENTS) {
      fs.rmSync(path.join(repository.root, CLIENT_SETTINGS[client]?.file ?? ''))
    }
    expect(Object.keys(await findings(repository))).toEqual(['git pre-commit', 'git pre-push'])
  })

  it('goes on where a hook of git is a directory', async () => {
    const repository = temporaryRepository()
    fs.mkdirSync(path.join(repository.root, '.git/hooks/pre-commit'), { recursive: true })
    const { code, stdout, stderr } = await repository.run(['doctor'])
    expect([code, stderr]).toEqual([1, ''])
    expect(stdout).toMatch(/^wrong +git +file must be one that can be read.*pre-commit.*EISDIR/m)
  })

  it.each([
    ['null', 'wrong: file must be JSON with the settings of hooks or servers'],
    ['{ "args": ["mcp"] }', 'mcpServers.tenure must have a command or a url'],
    ['{ "type": "http", "url": "http://127.0.0.1:7420/mcp" }', null],
  ])('says of the server of MCP %j what it lacks', async (server, words) => {
    const repository = temporaryRepository()
    repository.write('.mcp.json', `{ "mcpServers": { "tenure": ${server} } }`)
    const { mcp } = await findings(repository)
    if (words === null) expect(mcp).toBe(undefined)
    else expect(mcp).toContain(words)
  })

  it.each([
    ['not a url', 'Invalid URL'],
    ['http://a%zz:secret@127.0.0.1:1/x', 'URI malformed'],
  ])(
    'says that the server of Git LFS cannot be asked at %j, without its password',
    async (url, why) => {
      const repository = temporaryRepository()
      await repository.tenure(['init', 'lfs', '--write'])
      change(repository, '.lfsconfig', ['http://127.0.0.1:7420/lfs/default/repo', url])
      const { stdout } = await repository.run(['doctor', '--json'])
      const { checks } = JSON.parse(stdout) as { readonly checks: readonly Check[] }
      const detail = `the url in .lfsconfig cannot be read: ${why}`
      expect(checks.filter(({ name }) => name === 'lfs')).toEqual([
        { name: 'lfs', ok: false, detail },
      ])
    },
  )
})
