/** What hooks do about the leases of files: who may write, who is told what, and when it ends. */
import fs from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { world, type World } from './harness.ts'

async function holders(here: World): Promise<readonly string[]> {
  const { leases } = await here.api.list({})
  return leases.map(
    ({ resource, holder }) => `${resource.replace(`file:${here.root}/`, '')} ${holder}`,
  )
}

describe('before an edit', () => {
  it('a hook takes the lease of a free file, and says nothing', async () => {
    const here = world()
    const { answer } = await here.claude('s1').edit('src/a.ts')
    expect(answer).toMatchObject({ stdout: '', stderr: '', exitCode: 0 })
    expect(await holders(here)).toEqual(['src/a.ts claude:s1/main'])
    const { leases } = await here.api.list({})
    expect(leases).toMatchObject([{ ttlMs: 900_000, maxHoldMs: 14_400_000, mode: 'exclusive' }])
  })

  it('another session is denied in one sentence: who, why, until when, and what to do', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    const { denied, answer } = await here.claude('s2').edit('src/a.ts')
    expect(denied).toBe(
      'src/a.ts is held by claude:s1/main ("Edit of claude") until 12:15:00 UTC; wait for it with `tenure wait src/a.ts --timeout 100s` and then read it again, or work on something else.',
    )
    expect(answer.stdout).not.toContain('allow')
    expect(await holders(here)).toEqual(['src/a.ts claude:s1/main'])
  })

  it('the same agent goes on, without a second lease', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.edit('src/a.ts')
    expect((await ada.edit('src/a.ts')).answer.stdout).toBe('')
    expect(await holders(here)).toEqual(['src/a.ts claude:s1/main'])
  })

  it('of several files all are taken, or none', async () => {
    const here = world()
    await here.claude('s1').edit('src/b.ts')
    const { denied } = await here.claude('s2').shell('cp x src/a.ts; cp x src/b.ts')
    expect(denied).toMatch(/^src\/b\.ts is held by claude:s1\/main/)
    expect(await holders(here)).toEqual(['src/b.ts claude:s1/main'])
  })

  it('what lies below a directory that is held is held, too', async () => {
    const here = world()
    const resource = parseResource(`file:${here.file('src')}`)
    await here.api.acquire({
      ...{ id: here.runtime.uuid(), resource, extent: 'subtree', holder: 'ada' },
      ...{ session: 'ada', waitMs: 0, reason: 'moving house', ttlMs: 60_000 },
    })
    const { denied } = await here.claude('s2').edit('src/a.ts')
    expect(denied).toMatch(
      /^src\/a\.ts is held, with all of src, by ada \("moving house"\) until 12:01:00/,
    )
    expect((await here.claude('s2').shell('rm -rf src')).denied).toMatch(/ada holds src/)
  })

  it('a directory is not changed as a whole while another has a file in it', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    const { denied } = await here.claude('s2').shell('rm -rf src')
    expect(denied).toMatch(/^src cannot be changed as a whole: claude:s1\/main holds src\/a\.ts/)
    expect((await here.claude('s1').shell('rm -rf src')).denied).toBeNull()
  })

  it('a directory that the agent took itself covers its files, however many', async () => {
    const here = world()
    const holder = 'claude:s1/main'
    const place = { resource: parseResource(`file:${here.root}`), extent: 'subtree' } as const
    await here.api.acquire({
      id: here.runtime.uuid(),
      ...place,
      holder,
      session: holder,
      waitMs: 0,
    })
    const names = Array.from({ length: 2_000 }, (_, index) => `f${index}`).join(' ')
    expect((await here.claude('s1').shell(`touch ${names}`)).denied).toBeNull()
    expect((await here.api.list({})).leases).toHaveLength(1)
  })

  it('more files than can be leased at once are denied, and nothing is taken', async () => {
    const here = world()
    const files = Array.from({ length: 10_000 }, (_, index) => `*** Add File: f${index}\n+x`)
    const command = ['*** Begin Patch', ...files, '*** End Patch'].join('\n')
    const input = {
      session_id: 's1',
      cwd: here.root,
      tool_name: 'apply_patch',
      tool_input: { command },
    }
    const { stdout } = await here.send('codex', { hook_event_name: 'PreToolUse', ...input })
    expect(stdout).toContain('this would write to 10000 files, and at most 1000 are leased at once')
    expect(await holders(here)).toEqual([])
  })

  it('a link and what it leads to are one file', async () => {
    const here = world()
    fs.symlinkSync('src/a.ts', here.file('link.ts'))
    await here.claude('s1').edit('link.ts')
    expect(await holders(here)).toEqual(['src/a.ts claude:s1/main'])
    expect((await here.claude('s2').edit('src/a.ts')).denied).toMatch(/is held by claude:s1/)
  })

  it('a session in a directory that is reached through a link works in the real one', async () => {
    const here = world()
    fs.rmSync(here.file('.git'), { recursive: true })
    const link = `${here.root}-link`
    fs.symlinkSync(here.root, link)
    const edit = (session_id: string): object => ({
      ...{ session_id, cwd: link, hook_event_name: 'PreToolUse', tool_name: 'Edit' },
      tool_input: { file_path: `${link}/src/a.ts` },
    })
    await here.send('claude', edit('s1'))
    const { stdout } = await here.send('claude', edit('s2'))
    expect(stdout).toContain('"src/a.ts is held by claude:s1/main')
  })

  it('files of no checkout, and those of git itself, are left alone', async () => {
    const here = world()
    const { answer } = await here.claude('s1').shell('echo x > /tmp/x; echo x > .git/description')
    expect(answer.stdout).toBe('')
    expect(await holders(here)).toEqual([])
  })

  it('a name that was given is the holder, with a subagent behind it', async () => {
    const here = world()
    const edit = (file: string, more = {}) => ({
      ...{ hook_event_name: 'PreToolUse', session_id: 's1', cwd: here.root, tool_name: 'Edit' },
      ...{ tool_input: { file_path: here.file(file) }, ...more },
    })
    await here.send('claude', edit('src/a.ts'), { holder: 'ada' })
    await here.send('claude', edit('src/b.ts', { agent_id: 'x' }), { holder: 'ada' })
    expect(await holders(here)).toEqual(['src/a.ts ada', 'src/b.ts ada/x'])
  })
})

