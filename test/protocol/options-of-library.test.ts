/** What is written from the descriptions of the library's options is up to date. */
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { DOCS_FILE, OPTIONS_FILE, optionsSource, withTables } from '../../scripts/protocol.mjs'
import { LIBRARY_OPTIONS } from '../../src/protocol/library.ts'
import { sentenceOf } from '../../src/protocol/shape.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

function read(file: string): string {
  return fs.readFileSync(path.join(ROOT, file), 'utf8')
}

it('npm run protocol would change nothing in the options of the library', () => {
  expect(optionsSource(LIBRARY_OPTIONS, sentenceOf)).toBe(read(OPTIONS_FILE))
})

it('npm run protocol would change nothing in the tables of docs/library.md', () => {
  const page = read(DOCS_FILE)
  expect(withTables(page, LIBRARY_OPTIONS, sentenceOf)).toBe(page)
})
