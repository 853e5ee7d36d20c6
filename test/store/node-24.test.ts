import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { provideNode24 } from '../../scripts/node-24.mjs'

const run = promisify(execFile)
const ROOT = path.resolve(import.meta.dirname, '../..')

/** A copy of what was compiled, elsewhere: no package that is installed here is found from there. */
let folder: string
let node: string

function copy(part: string): void {
  const filter = (file: string): boolean => !/\.(map|d\.ts)$/.test(file)
  const to = path.join(folder, part)
  fs.cpSync(path.join(ROOT, 'dist-dev', part), to, { recursive: true, filter })
}

beforeAll(async () => {
  node = await provideNode24()
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-node-24-'))
  copy('src')
  copy('test/store/node-24-main.js')
  copy('test/store/sqlite-subject.js')
  fs.copyFileSync(path.join(ROOT, 'package.json'), path.join(folder, 'package.json'))
})

afterAll(() => {
  fs.rmSync(folder, { recursive: true, force: true })
})

it('with the SQLite of Node 24 and no other driver every promise of a store is kept', async () => {
  const args = ['--test', '--test-reporter=tap', path.join(folder, 'test/store/node-24-main.js')]
  const ended = run(node, args, { maxBuffer: 64 * 1024 * 1024 })
  const { stdout, stderr } = await ended.catch(
    (failure: { stdout: string; stderr: string }) => failure,
  )
  expect(stdout.match(/^ *not ok .*$/gm) ?? []).toEqual([])
  expect(stderr).toBe('')
  expect(stdout).toMatch(/^# fail 0$/m)
  expect(stdout).toMatch(/^# skipped 0$/m)
  expect(Number(/^# pass (\d+)$/m.exec(stdout)?.[1])).toBeGreaterThan(100)
})

it('the commands need nothing but Node 24, and print no warning', async () => {
  const tenure = (...args: readonly string[]): ReturnType<typeof run> => {
    const store = `sqlite:${path.join(folder, 'leases.db')}`
    return run(node, [path.join(folder, 'src/cli/main.js'), ...args, '--store', store])
  }
  const acquired = await tenure('acquire', 'work:w', '--holder', 'a')
  expect(acquired.stderr).toBe('')
  expect((await tenure('ls')).stdout).toContain('work:w')
  const { stdout, stderr } = await tenure('doctor')
  expect(stdout).toContain('node:sqlite loads')
  expect(stderr).toBe('')
})
