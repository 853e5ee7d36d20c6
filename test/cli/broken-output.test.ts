/** The exit status is the contract: it does not depend on whether anybody reads what the command has to say. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest'
import { openLeaseManager } from '../../src/fleet.ts'
import { workshop } from './tenure-process.ts'

const MAIN = path.resolve(import.meta.dirname, '../../dist/cli/main.js')
let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-output-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

function exitStatus(args: readonly string[], stderr: number | 'closed'): Promise<number | null> {
  const store = ['--store', `sqlite:${path.join(directory, 'leases.db')}`]
  const child = spawn(process.execPath, [MAIN, ...args, ...store], {
    stdio: ['ignore', 'ignore', stderr === 'closed' ? 'pipe' : stderr],
    timeout: 15_000,
    killSignal: 'SIGKILL',
  })
  child.stderr?.destroy()
  return new Promise((resolve) => child.once('close', resolve))
}

/** Runs a command whose stdout is a pipe that nobody reads, or a disk that is full. */
function withOutput(
  args: readonly string[],
  stdout: number | 'closed',
): Promise<{ readonly code: number | null; readonly stderr: string }> {
  const store = ['--store', `sqlite:${path.join(directory, 'leases.db')}`]
  const child = spawn(process.execPath, [MAIN, ...args, ...store], {
    cwd: directory,
    stdio: ['ignore', stdout === 'closed' ? 'pipe' : stdout, 'pipe'],
    timeout: 45_000,
    killSignal: 'SIGKILL',
  })
  child.stdout?.destroy()
  let stderr = ''
  child.stderr?.on('data', (text: Buffer) => (stderr += text.toString()))
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, stderr })))
}

it.each([
  ['a pipe that nobody reads', 'closed'],
  ['a disk that is full', '/dev/full'],
])(
  'an acquire whose answer goes to %s gives its leases back, and fails',
  async (_where, place) => {
    const stdout = place === 'closed' ? place : fs.openSync(place, 'w')
    for (const resources of [['work:W-1'], ['work:W-1', 'work:W-2']]) {
      const { code, stderr } = await withOutput(
        ['acquire', ...resources, '--holder', 'ann'],
        stdout,
      )
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(/^tenure: .* could not be written .*given back.* \(ABORTED\)\n$/),
      ])
      for (const resource of resources) {
        expect(await exitStatus(['acquire', resource, '--holder', 'bob'], 'closed')).toBe(0)
        expect(await exitStatus(['release', resource, '--holder', 'bob'], 'closed')).toBe(0)
      }
    }
    if (typeof stdout === 'number') fs.closeSync(stdout)
  },
  60_000,
)

it('an acquire by an id that its caller chose keeps the lease, and says so by its status', async () => {
  const leaseId = '00000000-0000-4000-8000-000000000001'
  const args = ['acquire', 'work:W-1', '--holder', 'ann', '--lease-id', leaseId]
  const { code, stderr } = await withOutput(args, 'closed')
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/could not be written .*lease 0{8}-.*1 is held/),
  ])
  expect(await exitStatus(['acquire', 'work:W-1', '--holder', 'bob'], 'closed')).toBe(10)
  expect(await exitStatus(['release', leaseId, '--holder', 'ann'], 'closed')).toBe(0)
}, 60_000)

it('a change whose answer does not fit on the disk fails, and says what took effect', async () => {
  const full = fs.openSync('/dev/full', 'w')
  onTestFinished(() => fs.closeSync(full))
  const leaseId = '00000000-0000-4000-8000-000000000001'
  const args = ['acquire', 'work:W-1', '--holder', 'ann', '--lease-id', leaseId]
  expect(await exitStatus(args, 'closed')).toBe(0)
  const other = '00000000-0000-4000-8000-000000000002'
  const more = ['acquire', 'work:W-2', '--holder', 'ann', '--lease-id', other]
  expect(await exitStatus(more, 'closed')).toBe(0)
  const keys = path.join(directory, 'keys.json')
  for (const [words, effect] of [
    [['renew', 'work:W-1', '--holder', 'ann'], `lease ${leaseId} of work:W-1 was renewed`],
    [
      ['transfer', 'work:W-1', '--holder', 'ann', '--to', 'bob'],
      `lease ${leaseId} was transferred`,
    ],
    [['adopt', 'work:W-1', '--holder', 'bob'], 'of work:W-1 was adopted'],
    [['downgrade', 'work:W-1', '--holder', 'bob'], 'of work:W-1 is shared'],
    [['upgrade', 'work:W-1', '--holder', 'bob'], 'of work:W-1 is exclusive'],
    [['release', 'work:W-1', '--holder', 'bob'], 'of work:W-1 was released'],
    [['revoke', other, '--holder', 'op'], `lease ${other} was revoked`],
    [['release-all', 'ann', '--holder', 'op'], '0 leases of ann ended'],
    [['config', 'set', 'max_renewals', '5'], 'max_renewals is 5'],
    [['cleanup'], '0 leases found expired'],
    [['keys', 'generate', '--keys', keys], `signs from now on (${keys})`],
    [['keys', 'rotate', '--keys', keys], `signs from now on (${keys})`],
    [['ledger', 'seal', '--keys', keys], 'checkpoint 1 over'],
    [['guard', 'init', `sqlite:${keys}.db`], `${keys}.db has the table tenure_fences`],
  ] as const) {
    const { code, stderr } = await withOutput(words, full)
    expect([code, stderr]).toEqual([1, expect.stringContaining(effect)])
    expect(stderr).toMatch(/^tenure: the answer could not be written \(ENOSPC.*\); .*\n$/)
  }
  expect(await exitStatus(['acquire', 'work:W-1', '--holder', 'cyd'], 'closed')).toBe(0)
}, 60_000)

