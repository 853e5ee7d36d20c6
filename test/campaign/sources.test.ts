/** What git says of the sources, in a repository that is made for it. */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { StepResult } from '../../campaign/results.ts'
import { changedSince, commitOf } from '../../campaign/sources.ts'

let root: string

beforeEach(() => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-sources-'))
  for (const name of ['src/a.ts', 'src/b.ts', 'sim/c.ts', 'test/d.ts', 'campaign/results/e.json']) {
    write(name, 'first')
  }
  git('init', '--quiet')
  commit()
})

afterEach(() => {
  fs.rmSync(root, { recursive: true, force: true })
})

function write(name: string, text: string): void {
  fs.mkdirSync(path.dirname(path.join(root, name)), { recursive: true })
  fs.writeFileSync(path.join(root, name), text)
}

function git(...args: readonly string[]): void {
  const who = ['-c', 'user.name=tests', '-c', 'user.email=tests@localhost']
  execFileSync('git', [...who, ...args], { cwd: root, stdio: 'pipe' })
}

function commit(): void {
  git('add', '.')
  git('commit', '--quiet', '--no-gpg-sign', '--message', 'changes')
}

const result = (at: string, tried: string): StepResult => ({
  ...{ step: at, at, commit: tried, seed: 1, minutes: 1, wholeMinutes: 1, seconds: 1 },
  ...{ counts: {}, failures: [], shortfalls: [] },
})

it.each(['src/a.ts', 'sim/c.ts', 'test/d.ts', 'campaign/new.ts'])(
  'a commit has a plus sign when %s was changed since',
  (name) => {
    const clean = commitOf(root)
    expect(clean).toMatch(/^[0-9a-f]{8}$/)
    write('README.md', 'changed')
    write('campaign/results/e.json', 'changed')
    expect(commitOf(root)).toBe(clean)
    write(name, 'changed')
    expect(commitOf(root)).toBe(`${clean}+`)
  },
)

it('the files of src are counted that have changed since the oldest result', () => {
  const first = commitOf(root)
  write('src/a.ts', 'second')
  write('sim/c.ts', 'second')
  commit()
  const second = commitOf(root)
  write('src/b.ts', 'second')
  const since = (...steps: readonly StepResult[]) => changedSince(root, { part: 'chaos', steps })
  const [old, young] = [result('2026-11-18 04:10', `${first}+`), result('2026-11-19 04:10', second)]
  expect(since(young, old)).toBe('2 files')
  expect(since(young)).toBe('1 files')
  expect(since(result('2026-11-17 04:10', '01234567'), young)).toBe('unknown commit')
  expect(since()).toBe('—')
})
