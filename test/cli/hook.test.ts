/** `tenure hook` as clients run it: a process that reads an event from stdin and answers on stdout. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { hostedTenure, MAIN, type Ended } from './tenure-process.ts'

interface Checkout {
  readonly root: string
  readonly env: Readonly<Record<string, string>>
  hook(client: string, input: string, env?: Readonly<Record<string, string>>): Promise<Ended>
  event(session: string, name: string, more?: object): string
  edit(session: string, file: string): string
}

function checkout(): Checkout {
  const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-hook-')))
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }))
  fs.mkdirSync(path.join(root, '.git'))
  fs.writeFileSync(path.join(root, '.git/HEAD'), 'ref: refs/heads/main\n')
  fs.writeFileSync(path.join(root, 'a.ts'), 'a\n')
  const env = { XDG_STATE_HOME: path.join(root, '.git/state') }
  const event: Checkout['event'] = (session, name, more = {}) => {
    return JSON.stringify({ session_id: session, cwd: root, hook_event_name: name, ...more })
  }
  return {
    ...{ root, env, event },
    edit: (session, file) => {
      const call = { tool_name: 'Edit', tool_input: { file_path: path.join(root, file) } }
      return event(session, 'PreToolUse', call)
    },
    hook: (client, input, more = {}) => runHook(client, input, { root, env: { ...env, ...more } }),
  }
}

interface Place {
  readonly root: string
  readonly env: Readonly<Record<string, string>>
}

async function runHook(client: string, input: string, { root, env }: Place): Promise<Ended> {
  const bare = Object.entries(process.env).filter(([name]) => !/^(TENURE_|GIT_|CLAUDE_)/.test(name))
  const child = spawn(process.execPath, [MAIN, 'hook', client], {
    cwd: root,
    env: { ...Object.fromEntries(bare), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (text: Buffer) => (stdout += text.toString()))
  child.stderr.on('data', (text: Buffer) => (stderr += text.toString()))
  const ended = once(child, 'close')
  // A hook that has read enough does not read the rest.
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  const [code] = await ended
  return { code: code as number | null, stdout, stderr }
}

describe('tenure hook', () => {
  it('makes the store of the repository at the first edit, and denies the next session', async () => {
    const { root, env, hook, edit, event } = checkout()
    expect(await hook('claude', edit('s1', 'a.ts'))).toEqual({ code: 0, stdout: '', stderr: '' })
    expect(fs.existsSync(path.join(root, '.git/tenure.db'))).toBe(true)
    const second = await hook('claude', edit('s2', 'a.ts'))
    expect(second).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(second.stdout)).toMatchObject({
      hookSpecificOutput: {
        permissionDecision: 'deny',
        permissionDecisionReason: expect.stringContaining('a.ts is held by claude:s1/main'),
      },
    })
    expect((await hook('claude', event('s2', 'SessionStart'))).stdout).toMatch(/^a\.ts is held by/)
    await hook('claude', event('s1', 'SessionEnd'))
    const { stdout } = await hostedTenure(['ls'], { cwd: root, env })
    expect(stdout).toBe('no leases\n')
  })

  it('is of the store and the holder that the environment names', async () => {
    const { root, hook, edit, env } = checkout()
    const store = `sqlite:${path.join(root, '.git/other.db')}`
    await hook('claude', edit('s1', 'a.ts'), { TENURE_STORE: store, TENURE_HOLDER: 'ada' })
    const { stdout } = await hostedTenure(['ls', '--store', store, '--json'], { cwd: root, env })
    expect(JSON.parse(stdout)).toMatchObject({ leases: [{ holder: 'ada' }] })
    expect(fs.existsSync(path.join(root, '.git/tenure.db'))).toBe(false)
  })

  it('is of the store that is named, although the working directory has the same without a name', async () => {
    const here = checkout()
    const there = checkout()
    const call = { tool_name: 'Edit', tool_input: { file_path: path.join(there.root, 'a.ts') } }
    const made = path.join(here.root, '.git/tenure.db')
    await here.hook('claude', here.event('s1', 'PreToolUse', call), {
      TENURE_STORE: `sqlite:${made}`,
    })
    expect(fs.existsSync(made)).toBe(true)
    expect(fs.existsSync(path.join(there.root, '.git/tenure.db'))).toBe(false)
  })

  it('gives the shell of a session the name of its holder', async () => {
    const { root, hook, event } = checkout()
    const file = path.join(root, '.git/environment')
    await hook('claude', event('s1', 'SessionStart'), { CLAUDE_ENV_FILE: file })
    expect(fs.readFileSync(file, 'utf8')).toBe("export TENURE_HOLDER='claude:s1/main'\n")
  })

  it('refuses a client that it does not know, so that the edit does not pass unseen', async () => {
    const { hook, edit } = checkout()
    const { code, stderr } = await hook('emacs', edit('s1', 'a.ts'))
    expect(code).toBe(2)
    expect(stderr).toContain('CLIENT must be one of claude, codex, gemini, cursor, copilot')
  })

  it('says what is wrong with a store that is none, in one line, and denies', async () => {
    const { root, hook, edit } = checkout()
    fs.writeFileSync(
      path.join(root, '.git/tenure.db'),
      'no database at all, but long enough to be one',
    )
    const { code, stdout, stderr } = await hook('claude', edit('s1', 'a.ts'))
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('"permissionDecision":"deny"')
    expect(stdout).toContain('Tenure could not check this edit')
    expect(stdout.trim().split('\n')).toHaveLength(1)
  })

  it('does not read more than an event can be', async () => {
    const { hook } = checkout()
    const { code, stderr } = await hook('claude', ' '.repeat(20 * 1_048_576))
    expect(code).toBe(1)
    expect(stderr).toContain('event must have at most 16777216 bytes')
  })
})
