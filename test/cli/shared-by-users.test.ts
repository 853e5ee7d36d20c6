/** Two users of one group share a store in a directory of the group: what one makes the other may write, as the umask says. */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { MAIN, startProgram, type Ended, type Running } from './tenure-process.ts'

const GROUP = 64_200
const ANN = 64_201
const BEN = 64_202
const DIST = fileURLToPath(new URL('../../dist/', import.meta.url))

/** Only root can act as two users, and only where both may read this program. */
function whyNot(): string | null {
  if (process.getuid?.() !== 0) return 'only root can act as two users'
  const tried = spawnSync(process.execPath, [MAIN, '--version'], { uid: BEN, gid: GROUP })
  return tried.status === 0 ? null : `another user cannot run ${MAIN}`
}

const reason = whyNot()
if (reason !== null) process.stdout.write(`two users of one group: not tested, because ${reason}\n`)

let directory: string
let file: string

beforeEach(() => {
  directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-group-')))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  if (reason === null) fs.chownSync(directory, ANN, GROUP)
  fs.chmodSync(directory, 0o2770)
  file = path.join(directory, 'leases.db')
})

/** A command of one of the two, under a umask. */
function as(uid: number, umask: string, command: readonly string[]): Running {
  const script = `umask ${umask}; exec "$@"`
  const options = { uid, gid: GROUP, cwd: directory, env: { HOME: directory } }
  return startProgram(['/bin/sh', '-c', script, 'sh', ...command], options)
}

function tenureAs(uid: number, umask: string, args: readonly string[]): Promise<Ended> {
  const command = [process.execPath, MAIN, ...args, '--store', `sqlite:${file}`]
  return as(uid, umask, command).ended
}

/** A program on the parts that wake others, without a poll that would make up for them. */
function wakerAs(uid: number, program: string): Running {
  const url = (name: string): string => pathToFileURL(path.join(DIST, 'store', name)).href
  const text = `
    const { WakeFiles } = await import(${JSON.stringify(url('sqlite/sqlite-listeners.js'))})
    const { FOLLOWERS } = await import(${JSON.stringify(url('subscribers.js'))})
    const runtime = { monotonicMs: () => 0, wallMs: Date.now }
    const wakes = new WakeFiles({ databasePath: ${JSON.stringify(file)}, runtime })
    ${program}`
  return as(uid, '002', [process.execPath, '--input-type=module', '-e', text])
}

function modeOf(name: string): string {
  return (fs.statSync(path.join(directory, name)).mode & 0o777).toString(8)
}

