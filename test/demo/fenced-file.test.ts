import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { FencedFile } from '../../src/demo/fenced-file.ts'

async function openTwice(): Promise<readonly [FencedFile, FencedFile, () => string]> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-test-'))
  const file = path.join(directory, 'notes.md')
  const one = await FencedFile.open(file)
  const two = await FencedFile.open(file)
  onTestFinished(() => {
    one.close()
    two.close()
    fs.rmSync(directory, { recursive: true, force: true })
  })
  return [one, two, () => fs.readFileSync(file, 'utf8')]
}

it('a writer whose fence was overtaken is refused, and its line is not there', async () => {
  const [one, two, content] = await openTwice()
  expect(one.append('first', 10)).toEqual({ kind: 'wrote' })
  expect(two.append('second', 20)).toEqual({ kind: 'wrote' })
  expect(one.append('late', 10)).toEqual({ kind: 'refused', highestFence: 20 })
  expect(content()).toBe('first\nsecond\n')
})

it('a holder may write as often as it likes', async () => {
  const [one, , content] = await openTwice()
  expect(one.append('a', 10)).toEqual({ kind: 'wrote' })
  expect(one.append('b', 10)).toEqual({ kind: 'wrote' })
  expect(content()).toBe('a\nb\n')
})
