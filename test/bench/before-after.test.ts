import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '../..')

it.each([
  ['sqlite', 'pairs'],
  ['redis', 'handles'],
  ['sqlite', 'renewals'],
])('two builds are measured in turns on %s: %s', async (store, work) => {
  const program = path.join(ROOT, 'dist-dev/bench/before-after.js')
  const amounts = ['--ended', '100', '--pairs', '200', '--rounds', '1']
  const what = ['--store', store, '--work', work]
  const builds = ['--before', path.join(ROOT, 'dist'), '--after', path.join(ROOT, 'dist')]
  const { stdout } = await promisify(execFile)(process.execPath, [
    program,
    ...builds,
    ...amounts,
    ...what,
  ])
  const { before, after, ratio } = JSON.parse(stdout) as Record<'before' | 'after', object> & {
    readonly ratio: number
  }
  const figures = { microseconds: expect.any(Number), processorMicroseconds: expect.any(Number) }
  expect([before, after]).toEqual([
    expect.objectContaining(figures),
    expect.objectContaining(figures),
  ])
  expect(ratio).toBeGreaterThan(0)
})
