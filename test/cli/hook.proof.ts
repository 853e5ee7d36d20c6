/** A hook whose client never ends its event: what takes five seconds, and needs a real process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it, onTestFinished } from 'vitest'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { MAIN, workshop } from './tenure-process.ts'

it('tenure hook does not wait for the end of an event that has none', async () => {
  const { directory, storeUrl } = workshop()
  const child = spawn(process.execPath, [MAIN, 'hook', 'claude', '--store', storeUrl], {
    cwd: directory,
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', (text: Buffer) => (stderr += text.toString()))
  const ended = once(child, 'close')
  child.stdin.write('{"session_id":')
  expect((await ended)[0]).toBe(2)
  expect(stderr).toBe('tenure hook: the event did not end within 5000 ms\n')
})

it('tenure hook denies an edit while another process keeps the store locked', async () => {
  const { directory, storeFile, storeUrl } = workshop()
  const Driver = await loadSqlite()
  const database = new Driver(storeFile)
  onTestFinished(() => void database.close())
  database.exec('BEGIN IMMEDIATE')
  const event = {
    ...{ session_id: 's', cwd: directory, hook_event_name: 'PreToolUse', tool_name: 'Edit' },
    tool_input: { file_path: `${directory}/a.ts` },
  }
  const child = spawn(process.execPath, [MAIN, 'hook', 'claude', '--store', storeUrl], {
    cwd: directory,
    env: { ...process.env, XDG_STATE_HOME: directory },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  let stdout = ''
  child.stdout.on('data', (text: Buffer) => (stdout += text.toString()))
  const ended = once(child, 'close')
  child.stdin.end(JSON.stringify(event))
  expect((await ended)[0]).toBe(0)
  expect(stdout).toContain('"permissionDecision":"deny"')
  expect(stdout).toContain('Tenure could not check this edit')
})
