/**
 * Writes what follows from the descriptions of the library's options (`src/protocol/library.ts`): the interfaces of
 * `src/client/options.ts`, so that an editor shows each option with its sentence, and the tables of docs/library.md.
 * A test compares both with what this would write.
 */
import fs from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'

/**
 * @typedef {import('../src/protocol/shape.ts').Field<unknown, boolean>} Field
 * @typedef {Readonly<Record<string, { readonly says: string, readonly fields: Readonly<Record<string, Field>> }>>} Options
 * @typedef {(field: Field) => string} Sentence
 */

export const OPTIONS_FILE = 'src/client/options.ts'
export const DOCS_FILE = 'docs/library.md'
const WIDTH_MAX = 116

const HEADER = [
  '/**',
  " * The options of the library's methods. Written by `npm run protocol` from src/protocol/library.ts: change them there.",
  ' */',
  "import type { Budget } from '../core/budget.ts'",
  "import type { LeaseEventType } from '../core/event.ts'",
  "import type { EntryState, LeaseId, Metadata, ReleaseReason } from '../core/lease.ts'",
  "import type { Extent, Mode } from '../core/resource.ts'",
  "import type { Scope } from '../core/scope.ts'",
  "import type { Position } from '../service/lease-api.ts'",
  "import type { Lease } from './contract.ts'",
  '',
].join('\n')

/**
 * The source of the interfaces.
 * @param {Options} options
 * @param {Sentence} sentenceOf
 */
export function optionsSource(options, sentenceOf) {
  const interfaces = Object.entries(options).map(([name, { says, fields }]) => {
    const members = Object.entries(fields).flatMap(([field, described]) => {
      const { type } = described.shape
      if (type === undefined) throw new Error(`${name}.${field} must have the name of a type`)
      const mark = described.isOptional ? '?' : ''
      return [...comment(sentenceOf(described), '  '), `  readonly ${field}${mark}: ${type}`]
    })
    return [...comment(says, ''), `export interface ${name} {`, ...members, '}', ''].join('\n')
  })
  return [HEADER, ...interfaces].join('\n')
}

/**
 * A comment of one line, or of several where one is too long.
 * @param {string} text
 * @param {string} indent
 */
function comment(text, indent) {
  if (indent.length + text.length + 7 <= WIDTH_MAX) return [`${indent}/** ${text} */`]
  /** @type {string[]} */
  const lines = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + 4 + line.length + word.length > WIDTH_MAX) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [`${indent}/**`, ...[...lines, line].map((each) => `${indent} * ${each}`), `${indent} */`]
}

/**
 * The page with the tables of these options in place of those it has.
 * @param {string} page
 * @param {Options} options
 * @param {Sentence} sentenceOf
 */
export function withTables(page, options, sentenceOf) {
  return Object.entries(options).reduce((text, [name, { says, fields }]) => {
    const heading = `### \`${name}\`\n`
    const start = text.indexOf(heading)
    if (start < 0) throw new Error(`${DOCS_FILE} must have a section ${heading.trim()}`)
    const next = text.indexOf('\n### ', start + 1)
    const end = next < 0 ? text.length : next + 1
    const rows = Object.entries(fields).map(([field, described]) => {
      return `| \`${field}\` | ${sentenceOf(described)} |`
    })
    const table = ['| name | meaning |', '| --- | --- |', ...rows].join('\n')
    const last = end === text.length ? '' : '\n'
    return `${text.slice(0, start)}${heading}\n${says}\n\n${table}\n${last}${text.slice(end)}`
  }, page)
}

/** Writes both files, from the build. */
async function write() {
  const root = fileURLToPath(new URL('../', import.meta.url))
  const load = (/** @type {string} */ name) =>
    import(new URL(`../dist/protocol/${name}.js`, import.meta.url).href)
  const { LIBRARY_OPTIONS } = await load('library')
  const { sentenceOf } = await load('shape')
  fs.writeFileSync(path.join(root, OPTIONS_FILE), optionsSource(LIBRARY_OPTIONS, sentenceOf))
  const docs = path.join(root, DOCS_FILE)
  fs.writeFileSync(docs, withTables(fs.readFileSync(docs, 'utf8'), LIBRARY_OPTIONS, sentenceOf))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await write()
