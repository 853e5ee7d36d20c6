import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { readShell } from '../../src/hooks/shell/shell-reading.ts'
import type { ShellContext } from '../../src/hooks/shell/shell-effects.ts'
import { fc } from '../fast-check.ts'
import { SHELL_EXAMPLES } from './shell-commands.ts'

const DIRECTORIES = ['/repo', '/repo/src', '/repo/docs', '/repo/build', '/home/ada']
const PATCH = `--- a/src/a.ts
+++ b/src/a.ts
@@ -1 +1 @@
-x
+y
--- /dev/null
+++ b/src/new.ts
`
const FILES: Readonly<Record<string, string>> = {
  '/repo/src/a.ts': 'a',
  '/repo/src/b.ts': 'b',
  '/repo/fix.patch': PATCH,
}

const CONTEXT: ShellContext = {
  cwd: '/repo',
  variables: { HOME: '/home/ada' },
  isThere: (file) => file in FILES || DIRECTORIES.includes(file),
  isDirectory: (file) => DIRECTORIES.includes(file),
  readText: (file) => FILES[file] ?? null,
  glob: (pattern) => (pattern === '/repo/src/*.ts' ? ['/repo/src/a.ts', '/repo/src/b.ts'] : []),
}

function within(names: readonly string[]): readonly string[] {
  return names.map((name) => path.resolve('/repo', name))
}

describe('the reader of command lines', () => {
  it('has at least two hundred commands to prove itself on', () => {
    expect(SHELL_EXAMPLES.length).toBeGreaterThanOrEqual(200)
  })

  it.each(SHELL_EXAMPLES)('reads $run', (example) => {
    const { writes, checkouts = [], checkoutAt = '.', commits = [], named } = example
    const reading = readShell(example.run, CONTEXT)
    expect(reading.writes).toEqual(within(writes))
    expect(reading.isKnown).toBe(example.isUnknown !== true)
    expect(reading.checkouts).toEqual(
      checkouts.map((command) => ({ command, directory: path.resolve('/repo', checkoutAt) })),
    )
    expect(reading.commits).toEqual(within(commits))
    if (named !== undefined)
      expect(reading.named).toEqual(expect.arrayContaining([...within(named)]))
  })

  it('never throws, whatever it is given', () => {
    const bits = [
      'echo',
      ' ',
      '>',
      '<',
      '<<',
      'EOF',
      '\n',
      '"',
      "'",
      '`',
      '$(',
      ')',
      '(',
      '{',
      '}',
      ';',
    ]
    const more = [
      '&',
      '|',
      '\\',
      '$',
      '[[',
      ']]',
      '((',
      '))',
      '#',
      '*',
      'git',
      'sed -i',
      '\0',
      'é',
      '😀',
    ]
    const text = fc.array(fc.constantFrom(...bits, ...more), { maxLength: 40 })
    fc.assert(
      fc.property(text, (parts) => {
        readShell(parts.join(''), CONTEXT)
      }),
    )
  })

  it('reads a command line of a million characters', () => {
    const long = `echo "${'x'.repeat(1_000_000)}" > src/a.ts`
    expect(readShell(long, CONTEXT).writes).toEqual(['/repo/src/a.ts'])
  })

  it('gives up on shells within shells without end', () => {
    const nested = Array.from({ length: 30 }).reduce<string>((inner) => `echo $(${inner})`, 'rm x')
    expect(readShell(nested, CONTEXT).isKnown).toBe(false)
  })
})
