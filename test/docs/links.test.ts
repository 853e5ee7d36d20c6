/** Every relative link in the documentation leads somewhere, and every command that it names exists. */
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { COMMANDS } from '../../src/cli/command-list.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const SKIPPED = new Set(['node_modules', 'dist', 'dist-dev', 'coverage', '.git'])

function markdownFiles(directory: string): readonly string[] {
  return fs.readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(directory, entry.name)
    if (entry.isDirectory()) return SKIPPED.has(entry.name) ? [] : markdownFiles(file)
    return entry.name.endsWith('.md') ? [file] : []
  })
}

const FENCED_CODE = /^ {0,3}(```|~~~)[\s\S]*?^ {0,3}\1\s*$/gm

function prose(text: string): string {
  return text.replaceAll(FENCED_CODE, '').replaceAll(/`[^`\n]*`/g, (code) => code.replace('](', ''))
}

function relativeLinks(text: string): readonly string[] {
  const targets = [...prose(text).matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1] ?? '')
  return targets.filter((target) => !/^[a-z]+:/.test(target))
}

/** The anchor that a heading gets: lower case, without punctuation, spaces as hyphens. */
function anchorOf(heading: string): string {
  const plain = heading.toLowerCase().replaceAll(/[^\p{Letter}\p{Number}\s_-]/gu, '')
  return plain.trim().replaceAll(' ', '-')
}

function anchors(file: string): readonly string[] {
  const headings = prose(fs.readFileSync(file, 'utf8')).matchAll(/^#+ (.+)$/gm)
  return [...headings].map((match) => anchorOf(match[1] ?? ''))
}

function problemOf(file: string, target: string): string | null {
  const [name = '', anchor] = target.split('#')
  const goal = name === '' ? file : path.resolve(path.dirname(file), name)
  if (!fs.existsSync(goal)) return `${target} does not exist`
  if (anchor === undefined || anchors(goal).includes(anchor)) return null
  return `${target} has no such heading`
}

const FILES = markdownFiles(ROOT).map((file) => path.relative(ROOT, file))

describe('the documentation', () => {
  it('is where it is looked for', () => {
    expect(FILES).toContain('README.md')
    expect(FILES).toContain(path.join('docs', 'model.md'))
  })

  it.each(FILES)('leads somewhere with every relative link in %s', (name) => {
    const file = path.join(ROOT, name)
    const links = relativeLinks(fs.readFileSync(file, 'utf8'))
    expect(links.map((target) => problemOf(file, target)).filter((line) => line !== null)).toEqual(
      [],
    )
  })

  it.each(FILES)('names only commands of tenure that exist in %s', (name) => {
    const text = fs.readFileSync(path.join(ROOT, name), 'utf8')
    const code = [...text.matchAll(FENCED_CODE), ...text.matchAll(/`[^`\n]+`/g)].map(
      (match) => match[0],
    )
    const calls = code.flatMap((piece) => [...piece.matchAll(/(?:^|`|\$ )tenure ([a-z][a-z-]*)/gm)])
    const named = new Set(calls.map((match) => match[1] ?? ''))
    expect([...named].filter((command) => !Object.hasOwn(COMMANDS, command))).toEqual([])
  })

  it('names in README only scripts of package.json, and npm install', () => {
    const readme = fs.readFileSync(path.join(ROOT, 'README.md'), 'utf8')
    const { scripts } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>
    }
    const named = [...readme.matchAll(/^npm (?:run )?([a-z]+)/gm)].map((match) => match[1] ?? '')
    expect(named).toContain('start')
    const own = named.filter((script) => script !== 'install')
    expect(own.filter((script) => !Object.hasOwn(scripts, script))).toEqual([])
  })

  it('keeps ARCHITECTURE.md under 200 lines', () => {
    const text = fs.readFileSync(path.join(ROOT, 'ARCHITECTURE.md'), 'utf8')
    expect(text.split('\n').length).toBeLessThan(200)
  })
})
