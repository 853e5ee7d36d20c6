/** What is written from the descriptions of the library's options is up to date. */
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { DOCS_FILE, OPTIONS_FILE, optionsSource, withTables } from '../../scripts/protocol.mjs'
import {
  LIBRARY_OPTIONS,
  OPTION_SHAPES,
  SENT_OPTIONS,
  type OptionShapeName,
} from '../../src/protocol/library.ts'
import { REQUESTS } from '../../src/protocol/requests.ts'
import { sentenceOf, type Field as FieldOf } from '../../src/protocol/shape.ts'

type Field = FieldOf<unknown, boolean>

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

it('what is counted in milliseconds says so by its name', () => {
  const named = Object.values(LIBRARY_OPTIONS).flatMap(({ fields }) =>
    Object.entries<Field>(fields),
  )
  const spans = named.filter(([, { shape }]) => shape.unit === 'ms').map(([name]) => name)
  expect(spans).toEqual(named.map(([name]) => name).filter((name) => name.endsWith('Ms')))
})

it.each([
  ['TryAcquireOptions', ['waitMs', 'signal', 'breakGraceMs']],
  ['AcquireAllOptions', ['mode', 'extent', 'slots', 'leaseId', 'scope', 'budget']],
] as const)('%s are those of an acquire, but for %j', (name, left) => {
  const namesOf = (options: OptionShapeName): readonly string[] => {
    return Object.keys(OPTION_SHAPES.get(options)?.fields ?? {})
  }
  const others = namesOf('AcquireOptions').filter((option) => !left.some((one) => one === option))
  expect(namesOf(name)).toEqual(others)
  expect(() => OPTION_SHAPES.get(name)?.read({ [left[0]]: 1 }, 'options')).toThrow(
    `options must be among ${others.join(', ')}, got "${left[0]}"`,
  )
})

it('what a client sends on as it is are fields of the request, and neither the wait nor the leases it is under', () => {
  const fields = Object.keys(REQUESTS.acquire.fields)
  const shared = Object.keys(LIBRARY_OPTIONS.AcquireOptions.fields).filter((name) => {
    return fields.includes(name) && name !== 'waitMs' && name !== 'under'
  })
  expect(SENT_OPTIONS.toSorted()).toEqual(shared.toSorted())
})

it('what must be named and can be anything is asked for by its name', () => {
  expect(() => OPTION_SHAPES.get('Wanted')?.read({ mode: 'shared' }, 'wanted')).toThrow(
    'resource must be given, got undefined',
  )
})
