/** The log of `tenure serve` while nothing reads it. */
import { expect, it } from 'vitest'
import { workshop } from '../cli/tenure-process.ts'

const LINE_CHARS = 4_000
/** Several times what is kept for a slow reader, so that a server which waited for it would never answer the last. */
const REQUESTS = 1_000

it('a server whose log is not read goes on answering, and says afterwards how much it left out', async () => {
  const running = workshop().start(['serve', '--listen', '127.0.0.1:0', '--log', 'json'])
  let stdout = ''
  let log = ''
  running.process.stdout?.on('data', (text: Buffer) => (stdout += text.toString()))
  running.process.stderr?.on('data', (text: Buffer) => (log += text.toString()))
  await running.says('\n')
  const url = stdout.trim()
  running.process.stderr?.pause()
  for (let sent = 0; sent < REQUESTS; sent += 1) {
    const answer = await fetch(`${url}/${'x'.repeat(LINE_CHARS)}`)
    await answer.arrayBuffer()
    expect(answer.status).toBe(404)
  }
  running.process.stderr?.resume()
  while (!log.includes('linesLeftOut')) await (await fetch(`${url}/healthz`)).arrayBuffer()
  running.process.kill('SIGTERM')
  expect((await running.ended).code).toBe(0)
  const lines = log
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => JSON.parse(line) as { path?: string; linesLeftOut?: number })
  const kept = lines.filter(({ path }) => path !== undefined && path !== '/healthz')
  const leftOut = lines.reduce((sum, { linesLeftOut = 0 }) => sum + linesLeftOut, 0)
  expect(leftOut).toBeGreaterThan(0)
  expect(kept.length).toBeGreaterThan(0)
  expect(kept.length + leftOut).toBeGreaterThanOrEqual(REQUESTS)
})
