/** Rules of the repository that no other tool checks, as an ordinary test. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const SELF = 'test/repository.test.ts'
const SKIPPED = /^(node_modules|dist(-.*)?|coverage|\.git)$/
const LINES_MAX = 700

/** What each folder of src may import, as the design draws it. `cli`, `demo` and the files beside the folders may all. */
const ARROWS: Readonly<Record<string, readonly string[]>> = {
  core: [],
  dashboard: ['core', 'protocol'],
  protocol: ['core'],
  runtime: [],
  drivers: ['core', 'runtime'],
  'store-port': ['core'],
  store: ['core', 'drivers', 'runtime', 'store-port'],
  registrar: ['core'],
  ledger: ['core', 'registrar', 'store-port'],
  service: ['core', 'protocol', 'runtime', 'store-port'],
  client: ['core', 'protocol', 'runtime', 'service'],
  files: ['client', 'core', 'runtime', 'service'],
  delegation: ['client', 'core', 'ledger', 'registrar', 'runtime', 'service'],
  fleet: ['client', 'core', 'drivers', 'runtime', 'service'],
  guard: ['core', 'drivers', 'runtime'],
  workflow: ['client', 'core', 'drivers', 'guard', 'registrar', 'runtime', 'service'],
  mcp: ['client', 'core', 'protocol', 'runtime', 'service'],
  server: [
    'client',
    'core',
    'delegation',
    'fleet',
    'git',
    'mcp',
    'protocol',
    'registrar',
    'runtime',
    'service',
  ],
  'http-client': ['core', 'protocol', 'runtime', 'service'],
  hooks: ['core', 'runtime', 'service'],
  git: ['core', 'runtime'],
  testing: ['core', 'runtime', 'store', 'store-port'],
}
const ROOTS: readonly string[] = ['cli', 'demo']

interface SourceFile {
  /** From the root of the repository, with `/`. */
  readonly name: string
  readonly text: string
}

function filesBelow(directory: string): readonly SourceFile[] {
  return fs.readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(directory, entry.name)
    if (entry.isDirectory()) return SKIPPED.test(entry.name) ? [] : filesBelow(file)
    if (!/\.(tsx?|mjs|html|json|md|sql|yml|sh)$/.test(entry.name)) return []
    const name = path.relative(ROOT, file).replaceAll(path.sep, '/')
    return [{ name, text: fs.readFileSync(file, 'utf8') }]
  })
}

const FILES = filesBelow(ROOT).filter(({ name }) => path.basename(name) !== 'package-lock.json')
const CODE = FILES.filter(({ name }) => /\.(tsx?|mjs)$/.test(name))
const SOURCES = CODE.filter(({ name }) => name.startsWith('src/'))

function namesOf(files: readonly SourceFile[]): readonly string[] {
  return files.map(({ name }) => name)
}

/** Without comments, so that a rule about code is not about words. */
function codeOf({ text }: SourceFile): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '')
}

function filesWith(pattern: RegExp, files: readonly SourceFile[]): readonly string[] {
  return namesOf(files.filter((file) => file.name !== SELF && pattern.test(codeOf(file))))
}