describe('subagents', () => {
  it('work inside of what their session holds, one of them at a time', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    expect((await here.claude('s1', 'x').edit('src/a.ts')).denied).toBeNull()
    expect((await here.claude('s1', 'y').edit('src/a.ts')).denied).toMatch(/held by claude:s1\/x/)
    expect((await here.claude('s1').edit('src/a.ts')).denied).toBeNull()
    const { leases } = await here.api.list({ holder: 'claude:s1/x' })
    expect(leases).toMatchObject([{ parentId: expect.any(String), depth: 1 }])
  })

  it('end without freeing what their session holds', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    await here.claude('s1', 'x').edit('src/a.ts')
    await here.claude('s1', 'x').edit('src/b.ts')
    await here.claude('s1', 'x').event('SubagentStop')
    expect(await holders(here)).toEqual(['src/a.ts claude:s1/main'])
    expect((await here.claude('s1', 'y').edit('src/a.ts')).denied).toBeNull()
  })

  it('that end without a name end nothing of their session', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    await here.claude('s1').event('SubagentStop')
    expect(await holders(here)).toEqual(['src/a.ts claude:s1/main'])
  })

  it('have what they took alone for themselves, also against their session', async () => {
    const here = world()
    await here.claude('s1', 'x').edit('src/a.ts')
    expect((await here.claude('s1').edit('src/a.ts')).denied).toMatch(/held by claude:s1\/x/)
    expect((await here.claude('s1', 'y').edit('src/a.ts')).denied).toMatch(/held by claude:s1\/x/)
  })

  it('keep what they work in alive', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    const x = here.claude('s1', 'x')
    for (let minutes = 0; minutes < 40; minutes += 5) {
      expect((await x.edit('src/a.ts')).denied).toBeNull()
      await here.runtime.advance(300_000)
    }
    expect(await holders(here)).toEqual(['src/a.ts claude:s1/main', 'src/a.ts claude:s1/x'])
  })
})