describe.runIf(reason === null)('two users of one group', () => {
  it('both write what one of them made under umask 002', async () => {
    expect(await tenureAs(ANN, '002', ['acquire', 'work:a', '--holder', 'ann'])).toMatchObject({
      code: 0,
      stderr: '',
    })
    expect(modeOf('leases.db')).toBe('664')
    expect(await tenureAs(BEN, '002', ['acquire', 'work:b', '--holder', 'ben'])).toMatchObject({
      code: 0,
      stderr: '',
    })
    expect(await tenureAs(BEN, '002', ['acquire', 'work:a', '--holder', 'ben'])).toMatchObject({
      code: 10,
    })
  })

  it('share what is beside the file while it is open', async () => {
    const look = `for (const name of ['leases.db-wal', 'leases.db-shm'])
      console.log(name, (require('node:fs').statSync(name).mode & 0o777).toString(8))`
    const held = ['run', 'work:a', '--store', `sqlite:${file}`, '--', process.execPath, '-e', look]
    const ended = await as(ANN, '002', [process.execPath, MAIN, ...held]).ended
    expect(ended.stdout).toBe('leases.db-wal 664\nleases.db-shm 664\n')
  })

  it('make a file for its owner alone under umask 077', async () => {
    await tenureAs(ANN, '077', ['acquire', 'work:a', '--holder', 'ann'])
    expect(modeOf('leases.db')).toBe('600')
    const ended = await tenureAs(BEN, '002', ['ls'])
    expect(ended).toMatchObject({ code: 15 })
    expect(ended.stderr).toContain(
      `${file} belongs to user ${ANN}, group ${GROUP}, mode 0600; this process is user ${BEN}`,
    )
  })

  it('are told whose the file is that only its owner may write', async () => {
    await tenureAs(ANN, '022', ['acquire', 'work:a', '--holder', 'ann'])
    const ended = await tenureAs(BEN, '002', ['acquire', 'work:b', '--holder', 'ben'])
    expect(ended).toMatchObject({ code: 15 })
    expect(ended.stderr.trim().split('\n')).toHaveLength(1)
    expect(ended.stderr).toContain(`${file} belongs to user ${ANN}, group ${GROUP}, mode 0644`)
  })

  it.each([
    ['is closed to them', 0o700, 'leases.db'],
    ['is closed to them, for a path below it', 0o700, 'sub/leases.db'],
    ['they may not write', 0o750, 'leases.db'],
    ['they may not write, for a path below it', 0o750, 'sub/leases.db'],
  ])('are told whose the directory is that %s', async (_, mode, name) => {
    file = path.join(directory, name)
    fs.chmodSync(directory, mode)
    const blamed = `${directory} belongs to user ${ANN}, group ${GROUP}, mode 0${mode.toString(8)}; this process is user ${BEN}`
    const refused = await tenureAs(BEN, '002', ['acquire', 'work:a', '--holder', 'ben'])
    expect(refused.stderr.trim().split('\n')).toHaveLength(1)
    expect(refused.stderr).toContain(`sqlite:${file} cannot be used: EACCES`)
    expect(refused.stderr).toContain(blamed)
    expect(refused.code).toBe(15)
    const examined = await tenureAs(BEN, '002', ['doctor'])
    expect(examined).toMatchObject({ code: 1, stdout: expect.stringContaining(blamed) })
    // Where nothing can be seen, what coding agents have set up there cannot be, either: one line more, not one for each.
    expect(examined.stdout.match(/^wrong .*EACCES/gm)?.length).toBeLessThanOrEqual(2)
  })

  it('are told of the directory that they may not write, not of the file that they may', async () => {
    await tenureAs(ANN, '002', ['acquire', 'work:a', '--holder', 'ann'])
    fs.chmodSync(directory, 0o750)
    for (const command of [['acquire', 'work:b', '--holder', 'ben'], ['ls']]) {
      const ended = await tenureAs(BEN, '002', command)
      expect(ended).toMatchObject({ code: 15 })
      expect(ended.stderr).toContain(
        `(${directory} belongs to user ${ANN}, group ${GROUP}, mode 0750`,
      )
    }
  })

  it('set up what calls tenure although a directory of the path is closed to them', async () => {
    const closed = path.join(directory, 'closed')
    fs.mkdirSync(closed, { mode: 0o700 })
    const script = 'git init -q repo && cd repo && PATH="$1:$PATH" && shift && exec "$@" init git'
    const command = ['/bin/sh', '-c', script, 'sh', closed, process.execPath, MAIN]
    const { code, stdout, stderr } = await as(BEN, '002', command).ended
    expect(stderr).not.toContain('unexpected')
    expect(stdout).toContain('+++ .git/hooks/pre-commit')
    expect(code).toBe(0)
  })

  it('wake each other when they wait', async () => {
    const waiting = wakerAs(
      BEN,
      `const timer = setInterval(() => {}, 1000)
       wakes.tryToListen('ben', () => { console.log('woken'); wakes.close(); clearInterval(timer) })
       console.log('listening')`,
    )
    await waiting.says('listening')
    expect(modeOf('leases.db-wake')).toBe('775')
    const touching = await wakerAs(ANN, `wakes.touch('ben')`).ended
    expect(touching).toMatchObject({ code: 0, stderr: '' })
    expect(await waiting.ended).toMatchObject({ code: 0, stderr: '' })
  })

  it('wake each other when they watch, whoever was the first', async () => {
    const program = `const timer = setInterval(() => {}, 1000)
      wakes.tryToListen(FOLLOWERS, () => { console.log('called'); clearInterval(timer) })
      console.log('listening')`
    const ann = wakerAs(ANN, program)
    await ann.says('listening')
    const ben = wakerAs(BEN, program)
    await ben.says('listening')
    expect(await wakerAs(BEN, `wakes.touch(FOLLOWERS)`).ended).toMatchObject({ stderr: '' })
    expect(await ann.ended).toMatchObject({ code: 0, stderr: '' })
    expect(await ben.ended).toMatchObject({ code: 0, stderr: '' })
  })
})
