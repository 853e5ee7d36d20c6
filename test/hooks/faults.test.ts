/** Events that make no sense, stores that do not answer, hooks that were killed: one line, one decision, no stack. */
import fs from 'node:fs'
import { describe, expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { world, type World } from './harness.ts'

const AWAY = new LeaseError('STORE_UNAVAILABLE', 'the database is locked')

function editOf(here: World, file_path: unknown): object {
  return {
    ...{ hook_event_name: 'PreToolUse', session_id: 's1', cwd: here.root, tool_name: 'Edit' },
    tool_input: { file_path },
  }
}

function callOf(tool_name: string, tool_input: object): Uint8Array {
  const event = { hook_event_name: 'PreToolUse', session_id: 's1', tool_name, tool_input }
  return Buffer.from(JSON.stringify(event))
}

describe('an event that cannot be read', () => {
  it.each([
    ['nothing', Buffer.from(''), 'event must be a JSON object on standard input, got ""'],
    ['no JSON', Buffer.from('{"session_id":'), 'event must be a JSON object'],
    ['no object', Buffer.from('[1]'), 'event must be a JSON object'],
    ['no UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 'event must be UTF-8'],
    ['too big', Buffer.alloc(17 * 1_048_576, 0x20), 'event must have at most 16777216 bytes'],
    [
      'without a session',
      Buffer.from('{"hook_event_name":"PreToolUse"}'),
      'session_id must be a text',
    ],
    ['without a name', Buffer.from('{"session_id":"s"}'), 'hook_event_name must be a text'],
    ['of an edit of 7', callOf('Edit', { file_path: 7 }), 'file_path must be a text, got 7'],
    ['of an edit of nothing', callOf('Write', {}), 'file_path must be a text'],
    ['of a command that is none', callOf('Bash', { command: {} }), 'command must be a text'],
  ])(
    '(%s) blocks where there is a store, and does not where there is none',
    async (_, bytes, line) => {
      const here = world()
      const closed = await here.send('claude', null, { bytes })
      expect(closed).toMatchObject({ stdout: '', exitCode: 2 })
      expect(closed.stderr).toMatch(/^tenure hook: [^\n]+\n$/)
      expect(closed.stderr).toContain(line)
      here.forgetStore()
      expect(await here.send('claude', null, { bytes })).toMatchObject({ stdout: '', exitCode: 1 })
    },
  )

  it.each([
    ['of another system', 'C:\\repo\\a.ts', 'path must be a path of this system'],
    ['of another machine', '\\\\host\\share\\a.ts', 'path must be a path of this system'],
    ['that is no UTF-8', '/repo/\ufffd.ts', 'path must be valid UTF-8'],
    ['with a control character', '/repo/a\0.ts', 'must'],
    ['that is too long', `/${'x'.repeat(2_000)}`, 'must'],
  ])('for its path (%s) is denied with what is wrong about it', async (_, file, line) => {
    const here = world()
    const { stdout, exitCode } = await here.send('claude', editOf(here, file))
    expect(exitCode).toBe(0)
    expect(stdout).toContain('"permissionDecision":"deny"')
    expect(stdout).toContain(line)
    expect(stdout).not.toMatch(/ at .*:\d+:\d+/)
  })
})

describe('an event that never ends', () => {
  it('is given up after five seconds, and blocks', async () => {
    const here = world()
    const answer = here.send('claude', null, { input: new Promise(() => undefined) })
    await here.runtime.advance(5_000)
    expect(await answer).toMatchObject({
      ...{ stdout: '', stderr: 'tenure hook: the event did not end within 5000 ms\n', exitCode: 2 },
    })
  })
})

describe('a store that does not answer', () => {
  it('denies edits in one sentence that says why, and how to change that', async () => {
    const here = world()
    here.breakStore(AWAY)
    const { denied } = await here.claude('s1').edit('src/a.ts')
    expect(denied).toBe(
      'Tenure could not check this edit (the database is locked), and denies what it cannot check. Tell your user: `tenure doctor` says what is wrong, and `tenure init claude --remove` takes the hooks out.',
    )
    expect((await here.claude('s1').shell('rm src/a.ts')).denied).toMatch(
      /^Tenure could not check this command/,
    )
    expect((await here.claude('s1').shell('git stash')).denied).toMatch(
      /^Tenure could not check this command/,
    )
  })

  it('denies nothing that writes nothing', async () => {
    const here = world()
    await here.claude('s1').edit('src/a.ts')
    here.breakStore(AWAY)
    const read = await here.claude('s1').read('src/b.ts')
    expect(read.answer).toMatchObject({ stdout: '', exitCode: 1 })
    expect(read.answer.stderr).toBe('tenure hook: the database is locked\n')
    expect((await here.claude('s2').shell('ls')).answer).toMatchObject({ stdout: '', exitCode: 0 })
    expect((await here.claude('s1').event('SessionEnd')).answer.exitCode).toBe(1)
  })

  it('lets edits through, and says so, where that was configured', async () => {
    const here = world()
    const global = { scope: 'global', resourceId: null } as const
    await here.api.configure({ key: 'hook_on_failure', value: 'open', ...global })
    await here.claude('s1').edit('src/a.ts')
    here.breakStore(AWAY)
    const { answer } = await here.claude('s1').edit('src/b.ts')
    expect(answer).toMatchObject({
      stdout: '',
      stderr: 'tenure hook: the database is locked\n',
      exitCode: 1,
    })
  })

  it('lets edits through where nobody has ever made one', async () => {
    const here = world()
    here.forgetStore()
    here.breakStore(new Error('EROFS: read-only file system, mkdir'))
    const { answer } = await here.claude('s1').edit('src/a.ts')
    expect(answer).toMatchObject({ stdout: '', exitCode: 1 })
  })

  it('is given up after five seconds', async () => {
    const here = world()
    here.hangStore()
    const edit = here.claude('s1').edit('src/a.ts')
    await here.runtime.advance(5_000)
    expect((await edit).denied).toContain('the store did not answer within 5000 ms')
  })
})

describe('the memory of a session', () => {
  it('that was cut short by a kill is used as far as it goes', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.read('src/a.ts')
    const [name = ''] = fs.readdirSync(here.memoryDirectory)
    fs.appendFileSync(`${here.memoryDirectory}/${name}`, '\n{"k":"seen","agent":"ma')
    await ada.edit('src/b.ts')
    here.write('src/a.ts', 'changed\n')
    expect((await ada.edit('src/a.ts')).denied).toMatch(/read it again/)
  })

  it('that cannot be read costs no edit either', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.edit('src/a.ts')
    const [name = ''] = fs.readdirSync(here.memoryDirectory)
    fs.rmSync(`${here.memoryDirectory}/${name}`)
    fs.mkdirSync(`${here.memoryDirectory}/${name}`)
    expect((await ada.edit('src/a.ts')).answer).toMatchObject({
      stdout: '',
      stderr: '',
      exitCode: 0,
    })
    expect((await ada.shell('ls')).answer).toMatchObject({ stdout: '', exitCode: 0 })
  })

  it('that cannot be kept costs no edit', async () => {
    const here = world()
    fs.writeFileSync(here.memoryDirectory, 'no directory')
    const { answer } = await here.claude('s1').edit('src/a.ts')
    expect(answer).toMatchObject({ stdout: '', stderr: '', exitCode: 0 })
  })

  it('stays small, however long the session', async () => {
    const here = world()
    const ada = here.claude('s1')
    await ada.read('src/a.ts')
    const [name = ''] = fs.readdirSync(here.memoryDirectory)
    const file = `${here.memoryDirectory}/${name}`
    fs.appendFileSync(file, fs.readFileSync(file, 'utf8').repeat(10_000))
    await ada.edit('src/b.ts')
    expect(fs.statSync(file).size).toBeLessThan(10_000)
    here.write('src/a.ts', 'changed\n')
    expect((await ada.edit('src/a.ts')).denied).toMatch(/read it again/)
  })

  it('survives any number of hooks at once', async () => {
    const here = world()
    const ada = here.claude('s1')
    const names = Array.from({ length: 30 }, (_, index) => `f${index}.ts`)
    const answers = await Promise.all(names.map((name) => ada.edit(name)))
    expect(answers.map(({ denied }) => denied)).toEqual(names.map(() => null))
    const again = await Promise.all([ada.edit('x.ts'), ada.edit('x.ts'), ada.edit('x.ts')])
    expect(again.map(({ denied }) => denied)).toEqual([null, null, null])
    await ada.event('SessionEnd')
    expect((await here.api.list({})).leases).toEqual([])
  })
})