describe('leases of hooks', () => {
  it('are renewed while their file is edited, and no longer than ten minutes after', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.edit('src/a.ts')
    for (let minutes = 0; minutes < 24; minutes += 4) {
      await here.runtime.advance(240_000)
      await ada.edit('src/b.ts')
    }
    expect(await holders(here)).toEqual(['src/b.ts claude:s1/main'])
  })

  it('are renewed by every event of their agent, whatever it does', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.edit('src/a.ts')
    await here.runtime.advance(500_000)
    await ada.read('src/b.ts')
    await here.runtime.advance(500_000)
    expect(await holders(here)).toEqual(['src/a.ts claude:s1/main'])
  })

  it('end after four hours; then those who wait come first', async () => {
    const here = world()
    const ada = here.claude('s1')
    for (let minutes = 0; minutes < 4 * 60; minutes += 5) {
      expect((await ada.edit('src/a.ts')).denied).toBeNull()
      await here.runtime.advance(300_000)
    }
    expect(await holders(here)).toEqual([])
  })

  it('are as long as configured', async () => {
    const here = world()
    await here.api.configure({
      key: 'hook_ttl_seconds',
      value: '60',
      scope: 'global',
      resourceId: null,
    })
    await here.claude('s1').edit('src/a.ts')
    await here.runtime.advance(60_000)
    expect((await here.claude('s2').edit('src/a.ts')).denied).toBeNull()
  })

  it('end with their session, and so does its memory', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    await here.claude('s1', 'x').edit('src/b.ts')
    expect(fs.readdirSync(here.memoryDirectory)).toHaveLength(1)
    await here.claude('s1').event('SessionEnd', { reason: 'logout' })
    expect(await holders(here)).toEqual([])
    expect(fs.readdirSync(here.memoryDirectory)).toEqual([])
  })

  it('end with their session even if a killed hook could remember nothing', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    for (const name of fs.readdirSync(here.memoryDirectory)) {
      fs.truncateSync(`${here.memoryDirectory}/${name}`)
    }
    await here.claude('s1').event('SessionEnd')
    expect(await holders(here)).toEqual([])
  })

  it('end when their file is committed, and only then', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.edit('src/a.ts')
    await ada.edit('src/b.ts')
    here.write('src/a.ts', 'a2\n')
    here.write('src/b.ts', 'b2\n')
    await ada.after('Edit', { file_path: here.file('src/a.ts') })
    await ada.after('Edit', { file_path: here.file('src/b.ts') })
    await ada.shell('git add src/a.ts && git commit -m x')
    here.git('add', 'src/a.ts')
    here.git('commit', '-qm', 'x')
    await ada.ran('git add src/a.ts && git commit -m x')
    expect(await holders(here)).toEqual(['src/b.ts claude:s1/main'])
    expect((await ada.read('src/b.ts')).told).toBeNull()
  })

  it('of an edit that is still under way stay, whatever is committed meanwhile', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.edit('src/a.ts')
    await ada.shell('git commit -m x --allow-empty')
    await ada.ran('git commit -m x --allow-empty')
    expect(await holders(here)).toEqual(['src/a.ts claude:s1/main'])
    await ada.after('Edit', { file_path: here.file('src/a.ts') })
    await ada.ran('git commit -m x --allow-empty')
    expect(await holders(here)).toEqual([])
  })

  it('of a command that edits and commits end with it', async () => {
    const here = world()
    const command = 'sed -i s/a/b/ src/a.ts && git commit -am x'
    await here.claude('s1').shell(command)
    here.write('src/a.ts', 'b\n')
    here.git('commit', '-qam', 'x')
    await here.claude('s1').ran(command)
    expect(await holders(here)).toEqual([])
  })

  it('that were revoked are missed at the next event: by whom, and who has the file now', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    await here.api.revokeAll({ holder: 'claude:s1/main', by: 'ops', reason: 'deploy' })
    await here.runtime.advance(5_000)
    await here.claude('s2').edit('src/a.ts')
    const { told } = await here.claude('s1').read('src/b.ts')
    expect(told).toBe(
      'Your lease of src/a.ts was revoked by ops ("deploy") at 12:00:00 UTC; claude:s2/main holds it since 12:00:05 UTC ("Edit of claude").',
    )
    expect((await here.claude('s1').read('src/b.ts')).told).toBeNull()
  })

  it('are missed once the client lets the model hear it', async () => {
    const here = world()
    const send = async (hook_event_name: string, command: string): Promise<string> => {
      const call = { tool_name: 'Bash', tool_input: { command } }
      const event = { session_id: 's1', cwd: here.root, hook_event_name, ...call }
      return (await here.send('codex', event)).stdout
    }
    await send('PreToolUse', 'touch src/a.ts')
    await here.api.revokeAll({ holder: 'codex:s1/main', by: 'ops' })
    expect(await send('PreToolUse', 'touch src/b.ts')).toBe('')
    expect(await send('PostToolUse', 'touch src/b.ts')).toContain(
      'Your lease of src/a.ts was revoked',
    )
    expect(await send('PostToolUse', 'ls')).toBe('')
  })

  it('that ran out are missed if another has the file now, together with a denial', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    await here.runtime.advance(900_000)
    await here.claude('s2').edit('src/a.ts')
    const { denied } = await here.claude('s1').edit('src/a.ts')
    expect(denied).toMatch(/^src\/a\.ts is held by claude:s2\/main/)
    expect(denied).toContain('Your lease of src/a.ts ran out at 12:15:00 UTC; claude:s2/main holds')
  })

  it('that ran out while nobody else came are not worth a word', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    await here.runtime.advance(900_000)
    const { answer } = await here.claude('s1').edit('src/a.ts')
    expect(answer.stdout).toBe('')
  })
})