describe('every file', () => {
  it('is found: the rules below are about something', () => {
    expect(SOURCES.length).toBeGreaterThan(50)
    expect(namesOf(FILES)).toContain(SELF)
  })

  it(`has at most ${LINES_MAX} lines of code`, () => {
    const long = CODE.filter(({ text }) => text.trimEnd().split('\n').length > LINES_MAX)
    expect(namesOf(long)).toEqual([])
  })

  it('names no path of the machine it was written on', () => {
    const home = `${os.homedir()}/`
    const machine = [ROOT.replace(/\/$/, ''), ...(home.length > 4 ? [home] : [])]
    const found = FILES.filter(({ text }) => machine.some((place) => text.includes(place)))
    expect(namesOf(found)).toEqual([])
  })

  it('has nothing left to do and leaves no test out', () => {
    const unfinished = /\b(TODO|FIXME|XXX|HACK)\b/
    const found = CODE.filter(({ name, text }) => name !== SELF && unfinished.test(text))
    expect(namesOf(found)).toEqual([])
    expect(filesWith(/\b(it|test|describe)\.(only|skip|todo)\(/, CODE)).toEqual([])
  })

  it('is named for what it is, in kebab case', () => {
    const vague = /(^|\/)(utils?|helpers?|types|common|misc|lib)\.[a-z]+$/
    const kebab = /^[a-z0-9]+(-[a-z0-9]+)*(\.(test|proof|config|d))*\.(tsx?|mjs)$/
    const bad = CODE.filter(({ name }) => vague.test(name) || !kebab.test(path.basename(name)))
    expect(namesOf(bad)).toEqual([])
  })
})

describe('the sources', () => {
  it('of core, stores, client and simulator each begin by saying what they are', () => {
    const headed = CODE.filter(({ name }) => /^(src\/(core|store|client)|sim)\//.test(name))
    expect(headed.length).toBeGreaterThan(30)
    expect(namesOf(headed.filter(({ text }) => !text.startsWith('/**')))).toEqual([])
  })

  it('speak to environment, terminal and exit in cli only, and in the agents of the demo', () => {
    const others = SOURCES.filter(({ name }) => !/^src\/(cli\/|demo\/agent)/.test(name))
    expect(filesWith(/\bprocess\.(env|exit|argv)\b|\bconsole\./, others)).toEqual([])
  })

  it('read JSON from outside where it is checked: protocol, wire, row readers, registrar, ledger, runtime and cli', () => {
    const readers =
      /^src\/(protocol|cli|registrar|ledger|store\/[a-z]+|(workflow|server|dashboard|http-client)\/wire)\/|^src\/runtime\/json-text/
    const others = SOURCES.filter(({ name }) => !readers.test(name))
    expect(filesWith(/\bJSON\.parse\(/, others)).toEqual([])
  })

  it('have no default exports, and no barrels that export everything', () => {
    expect(filesWith(/^export (default|\*) /m, SOURCES)).toEqual([])
  })
})

/**
 * Words that the field has better ones for, and words without a subject: a comment names the holder, the waiter, the store
 * or another process. Identifiers are read as words, too. ARCHITECTURE.md has the glossary.
 */
const COINED =
  /\b(errands?|footprints?|premises?|standby|boarding|hush|ears?|hearts?|unfit|upkeep|insists?|rehears\w*|newcomers?|signs? of life|hold off|let go|letting go|wish\w*|gifts?|circles?|beliefs?|judgements?|judges?|verdicts?)\b/i
const SUBJECTLESS = /\b(whoever|whomever|nobody|somebody|anybody|everybody|those who)\b/i

/** The folders that keep to it. */
const PLAIN = [
  ...[
    'client',
    'core',
    'dashboard',
    'delegation',
    'demo',
    'files',
    'fleet',
    'git',
    'hooks',
    'http-client',
  ],
  ...['ledger', 'mcp', 'protocol', 'registrar', 'runtime', 'service', 'store-port', 'testing'],
  'workflow',
]

/** Names and messages that are public, or stored, and an element of SVG. */
const OLDER_NAMES =
  /MarkDecision as Verdict|LedgerVerdict|\bwished\b|nobody_waiting|used by nobody else|that nobody shares|nobody waits for the resource|those who stand still|<circle/g

describe('the words of the sources', () => {
  const plain = SOURCES.filter(({ name }) => PLAIN.includes(name.split('/')[1] ?? ''))
  const worded = plain.map(({ name, text }) => {
    const words = text.replaceAll(OLDER_NAMES, '').replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    return { name, text: words.replaceAll(/[_-]/g, ' ') }
  })

  it('are those of the field', () => {
    expect(worded.length).toBeGreaterThan(50)
    expect(namesOf(worded.filter(({ text }) => COINED.test(text)))).toEqual([])
  })

  it('name the actor', () => {
    expect(namesOf(worded.filter(({ text }) => SUBJECTLESS.test(text)))).toEqual([])
  })
})

/** Tests that read a clock all the same, and why that cannot fail on a busy machine. */
const CLOCKS: Readonly<Record<string, string>> = {
  'test/campaign/faketime.test.ts': 'a clock is read between two readings of the true one',
  'test/bench/processor-time.test.ts': 'a child spends processor time until it has spent enough',
  'test/fleet/data-loss.test.ts': 'polls of several instances are compared by when they ran',
  'test/cli/fleet.test.ts': 'the longer a look took, the older may be what it shows',
  'test/processes/clocks.test.ts': 'a clock was set by days',
  'test/servers/proxy.test.ts': 'a delay lasts at least as long as it should',
}

describe('the tests', () => {
  const tests = CODE.filter(({ name }) => name.endsWith('.test.ts'))
  /** With what they share; proofs are for a machine that has nothing else to do. */
  const asserting = CODE.filter(({ name }) => /^test\/.*(?<!\.proof)\.ts$/.test(name))

  it('measure no time: who must know how long something took asks ownMs, or is a proof', () => {
    const clock = /\bperformance\.now\(|\bhrtime\b|\bcpuUsage\(|\bDate\.now\(\) -/
    expect(filesWith(clock, tests).filter((name) => !(name in CLOCKS))).toEqual([])
    expect(Object.keys(CLOCKS).filter((name) => !filesWith(clock, tests).includes(name))).toEqual(
      [],
    )
  })

  it('assert a bound only of what they have set themselves, with three times the room', () => {
    const narrow =
      /expect\((tookMs|elapsedMs|spentMs|lateMs|waitedMs|costMs)\)\.toBeLessThan\w*\((?!.*\b3 \*)/
    expect(filesWith(narrow, asserting)).toEqual([])
  })

  it('assert no rate and no median of times', () => {
    const rate = /expect\(.*(perSecond|perCpuSecond|medianWakeMs|median\(|quantile\()/i
    const arithmetic = /^test\/(bench|sim)\//
    expect(filesWith(rate, asserting).filter((name) => !arithmetic.test(name))).toEqual([])
  })
})

const ENTRY_FIELDS = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  readonly bin: unknown
  readonly exports: unknown
}

describe('every source file', () => {
  it('is imported by something, or is what the package offers', () => {
    const pages = FILES.filter(({ name }) => name.endsWith('.html'))
    const used = new Set([...CODE, ...pages].flatMap(importsOf))
    for (const [, file] of JSON.stringify(ENTRY_FIELDS).matchAll(/"(?:\.\/)?dist\/([^"]+)\.js"/g)) {
      used.add(`src/${file}.ts`)
    }
    expect(namesOf(SOURCES).filter((name) => !used.has(name))).toEqual([])
  })

  it('that the package offers exists', () => {
    const offered = [...JSON.stringify(ENTRY_FIELDS).matchAll(/dist\/([^"]+)\.js"/g)]
    expect(offered.length).toBeGreaterThan(2)
    const missing = offered.filter(([, file]) => !namesOf(SOURCES).includes(`src/${file}.ts`))
    expect(missing).toEqual([])
  })
})

/** Names that two files export all the same. A new one is given a name of its own instead. */
const SHARED_NAMES: Readonly<Record<string, readonly string[]>> = {
  'every store has its own': [
    ...['CLOCK_DOMAIN', 'Migration', 'SCHEMA_VERSION'],
    ...['migrate', 'numberOf', 'refuseWhileHeld', 'stateOf', 'typeOf', 'wordOf'],
  ],
  'two subpaths of the package offer it, each in its own sense': [
    ...['Attempt', 'EventRecord', 'Fault', 'Grant', 'Holding', 'Lease', 'LeaseInfo', 'LeaseState'],
    ...['LossReason', 'Moment', 'Role', 'SettingChange', 'Wait', 'parseReleaseReason'],
  ],
  'not told apart yet': [
    ...['Asked', 'Fields', 'LedgerStanding', 'LiveIndex', 'Mark', 'Place', 'Route'],
    ...['pause', 'plural'],
  ],
}

function exportsOf(file: SourceFile): readonly string[] {
  const declared = /^export (?:async )?(?:const|function\*?|class|interface|type) (\w+)/gm
  return [...codeOf(file).matchAll(declared)].map(([, name = '']) => name)
}

describe('an exported name', () => {
  it('is exported from one file', () => {
    const homes = new Map<string, number>()
    for (const name of SOURCES.flatMap((file) => [...new Set(exportsOf(file))])) {
      homes.set(name, (homes.get(name) ?? 0) + 1)
    }
    const shared = [...homes].filter(([, count]) => count > 1).map(([name]) => name)
    expect(shared.toSorted()).toEqual(Object.values(SHARED_NAMES).flat().toSorted())
  })
})

describe('the folders of src', () => {
  const folders = fs
    .readdirSync(path.join(ROOT, 'src'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)

  it('are those that the design draws', () => {
    expect(folders.filter((folder) => !(folder in ARROWS) && !ROOTS.includes(folder))).toEqual([])
  })

  it.each(Object.entries(ARROWS))('%s refers to %s, and to nothing else', (folder, arrows) => {
    expect(referencesOf(folder)).toEqual(arrows)
  })

  it.each(Object.entries(ARROWS))('%s imports from %s and itself only', (folder, arrows) => {
    const own = SOURCES.filter(({ name }) => name.startsWith(`src/${folder}/`))
    const imported = new Set(own.flatMap(importsOf).map((name) => name.split('/')[1]))
    expect([...imported].filter((name) => name !== folder && !arrows.includes(name ?? ''))).toEqual(
      [],
    )
  })
})

describe('the lockfiles', () => {
  const folders = [
    '',
    'bench/',
    'campaign/mutation/',
    'test/coding-agents/',
    'test/node-22/',
    'test/node-24/',
    'test/tools/',
  ]

  it.each(folders)('of the folder %j names no registry', (folder) => {
    const lockfile = fs.readFileSync(path.join(ROOT, folder, 'package-lock.json'), 'utf8')
    expect(lockfile).not.toMatch(/"resolved":/)
  })

  it('of the peers compiles nothing, and brings no driver of its own', () => {
    const text = fs.readFileSync(path.join(ROOT, 'bench/package-lock.json'), 'utf8')
    const { packages } = JSON.parse(text) as {
      readonly packages: Readonly<Record<string, { readonly hasInstallScript?: boolean }>>
    }
    expect(Object.keys(packages).length).toBeGreaterThan(5)
    expect(Object.values(packages).filter(({ hasInstallScript }) => hasInstallScript)).toEqual([])
    const drivers = ['better-sqlite3', 'pg', 'ioredis'].map((name) => `node_modules/${name}`)
    expect(drivers.filter((driver) => driver in packages)).toEqual([])
  })
})

describe('what Tenure is measured beside', () => {
  const { dependencies } = JSON.parse(
    fs.readFileSync(path.join(ROOT, 'bench/package.json'), 'utf8'),
  ) as { readonly dependencies: Readonly<Record<string, string>> }

  it('is pinned, so that a figure names what was measured', () => {
    expect(
      Object.values(dependencies).filter((version) => !/^\d+\.\d+\.\d+$/.test(version)),
    ).toEqual([])
  })

  it('is no dependency of the package, and no source knows it', () => {
    const root = fs.readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')
    const names = Object.keys(dependencies)
    expect(names.length).toBeGreaterThan(4)
    expect(names.filter((name) => root.includes(`"node_modules/${name}"`))).toEqual([])
    const importing = new RegExp(`from '(${names.join('|')})(/|')`)
    expect(filesWith(importing, CODE)).toEqual([])
  })
})

/** The files of this repository that a file imports, or starts as a process, as names from its root. */
function importsOf({ name, text }: SourceFile): readonly string[] {
  const specifiers = text.matchAll(
    /(?:\bfrom\s+|\bimport\(\s*|^import\s+|URL\(|\bsrc=)['"](\.[^'"]*)['"]/gm,
  )
  return [...specifiers].map(([, specifier = '']) => {
    return path.posix.join(path.posix.dirname(name), specifier.replace(/\.js$/, '.ts'))
  })
}

function referencesOf(folder: string): readonly string[] {
  const text = fs.readFileSync(path.join(ROOT, 'src', folder, 'tsconfig.json'), 'utf8')
  const { references } = JSON.parse(text) as { references: readonly { readonly path: string }[] }
  return references.map((reference) => path.basename(reference.path)).toSorted()
}