it('an instance that is drained, and settings that are written, are named where the answer does not fit', async () => {
  const full = fs.openSync('/dev/full', 'w')
  onTestFinished(() => fs.closeSync(full))
  const spans = { leaseTtlMs: 6_000, heartbeatTtlMs: 6_000, refreshMs: 500, callMs: 3_000 }
  const url = `sqlite:${path.join(directory, 'leases.db')}`
  const manager = await openLeaseManager(url, { ...spans, name: 'blue' })
  await manager.start()
  try {
    for (const [words, effect] of [
      [['fleet', 'drain', 'blue'], `${manager.instanceId} is empty`],
      [['fleet', 'drain', 'blue', '--undo'], `${manager.instanceId} takes part again`],
      [['init', 'mcp', '--write'], '.mcp.json is made'],
      [['init', 'mcp', '--remove'], '.mcp.json is removed'],
    ] as const) {
      const { code, stderr } = await withOutput(words, full)
      expect([code, stderr]).toEqual([1, expect.stringContaining(effect)])
      expect(stderr).toMatch(/^tenure: the answer could not be written \(ENOSPC.*\); .*\n$/)
    }
  } finally {
    await manager.stop()
  }
}, 60_000)

const REFUSED = ['acquire', 'work:W-1', '--ttl', '0']

it('a refusal that nobody reads is still a refusal', async () => {
  expect(await exitStatus(REFUSED, 'closed')).toBe(2)
  expect(await exitStatus(['acquire', 'work:W-1', '--holder', 'ann'], 'closed')).toBe(0)
  expect(await exitStatus(['acquire', 'work:W-1', '--holder', 'bob'], 'closed')).toBe(10)
}, 60_000)

it('a place for messages that cannot be written to ends no command in a loop', async () => {
  const full = fs.openSync('/dev/full', 'w')
  const readOnly = fs.openSync('/dev/null', 'r')
  expect(await exitStatus(REFUSED, full)).toBe(2)
  expect(await exitStatus(REFUSED, readOnly)).toBe(2)
  fs.closeSync(full)
  fs.closeSync(readOnly)
}, 60_000)

it('a ledger that was tampered with is found, whether or not anybody reads the answer', async () => {
  const shop = workshop()
  const keys = ['--keys', 'keys.json']
  await shop.json(['keys', 'generate', ...keys])
  await shop.json(['acquire', 'work:a', '--holder', 'ada', '--ttl', '1h'])
  await shop.json(['ledger', 'seal', ...keys])
  const file = path.join(`${shop.storeFile}.ledger`, 'checkpoints.ndjson')
  const { keyId: _keyId, ...sealed } = JSON.parse(fs.readFileSync(file, 'utf8')) as {
    keyId: string
  }
  const lie = '1 event are as they were sealed\u061c\u200b'
  fs.writeFileSync(file, `${JSON.stringify({ ...sealed, keyId: `\u001b[2K\u009b1G${lie}` })}\n`)
  const { process: unread } = shop.start(['ledger', 'verify', ...keys])
  unread.stdout?.destroy()
  const [code] = (await once(unread, 'close')) as [number | null]
  expect(code).toBe(1)
  for (const more of [[], ['--json']]) {
    const found = await shop.tenure(['ledger', 'verify', ...keys, ...more])
    expect(found.code).toBe(1)
    expect(found.stdout).toContain('\\u001b[2K\\u009b1G1 event are')
    expect(found.stdout).toContain('sealed\\u061c\\u200b')
  }
}, 60_000)