describe('a session that begins', () => {
  it('is told what others hold in this tree, twenty at most, and how many more there are', async () => {
    const here = world()
    await here.claude('s0').shell('touch g1 g2')
    expect((await here.claude('s0').event('SessionStart', { source: 'startup' })).told).toBeNull()
    const first = await here.claude('s1').event('SessionStart', { source: 'startup' })
    const words = 'is held by claude:s0/main ("shell of claude: touch g1 g2") until 12:15:00 UTC'
    expect(first.answer.stdout).toBe(`g1 ${words}\ng2 ${words}\n`)
    await here
      .claude('s0')
      .shell(`touch ${Array.from({ length: 30 }, (_, n) => `f${n}`).join(' ')}`)
    const lines = (await here.claude('s1').event('SessionStart')).told?.split('\n')
    expect(lines).toHaveLength(21)
    expect(lines?.at(-1)).toBe('and 12 more leases of others')
  })

  it('is told nothing where no store was made, and makes none', async () => {
    const here = world()
    here.forgetStore()
    here.breakStore(new Error('must not be opened'))
    expect((await here.claude('s1').event('SessionStart')).answer.stdout).toBe('')
  })

  it('sweeps memories of sessions that were not heard of for a week', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    const [name = ''] = fs.readdirSync(here.memoryDirectory)
    fs.utimesSync(`${here.memoryDirectory}/${name}`, 0, 0)
    await here.claude('s2').event('SessionStart')
    expect(fs.readdirSync(here.memoryDirectory)).toEqual([])
  })
})

describe('a file that was read', () => {
  it('and changed by another since is to be read again, once', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.read('src/a.ts')
    here.write('src/a.ts', 'changed by another\n')
    const { denied } = await ada.edit('src/a.ts')
    expect(denied).toBe(
      'src/a.ts was changed by another program since you last read it; read it again before you edit it.',
    )
    expect((await ada.edit('src/a.ts')).denied).toBeNull()
  })

  it('again is known', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.read('src/a.ts')
    here.write('src/a.ts', 'changed by another\n')
    await ada.read('src/a.ts')
    expect((await ada.edit('src/a.ts')).denied).toBeNull()
  })

  it('and changed by the agent itself is known, by an edit, by a command, and by a program', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.read('src/a.ts')
    await ada.edit('src/a.ts')
    here.write('src/a.ts', 'edited\n')
    await ada.after('Edit', { file_path: here.file('src/a.ts') })
    expect((await ada.edit('src/a.ts')).denied).toBeNull()
    await ada.shell('sed -i s/e/E/ src/a.ts')
    here.write('src/a.ts', 'Edited\n')
    await ada.ran('sed -i s/e/E/ src/a.ts')
    expect((await ada.edit('src/a.ts')).denied).toBeNull()
    await ada.shell('npx prettier --write .')
    here.write('src/a.ts', 'formatted\n')
    await ada.ran('npx prettier --write .')
    expect((await ada.edit('src/a.ts')).denied).toBeNull()
  })

  it('by one agent is not known to another of the session', async () => {
    const here = world()
    await here.claude('s1').read('src/a.ts')
    here.write('src/a.ts', 'changed\n')
    expect((await here.claude('s1', 'x').edit('src/a.ts')).denied).toBeNull()
  })

  it('is compared with what it was at the grant, where it was never read', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.edit('src/a.ts')
    await here.runtime.advance(900_000)
    await here.claude('s2').edit('src/a.ts')
    here.write('src/a.ts', 'by the other\n')
    await here.claude('s2').event('SessionEnd')
    expect((await ada.edit('src/a.ts')).denied).toMatch(/read it again before you edit it/)
  })
})

