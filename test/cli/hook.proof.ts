/** A hook whose client never ends its event: what takes five seconds, and needs a real process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
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
