import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readReach, readResourceArgument } from '../../src/cli/resource-argument.ts'

let scratch: string

beforeEach(() => {
  scratch = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-test-')))
})

afterEach(() => fs.rmSync(scratch, { recursive: true, force: true }))

describe('a resource on the command line', () => {
  it('is a file when it is a bare path, from the working directory or absolute', () => {
    expect(readResourceArgument('a.ts', scratch)).toBe(`file:${scratch}/a.ts`)
    expect(readResourceArgument('./x/../a.ts', scratch)).toBe(`file:${scratch}/a.ts`)
    expect(readResourceArgument('src/', scratch)).toBe(`file:${scratch}/src`)
    expect(readResourceArgument(`${scratch}/a.ts`, '/')).toBe(`file:${scratch}/a.ts`)
    expect(readResourceArgument(`file:${scratch}/a.ts`, '/')).toBe(`file:${scratch}/a.ts`)
  })

  it('is kind:name when a colon comes before any slash', () => {
    expect(readResourceArgument('work:W-17', scratch)).toBe('work:W-17')
    expect(readResourceArgument('work:a/b', scratch)).toBe('work:a/b')
    expect(readResourceArgument('./odd:name', scratch)).toBe(`file:${scratch}/odd:name`)
  })

  it('covers what is below it when a path ends with a slash', () => {
    const tree = { resource: `file:${scratch}/src`, extent: 'subtree' }
    expect(readReach('src/', scratch)).toEqual(tree)
    expect(readReach(`file:${scratch}/src/`, '/')).toEqual(tree)
    expect(readReach('src', scratch)).toEqual({ ...tree, extent: 'exact' })
    expect(readReach('work:a/', scratch)).toEqual({ resource: 'work:a/', extent: 'exact' })
  })

  it('is the same file through a symbolic link', () => {
    fs.mkdirSync(path.join(scratch, 'real'))
    fs.symlinkSync('real', path.join(scratch, 'link'))
    expect(readResourceArgument('link/new.ts', scratch)).toBe(`file:${scratch}/real/new.ts`)
  })

  it.each([
    ['', 'resource must be kind:name or a path, got ""'],
    ['Work:1', 'resource kind must match [a-z][a-z0-9-]{0,31}, got "Work"'],
    [':x', 'resource kind must match [a-z][a-z0-9-]{0,31}, got ""'],
    ['work:', 'resource name must be 1..1024 bytes, got ""'],
    [
      'file:relative',
      'resource file name must be an absolute path (path.resolve makes it one; on the command line, write it without file:), got "relative"',
    ],
    ['file:/../x', 'resource file name must not climb above the root, got "/../x"'],
    [`${'../'.repeat(40)}x`, 'resource file name must not climb above the root'],
    [`work:${'x'.repeat(1025)}`, 'resource name must be 1..1024 bytes, got "1025 bytes"'],
    ['a\u0000b', 'resource must not contain control characters, got '],
    ['a\ufffdb', 'resource must be valid UTF-8, got '],
  ])('%.40j is refused: %s', (text, message) => {
    expect(() => readResourceArgument(text, scratch)).toThrow(message)
  })
})