describe('the checkout', () => {
  it.each([
    'git checkout main',
    'git stash',
    'git rebase main',
    'git reset --hard',
    'git switch x',
  ])(
    '%s is denied while another has anything below its root, and takes nothing',
    async (command) => {
      const here = world()
      const ada = here.claude('s1')
      await ada.edit('src/a.ts')
      expect((await ada.shell(command)).denied).toBeNull()
      const { denied } = await here.claude('s2').shell(command)
      expect(denied).toContain(
        'would change files under other holders: claude:s1/main holds src/a.ts',
      )
      expect(await holders(here)).toEqual(['src/a.ts claude:s1/main'])
    },
  )
})

describe('a command whose effect cannot be read', () => {
  it('is let through; a write through the lease of another is named, and stands in the ledger', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    await here.runtime.advance(120_000)
    const bob = here.claude('s2')
    expect((await bob.shell('python3 fix.py src/a.ts')).answer.stdout).toBe('')
    here.write('src/a.ts', 'written through\n')
    const { told } = await bob.ran('python3 fix.py src/a.ts')
    expect(told).toContain('wrote to src/a.ts, which claude:s1/main holds ("Edit of claude") until')
    const history = await here.api.history({ types: ['lease.trespassed'] })
    expect(history.map(({ event }) => event)).toMatchObject([
      {
        ...{ type: 'lease.trespassed', holder: 'claude:s1/main', by: 'claude:s2/main' },
        ...{
          target: `file:${here.file('src/a.ts')}`,
          reason: 'shell of claude: python3 fix.py src/a.ts',
        },
      },
    ])
    expect((await here.api.list({})).leases).toMatchObject([{ holder: 'claude:s1/main' }])
    expect((await bob.ran('python3 fix.py src/a.ts')).told).toBeNull()
  })

  it('is not blamed for what it left alone, nor for what the holder wrote meanwhile', async () => {
    const here = world()
    const ada = here.claude('s1')
    const bob = here.claude('s2')
    await ada.edit('src/a.ts')
    await here.runtime.advance(120_000)
    await bob.shell('python3 fix.py src/a.ts')
    expect((await bob.ran('python3 fix.py src/a.ts')).told).toBeNull()
    await bob.shell('python3 fix.py src/a.ts')
    await ada.edit('src/a.ts')
    here.write('src/a.ts', 'by its holder\n')
    expect((await bob.ran('python3 fix.py src/a.ts')).told).toBeNull()
    expect(await here.api.history({ types: ['lease.trespassed'] })).toEqual([])
  })

  it('after a denial is watched for the file that was denied, whatever it names', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    await here.runtime.advance(120_000)
    const bob = here.claude('s2')
    await bob.edit('src/a.ts')
    await bob.shell('python3 sneaky.py')
    here.write('src/a.ts', 'written through\n')
    expect((await bob.ran('python3 sneaky.py')).told).toContain('wrote to src/a.ts')
  })

  it('below a directory that it names is watched for all that others hold there', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    await here.runtime.advance(120_000)
    const bob = here.claude('s2')
    await bob.shell('npx prettier --write src')
    fs.rmSync(here.file('src/a.ts'))
    expect((await bob.ran('npx prettier --write src')).told).toContain('wrote to src/a.ts')
  })
})

describe("a call of Tenure's own tools", () => {
  it('hears who makes it, where it does not say', async () => {
    const here = world()
    const x = here.claude('s1', 'x')
    const { answer } = await x.before('mcp__tenure__lease_acquire', { resources: ['a'] })
    expect(JSON.parse(answer.stdout)).toEqual({
      hookSpecificOutput: {
        hookEventName: 'PreToolUse',
        updatedInput: { resources: ['a'], holder: 'claude:s1/x', parent: 'claude:s1/main' },
      },
    })
    const main = await here.claude('s1').before('mcp__tenure__lease_acquire', { resources: ['a'] })
    expect(main.answer.stdout).toContain('{"resources":["a"],"holder":"claude:s1/main"}')
    const release = await x.before('mcp__tenure__lease_release', {})
    expect(release.answer.stdout).toContain('"updatedInput":{"holder":"claude:s1/x"}')
    const said = await x.before('mcp__tenure__lease_acquire', { resources: ['a'], holder: 'me' })
    expect(said.answer.stdout).toBe('')
  })
})
