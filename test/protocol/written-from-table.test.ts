/** What is written from the descriptions is up to date, and nothing of it is written by hand. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { DOCS_FILE, OPTIONS_FILE } from '../../scripts/protocol.mjs'
import { LIBRARY_OPTIONS } from '../../src/protocol/library.ts'
import { sentenceOf } from '../../src/protocol/shape.ts'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../../', import.meta.url))

function read(file: string): string {
  return fs.readFileSync(path.join(ROOT, file), 'utf8')
}

describe('an editor', () => {
  it('shows every option of acquire by its name, with its sentence', () => {
    const contract = read('dist/client/contract.d.ts')
    expect(contract).toMatch(
      /acquire\(resource: string, options\?: AcquireOptions\): Promise<Lease>/,
    )
    const types = read('dist/client/options.d.ts')
    const body = /export interface AcquireOptions \{\n([\s\S]*?)\n\}/.exec(types)?.[1] ?? ''
    const members = [...body.matchAll(/\/\*\*([\s\S]*?)\*\/\s+readonly (\w+)\?: /g)]
    const shown = members.map(([, text = '', name]) => {
      return [name, text.replaceAll(/\s*\n\s*\* ?/g, ' ').trim()]
    })
    const described = Object.entries(LIBRARY_OPTIONS.AcquireOptions.fields)
    expect(shown).toEqual(described.map(([name, field]) => [name, sentenceOf(field)]))
  })
})

interface Declared {
  readonly name: string
  readonly file: string
}

/** The interfaces that the package exports for what its functions take, each with the file that declares it. */
function exportedOptions(): readonly Declared[] {
  const { exports } = JSON.parse(read('package.json')) as {
    readonly exports: Readonly<Record<string, { readonly types?: string }>>
  }
  const entries = Object.values(exports).flatMap(({ types }) =>
    types === undefined ? [] : [types],
  )
  const declared = entries.flatMap((entry): readonly Declared[] => {
    const text = read(entry)
    const own = [...text.matchAll(/export interface (\w+)/g)].map(([, name = '']) => {
      return { name, file: path.normalize(entry) }
    })
    const others = [...text.matchAll(/export (?:type )?\{([^}]*)\} from '([^']+)'/g)]
    const passedOn = others.flatMap(([, names = '', from = '']) => {
      const file = path.join(path.dirname(entry), from.replace(/\.ts$/, '.d.ts'))
      return names.split(',').map((name) => ({ name: name.replace(/^\s*type /, '').trim(), file }))
    })
    return [...own, ...passedOn]
  })
  return declared.filter(({ name }) => /(Options|Request)$/.test(name))
}

/** The members of an interface, and whether each has a sentence of its own; none of what is no interface. */
function membersOf({ name, file }: Declared): readonly (readonly [string, boolean])[] {
  const body = new RegExp(`interface ${name}\\b[^{]*\\{\n([\\s\\S]*?)\\n\\}`).exec(read(file))?.[1]
  const lines = (body ?? '').split('\n')
  return lines.flatMap((line, index) => {
    const [, member] = /^ {4}(?:readonly )?(\w+)\??[:(]/.exec(line) ?? []
    return member === undefined ? [] : [[member, /\*\/$/.test(lines[index - 1] ?? '')] as const]
  })
}

describe('every option that the package exports', () => {
  const members = exportedOptions().flatMap((declared) => {
    return membersOf(declared).map(([member, isSaid]) => ({ ...declared, member, isSaid }))
  })

  it('has a sentence of its own, which an editor shows', () => {
    const unsaid = members.filter(({ isSaid }) => !isSaid)
    expect(unsaid.map(({ name, member }) => `${name}.${member}`)).toEqual([])
  })

  it('is looked at', () => {
    const found = members.map(({ name, member }) => `${name}.${member}`)
    expect(found).toEqual(
      expect.arrayContaining([
        ...['AcquireOptions.ttlMs', 'OpenOptions.holder', 'LeaseManagerOptions.leaseTtlMs'],
        ...['ClaimOptions.runtime', 'LeaseAcquisitionRequest.agentId', 'ServerOptions.port'],
      ]),
    )
  })
})

/** The sources with one of them changed, and what of them compiles. */
class Copy {
  readonly root: string = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-table-')))

  constructor() {
    fs.cpSync(path.join(ROOT, 'src'), path.join(this.root, 'src'), { recursive: true })
    fs.cpSync(path.join(ROOT, 'scripts'), path.join(this.root, 'scripts'), { recursive: true })
    fs.mkdirSync(path.join(this.root, 'docs'))
    for (const file of ['tsconfig.base.json', 'package.json', DOCS_FILE]) {
      fs.copyFileSync(path.join(ROOT, file), path.join(this.root, file))
    }
    fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(this.root, 'node_modules'), 'dir')
    onTestFinished(() => fs.rmSync(this.root, { recursive: true, force: true }))
  }

  change(file: string, from: string | RegExp, to: string): void {
    const place = path.join(this.root, file)
    const before = fs.readFileSync(place, 'utf8')
    const after = before.replace(from, to)
    expect(after).not.toBe(before)
    fs.writeFileSync(place, after)
  }

  read(file: string): string {
    return fs.readFileSync(path.join(this.root, file), 'utf8')
  }

  async run(...args: readonly string[]): Promise<string> {
    const done = run(process.execPath, args, { cwd: this.root })
    return done.then(
      ({ stdout }) => stdout,
      ({ stdout, stderr }: { stdout: string; stderr: string }) => `${stdout}${stderr}`,
    )
  }

  build(project: string): Promise<string> {
    return this.run(path.join(ROOT, 'node_modules/typescript/bin/tsc'), '-b', project)
  }
}

const LOCK_DELAY = /^ {2}lockDelayMs: optional\([\s\S]*?^ {2}\),\n/m

describe('the table', () => {
  it('gives one field more to types, reader, schema, docs, command line and help', async () => {
    const copy = new Copy()
    copy.change(
      'src/protocol/changes.ts',
      LOCK_DELAY,
      `$&  demoMs: optional(integer(1, 9, 'ms'), 'How long a demonstration takes'),\n`,
    )
    expect(await copy.build('src/protocol')).toBe('')
    expect(await copy.run('scripts/protocol.mjs')).toBe('')
    expect(await copy.build('src/cli')).toBe('')
    const sentence = 'How long a demonstration takes, 1..9.'
    expect(copy.read(OPTIONS_FILE)).toContain(`/** ${sentence} */\n  readonly demoMs?: number\n`)
    expect(copy.read(DOCS_FILE)).toContain(`| \`demoMs\` | ${sentence} |`)
    expect(await copy.run('dist/cli/main.js', 'acquire', '--help')).toMatch(
      /--demo DURATION +how long a demonstration takes/,
    )
    const asked = ['acquire', 'work:W', '--store', 'memory:', '--demo']
    expect(await copy.run('dist/cli/main.js', ...asked, '10ms')).toContain('demo must be')
    expect(await copy.run('dist/cli/main.js', ...asked, '5ms')).toContain('acquired')
    const schema = `import { schemaOf } from './dist/protocol/json-schema.js'
      console.log(JSON.stringify(schemaOf('acquire').properties.demoMs))`
    expect(await copy.run('--input-type=module', '--eval', schema)).toContain('"maximum":9')
  })

  it('breaks the build of whatever uses a field that it no longer has', async () => {
    const copy = new Copy()
    copy.change('src/protocol/changes.ts', LOCK_DELAY, '')
    const output = await copy.build('src/cli')
    expect(output).toMatch(/src\/service\/commands\.ts.*lockDelayMs/)
  })
})
