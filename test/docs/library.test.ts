/** docs/library.md names every option and method of the library, and no other; docs/testing.md shows tests that pass. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const TYPES = ['open', 'store-address', 'client/contract', 'client/options', 'core/fenced-lease']
/** Not options: what only the package itself, or one command, deals in. */
const ELSEWHERE = ['Address', 'ImportedLedger', 'ImportOptions', 'EpochRange', 'ModeChange']
const run = promisify(execFile)

function read(file: string): string {
  return fs.readFileSync(path.join(ROOT, file), 'utf8')
}

/** The members of every interface that the built types of a module declare. */
function membersIn(declarations: string): ReadonlyMap<string, ReadonlySet<string>> {
  const interfaces = declarations.matchAll(/^export interface (\w+)[^{]*\{\n([\s\S]*?)^\}/gm)
  return new Map(
    [...interfaces].map(([, name = '', body = '']) => {
      const members = body.matchAll(/^ {4}(?:readonly )?(\w+)\??[(<:]/gm)
      return [name, new Set([...members].map((member) => member[1] ?? ''))]
    }),
  )
}

function declared(): ReadonlyMap<string, ReadonlySet<string>> {
  const all = new Map(TYPES.flatMap((file) => [...membersIn(read(`dist/${file}.d.ts`))]))
  const lease = ['Lease', 'FencedLease'].flatMap((name) => [...(all.get(name) ?? [])])
  all.set('Lease', new Set(lease))
  for (const name of [...ELSEWHERE, 'FencedLease']) all.delete(name)
  return all
}

/** What the page has a table for, and the rows of it. */
function documented(): ReadonlyMap<string, ReadonlySet<string>> {
  const sections = read('docs/library.md').matchAll(/^### `(\w+)`\n([\s\S]*?)(?=^#|$(?![\s\S]))/gm)
  return new Map(
    [...sections].map(([, name = '', text = '']) => {
      const rows = text.matchAll(/^\| `(\w+)` \| \S/gm)
      return [name, new Set([...rows].map((row) => row[1] ?? ''))]
    }),
  )
}

describe('docs/library.md', () => {
  it('has a table for every interface of the library, and for nothing else', () => {
    expect([...documented().keys()].toSorted()).toEqual([...declared().keys()].toSorted())
  })

  it.each([...declared()])('names every member of %s, and no other', (name, members) => {
    expect([...(documented().get(name) ?? [])].toSorted()).toEqual([...members].toSorted())
  })
})

describe('docs/testing.md', () => {
  const blocks = [...read('docs/testing.md').matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(
    (match) => match[1] ?? '',
  )

  /** A directory in which the package and the runner are installed, with a file for each block. */
  function project(runner: 'node:test' | 'vitest'): string {
    const directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-testing-')))
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
    fs.mkdirSync(path.join(directory, 'node_modules'))
    fs.symlinkSync(ROOT, path.join(directory, 'node_modules/tenure'), 'dir')
    const vitest = path.join(ROOT, 'node_modules/vitest')
    fs.symlinkSync(vitest, path.join(directory, 'node_modules/vitest'), 'dir')
    for (const [index, block] of blocks.entries()) {
      const own = block
        .replace("import { mock, test } from 'node:test'", "$&\nimport { test } from 'node:test'")
        .replace('{ mock, test }', '{ mock }')
        .replace("import { test } from 'node:test'", `import { test } from '${runner}'`)
      fs.writeFileSync(path.join(directory, `block-${index}.test.mjs`), own)
    }
    return directory
  }

  /** Nothing of the runner that runs this test. */
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_|TEST$|DEV$|PROD$)/.test(name)),
  )

  it('has tests that pass with node --test', async () => {
    const cwd = project('node:test')
    const { stdout } = await run(process.execPath, ['--test'], { cwd, env })
    expect(stdout).toMatch(new RegExp(`pass ${blocks.length}\\n[\\s\\S]*fail 0`))
  })

  it('has tests that pass with Vitest', async () => {
    const cwd = project('vitest')
    const vitest = path.join(ROOT, 'node_modules/vitest/vitest.mjs')
    const how = ['--reporter', 'json', '--maxWorkers', '1', '--testTimeout', '120000']
    const args = [vitest, 'run', '--root', cwd, ...how]
    const { stdout } = await run(process.execPath, args, { cwd, env })
    const report = { success: true, numPassedTests: blocks.length, numTotalTests: blocks.length }
    expect(JSON.parse(stdout)).toMatchObject(report)
  })
})
