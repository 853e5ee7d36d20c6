/** The exit status is the contract: it does not depend on whether anybody reads what the command has to say. */
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'

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
