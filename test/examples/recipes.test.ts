/**
 * The examples of docs/recipes run as a reader would run them: as processes, on SQLite without an argument and on the
 * servers by TENURE_STORE, with this Node and with a later one, which brings a SQLite of its own.
 */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { provideNode24 } from '../../scripts/node-24.mjs'
import { MAIN, startProgram, type Ended, type Running } from '../cli/tenure-process.ts'
import { freshStoreOf } from '../servers/every-store.ts'
import { ROOT, temporaryPlace } from './packed-project.ts'

const NODE_24 = 'Node 24'
const PROGRAMS = { 'this Node': process.execPath, [NODE_24]: await provideNode24() }
const NODES = ['this Node', NODE_24] as const

/** Starts examples in a directory of their own, with one Node on one store; null: on the one they choose themselves. */
class Stage {
  readonly directory: string
  readonly node: string
  readonly #url: string | null

  constructor(node: (typeof NODES)[number], url: string | null) {
    const { directory, remove } = temporaryPlace()
    onTestFinished(remove)
    this.directory = directory
    this.node = PROGRAMS[node]
    this.#url = url
  }

  example(file: string, ...more: readonly string[]): Running {
    const args = more.length === 0 ? [] : [this.#url ?? 'sqlite:leases.db', ...more]
    return this.start([this.node, path.join(ROOT, 'examples', file), ...args])
  }

  /** A script that finds `tenure` on its path; without a store it would take the user's own. */
  script(file: string, ...args: readonly string[]): Running {
    const tool = path.join(this.directory, 'tenure')
    fs.writeFileSync(tool, `#!/bin/sh\nexec "${this.node}" "${MAIN}" "$@"\n`, { mode: 0o755 })
    const env = { PATH: `${this.directory}:${process.env['PATH'] ?? ''}` }
    const command = [path.join(ROOT, 'examples', file), ...args]
    return this.start(command, { TENURE_STORE: 'sqlite:leases.db', ...env })
  }

  start(command: readonly string[], more: Readonly<Record<string, string>> = {}): Running {
    const env = { ...more, ...(this.#url === null ? {} : { TENURE_STORE: this.#url }) }
    const started = startProgram(command, { cwd: this.directory, env })
    onTestFinished(() => void started.process.kill('SIGKILL'))
    return started
  }
}

/** The lines of programs that must have ended well. */
async function linesOf(...programs: readonly Running[]): Promise<readonly string[]> {
  const ended = await Promise.all(programs.map((program) => program.ended))
  expect(ended.map(({ code, stderr }) => ({ code, stderr }))).toEqual(
    ended.map(() => ({ code: 0, stderr: '' })),
  )
  return ended.flatMap(({ stdout }: Ended) => stdout.trimEnd().split('\n'))
}

type Recipe = (stage: Stage) => Promise<void>

const handlers: Recipe = async (stage) => {
  const lines = await linesOf(stage.example('handlers.mjs'))
  expect(lines).toEqual(['sold out', 'sold, 0 left', 'sold, 1 left'])
}

const cron: Recipe = async (stage) => {
  const tick = (n: number): Running => stage.example('cron.mjs', String(n))
  const first = await linesOf(tick(100), tick(100))
  expect(first.filter((line) => line === 'report of tick 100')).toHaveLength(1)
  expect(first.filter((line) => line.startsWith('skipped: '))).toHaveLength(1)
  expect(await linesOf(tick(103))).toEqual([101, 102, 103].map((n) => `report of tick ${n}`))
}

const leader: Recipe = async (stage) => {
  const first = stage.example('leader.mjs', 'first')
  await first.says('first leads')
  const second = stage.example('leader.mjs', 'second')
  first.process.kill('SIGTERM')
  expect((await linesOf(first)).slice(-2)).toEqual(['first steps down', 'first stopped'])
  await second.says('second leads')
  const standby = stage.example('leader.mjs', 'standby')
  await standby.says('standby is ready')
  standby.process.kill('SIGTERM')
  expect(await linesOf(standby)).toEqual(['standby is ready', 'standby stopped'])
  second.process.kill('SIGTERM')
  expect((await linesOf(second)).slice(-2)).toEqual(['second steps down', 'second stopped'])
}

const pool: Recipe = async (stage) => {
  const lines = await linesOf(stage.example('pool.mjs'))
  // On a machine that is busy with something else they may be fewer at once.
  const few = [/^8 pages, [1-3] at once$/, /^[0-3] of 8 had a free slot$/]
  expect(lines).toEqual(few.map((line) => expect.stringMatching(line)))
}

const longJob: Recipe = async (stage) => {
  expect(await linesOf(stage.example('long-job.mjs'))).toEqual([
    'importer is busy with: the import of May',
    'stopped at 2 by operator: not now',
    'done: 5 of 5',
  ])
}

const configFile: Recipe = async (stage) => {
  expect(await linesOf(stage.example('config-file.mjs'))).toEqual(['workers: 3'])
}

const migration: Recipe = async (stage) => {
  const instances = ['one', 'two', 'three']
  const lines = await linesOf(...instances.map((name) => stage.example('migrate.mjs', name)))
  const starts = lines.filter((line) => line.endsWith('starts with 2 migrations'))
  expect(starts).toEqual(instances.map((name) => `${name} starts with 2 migrations`))
  const steps = lines.filter((line) => !starts.includes(line)).map((line) => line.split(': ')[1])
  expect(steps).toEqual(['create orders', 'add a column'])
}

const shutdown: Recipe = async (stage) => {
  const program = stage.example('shutdown.mjs')
  await program.says('finished')
  program.process.kill('SIGTERM')
  const lines = await linesOf(program)
  expect(lines.at(-1)).toBe('nothing is left')
  const jobs = (word: string): readonly string[] => {
    return lines.filter((line) => line.endsWith(` ${word}`)).map((line) => line.split(' ')[0] ?? '')
  }
  expect(jobs('finished')).toEqual(jobs('began'))
}

const backup: Recipe = async (stage) => {
  const lines = await linesOf(stage.script('backup.sh'))
  expect(lines).toEqual([expect.stringMatching(/^dumping, fence \d{16}$/), 'copying', 'copied'])
}

/** Those that are about several hosts, and two of them that show most of what a store does. */
const SHARED = [handlers, cron, leader, pool, migration]
const BRIEF = [handlers, leader]
const ALL = [...SHARED, longJob, configFile, shutdown, backup]

/** Every recipe with both versions of Node, and those for several hosts on both servers. */
const RUNS = [
  ['this Node', 'sqlite', ALL],
  ['this Node', 'postgres', SHARED],
  ['this Node', 'redis', SHARED],
  [NODE_24, 'sqlite', ALL],
  [NODE_24, 'redis', BRIEF],
  [NODE_24, 'postgres', BRIEF],
] as const

it.each(RUNS)('the recipes do with %s on %s what they say', async (node, kind, recipes) => {
  const url = kind === 'sqlite' ? null : await freshStoreOf(kind)
  await Promise.all(recipes.map((recipe) => recipe(new Stage(node, url))))
})

it.each(NODES)('the tests of the recipe pass with %s', async (node) => {
  const stage = new Stage(node, null)
  const file = path.join(ROOT, 'examples/testing.test.mjs')
  const { code, stdout } = await stage.start([stage.node, '--test', file]).ended
  expect(stdout).toMatch(/^(#|ℹ) pass 3$/m)
  expect(code).toBe(0)
})

it('a script that is ended gives back what it held, and another that comes meanwhile leaves', async () => {
  const stage = new Stage('this Node', null)
  const first = stage.script('backup.sh', '1000')
  await first.says('copying')
  const { code, stderr } = await stage.script('backup.sh').ended
  expect(code).toBe(0)
  expect(stderr).toMatch(/^tenure: backup:disk is held by "backup-\d+" \("copying"\)/)
  first.process.kill('SIGTERM')
  expect((await first.ended).code).toBe(143)
  expect((await linesOf(stage.script('backup.sh'))).at(-1)).toBe('copied')
})

const FOLDER = path.join(ROOT, 'docs/recipes')
const PAGES = fs
  .readdirSync(FOLDER)
  .filter((name) => name !== 'README.md')
  .map((name) => {
    const page = fs.readFileSync(path.join(FOLDER, name), 'utf8')
    const [, file = ''] = /\(\.\.\/\.\.\/(examples\/[a-z.-]+)\)/.exec(page) ?? []
    return { name, page, example: fs.readFileSync(path.join(ROOT, file), 'utf8') }
  })

describe.each(PAGES)('$name', ({ name, page, example }) => {
  it('has an example of less than 40 lines', () => {
    expect(example.trimEnd().split('\n').length).toBeLessThan(40)
  })

  it('shows what is in the example', () => {
    const plain = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()
    const shown = [...page.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, code = '']) =>
      plain(code),
    )
    expect(shown.filter((code) => !plain(example).includes(code))).toEqual([])
  })

  it('is in the list of all', () => {
    expect(fs.readFileSync(path.join(FOLDER, 'README.md'), 'utf8')).toContain(`](${name})`)
  })
})
