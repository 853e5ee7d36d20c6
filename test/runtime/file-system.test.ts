import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { canonicalPath } from '../../src/runtime/file-system.ts'

let root: string

beforeEach(() => {
  root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-path-')))
  fs.mkdirSync(path.join(root, 'real'))
  fs.symlinkSync('real', path.join(root, 'link'))
})

afterEach(() => {
  fs.rmSync(root, { recursive: true })
})

it('two spellings of one file are one name, whether or not the file exists', () => {
  const name = path.join(root, 'real', 'a.ts')
  expect(canonicalPath(path.join(root, 'link', 'a.ts'))).toBe(name)
  fs.writeFileSync(name, '')
  expect(canonicalPath(path.join(root, 'link', 'a.ts'))).toBe(name)
})

it('what does not exist keeps its spelling below the deepest directory that does', () => {
  expect(canonicalPath(path.join(root, 'link', 'new', 'b.ts'))).toBe(
    path.join(root, 'real', 'new', 'b.ts'),
  )
})

it('a link to a file that does not exist yet names that file before and after its making', () => {
  fs.symlinkSync(path.join('link', 'later.ts'), path.join(root, 'dangling'))
  const name = path.join(root, 'real', 'later.ts')
  expect(canonicalPath(path.join(root, 'dangling'))).toBe(name)
  fs.writeFileSync(name, '')
  expect(canonicalPath(path.join(root, 'dangling'))).toBe(name)
})

it('a link that goes up goes up from where it is, and not from where its spelling is', () => {
  fs.mkdirSync(path.join(root, 'real', 'deep'))
  fs.symlinkSync(path.join('real', 'deep'), path.join(root, 'short'))
  fs.symlinkSync(path.join('..', 'later.ts'), path.join(root, 'real', 'deep', 'up'))
  fs.symlinkSync('short/../later.ts/', path.join(root, 'down'))
  fs.symlinkSync('missing/../short/up', path.join(root, 'back'))
  const name = path.join(root, 'real', 'later.ts')
  const spellings = ['short/up', 'real/deep/up', 'down', 'back'].map((each) =>
    path.join(root, each),
  )
  expect(spellings.map(canonicalPath)).toEqual([name, name, name, name])
  fs.writeFileSync(path.join(root, 'short', 'up'), '')
  expect(spellings.slice(0, 2).map(canonicalPath)).toEqual([name, name])
})

it('a slash at the end leads on through a link to a directory that does not exist yet', () => {
  fs.symlinkSync(path.join('link', 'later'), path.join(root, 'dangling'))
  expect(canonicalPath(`${path.join(root, 'dangling')}/`)).toBe(path.join(root, 'real', 'later'))
})

it('links that lead in a circle lead nowhere', () => {
  fs.symlinkSync('b', path.join(root, 'a'))
  fs.symlinkSync('a', path.join(root, 'b'))
  expect(() => canonicalPath(path.join(root, 'a'))).toThrow('ELOOP')
})
