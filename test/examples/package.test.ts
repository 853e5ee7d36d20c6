/**
 * The package as it is published, in a user's project: its types under every resolution that TypeScript has, in a bundle,
 * and with a driver that cannot be loaded.
 */
import fs from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { requireBundler } from '../../scripts/more-packages.mjs'
import type { Ended } from '../cli/tenure-process.ts'
import { freshStoreOf } from '../servers/every-store.ts'
import { installPackage, link, ROOT, runIn, temporaryPlace } from './packed-project.ts'

const { directory, remove } = temporaryPlace()
beforeAll(() => installPackage(directory))
afterAll(remove)

const STORES = {
  ioredis: 'redis://127.0.0.1:1',
  pg: 'postgres://ann@127.0.0.1:1/leases',
  'better-sqlite3': 'sqlite:leases.db',
}
const SQLITE = STORES['better-sqlite3']

function tenure(...args: readonly string[]): Promise<Ended> {
  const main = path.join(directory, 'node_modules/tenure/dist/cli/main.js')
  return runIn(directory, [process.execPath, main, ...args])
}

/** The driver of SQLite whose compiled part is what `make` puts there. */
function installDriver(make: (file: string) => void): void {
  const target = path.join(directory, 'node_modules/better-sqlite3')
  onTestFinished(() => fs.rmSync(target, { recursive: true }))
  for (const part of ['package.json', 'lib']) {
    const source = path.join(ROOT, 'node_modules/better-sqlite3', part)
    fs.cpSync(source, path.join(target, part), { recursive: true })
  }
  fs.mkdirSync(path.join(target, 'build/Release'), { recursive: true })
  make(path.join(target, 'build/Release/better_sqlite3.node'))
  link(directory, 'bindings', 'file-uri-to-path')
  onTestFinished(() => unlink('bindings', 'file-uri-to-path'))
}

function unlink(...packages: readonly string[]): void {
  for (const name of packages) fs.unlinkSync(path.join(directory, 'node_modules', name))
}

describe('a driver that cannot be loaded', () => {
  it.each(Object.entries(STORES))(
    '%s that is not installed is what is missing',
    async (name, url) => {
      const { code, stderr } = await tenure('acquire', 'work:1', '--store', url)
      expect(stderr).toMatch(new RegExp(`need the package ${name}, .*Cannot find (package|module)`))
      expect(stderr).toContain(`"npm install ${name}`)
      expect(stderr).toContain('(STORE_UNAVAILABLE)')
      expect(code).toBe(15)
    },
  )

  const UNBUILT: Readonly<Record<string, (file: string) => void>> = {
    // What Node says of a binary for another version of itself has the same code.
    'for another platform': (file) => fs.writeFileSync(file, 'no program of this platform'),
    'not at all': () => {},
  }

  it.each(Object.keys(UNBUILT))('a driver that was built %s is to be rebuilt', async (how) => {
    installDriver(UNBUILT[how] ?? (() => {}))
    const advice = 'build it for this version of Node with "npm rebuild better-sqlite3"'
    const { code, stderr } = await tenure('acquire', 'work:1', '--store', SQLITE)
    expect(stderr).toContain(advice)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(code).toBe(15)
    const doctor = await tenure('doctor', '--store', SQLITE)
    expect(doctor.stdout).toMatch(/wrong +driver/)
    expect(doctor.stdout).toContain(advice)
    expect(doctor.code).toBe(1)
  })

  it('something else that a driver asks for in vain is not called the driver', async () => {
    const target = path.join(directory, 'node_modules/pg')
    onTestFinished(() => fs.rmSync(target, { recursive: true }))
    fs.mkdirSync(target)
    fs.writeFileSync(path.join(target, 'package.json'), '{ "main": "index.js" }')
    fs.writeFileSync(path.join(target, 'index.js'), "require('pg-protocol')")
    const { stderr } = await tenure('ls', '--store', STORES.pg)
    expect(stderr).toContain("could not be loaded: Cannot find module 'pg-protocol'; in a bundle, ")
  })
})

describe('the files', () => {
  it('name no source map, because none is shipped', () => {
    const root = path.join(directory, 'node_modules/tenure')
    const files = fs.readdirSync(root, { recursive: true, encoding: 'utf8' })
    const naming = files.filter((file) => {
      if (file.endsWith('.map')) return true
      return /\.[cm]?js$/.test(file) && read(path.join(root, file)).includes('sourceMappingURL')
    })
    expect(naming).toEqual([])
  })
})

function read(file: string): string {
  return fs.readFileSync(file, 'utf8')
}

const TYPED = `import { isLeaseError, openTenure, type Lease, type Tenure } from 'tenure'
import { LeaseSigner } from 'tenure/delegation'
import { FileLeases } from 'tenure/files'
import { openLeaseManager } from 'tenure/fleet'
import { guard } from 'tenure/guard'
import { verifyLedger } from 'tenure/ledger'
import { startServer } from 'tenure/server'
import { FakeRuntime } from 'tenure/testing'
import { claimWorkflow } from 'tenure/workflow'

export const classes = [LeaseSigner, FileLeases, FakeRuntime]
export const functions = [openLeaseManager, startServer, verifyLedger, claimWorkflow, guard.sqlite]

const tenure: Tenure = await openTenure('memory:', { holder: 'ann' })
export const fence: number = await tenure.withLease('work:W-1', {}, (lease: Lease) => lease.fence)
const attempt = await tenure.tryAcquire('work:W-1')
if (attempt.kind === 'held') console.log(attempt.blockers[0]?.reason)
// @ts-expect-error: types that were not found would be any, and take every option
await tenure.acquire('work:W-1', { ttlMS: 5 }).catch((error: unknown) => isLeaseError(error))
`
const SUBPATHS = Object.keys(
  (JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { exports: object })
    .exports,
).filter((name) => name !== './package.json')

describe('the types', () => {
  const options = ['--noEmit', '--strict', '--target', 'es2022', '--types', 'node']

  beforeAll(() => {
    link(directory, '@types/node', 'undici-types')
    fs.writeFileSync(path.join(directory, 'package.json'), '{ "type": "module" }')
    fs.writeFileSync(path.join(directory, 'typed.ts'), TYPED)
  })

  it('are asked for by every subpath', () => {
    const named = [...TYPED.matchAll(/from 'tenure(.*)'/g)].map(([, rest = '']) => `.${rest}`)
    expect(named.toSorted()).toEqual(SUBPATHS.toSorted())
  })

  it.each([
    ['node16', 'node16'],
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ])('are found and sound with module %s and moduleResolution %s', async (module, resolution) => {
    const tsc = path.join(ROOT, 'node_modules/.bin/tsc')
    const how = ['--module', module, '--moduleResolution', resolution]
    const ended = await runIn(directory, [tsc, ...options, ...how, 'typed.ts'])
    expect(ended).toEqual({ code: 0, stdout: '', stderr: '' })
  })
})

describe('a bundle', () => {
  beforeAll(() => {
    link(directory, 'ioredis', 'pg', 'better-sqlite3')
    for (const file of ['pool.mjs', 'bundled.mjs']) {
      fs.copyFileSync(path.join(ROOT, 'examples', file), path.join(directory, file))
    }
  })

  /** Runs a command of docs/recipes/bundling.md, by the file that it makes. */
  const bundle = async (outfile: string): Promise<void> => {
    const page = fs.readFileSync(path.join(ROOT, 'docs/recipes/bundling.md'), 'utf8')
    const command = page
      .replaceAll('\\\n', ' ')
      .split('\n')
      .find((line) => line.startsWith('npx esbuild ') && line.includes(`--outfile=${outfile}`))
    expect(command).toBeDefined()
    const line = (command ?? '').replace('npx esbuild', `${requireBundler()} --log-level=warning`)
    expect(await runIn(directory, ['sh', '-c', line])).toEqual({ code: 0, stdout: '', stderr: '' })
  }

  /** Where nothing is installed. */
  const alone = (file: string): string => {
    const place = temporaryPlace()
    onTestFinished(place.remove)
    fs.copyFileSync(path.join(directory, file), path.join(place.directory, file))
    return place.directory
  }

  it.each(['sqlite', 'redis', 'postgres'] as const)(
    'finds the drivers that it left out, for %s',
    async (kind) => {
      if (!fs.existsSync(path.join(directory, 'app.mjs'))) await bundle('app.mjs')
      const url = await freshStoreOf(kind)
      const ended = await runIn(directory, [process.execPath, 'app.mjs', url])
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      expect(ended.stdout).toContain('8 pages')
    },
  )

  it.each(['app.cjs', 'whole.mjs'])('has everything inside, as %s', async (file) => {
    await bundle(file)
    const url = await freshStoreOf('redis')
    const ended = await runIn(alone(file), [process.execPath, file, url])
    expect(ended).toEqual({ code: 0, stdout: 'work:W-17 is held\n', stderr: '' })
  })

  it('as CommonJS makes esbuild warn of nothing, also where the package is linked', async () => {
    const options = ['--bundle', '--platform=node', '--format=cjs', '--log-level=warning']
    const files = [path.join(ROOT, 'dist/index.js'), '--outfile=linked.cjs', '--packages=external']
    const made = await runIn(directory, [requireBundler(), ...files, ...options])
    expect(made).toEqual({ code: 0, stdout: '', stderr: '' })
  })

  it('says what is wrong with a driver that it has broken, and not that it is missing', async () => {
    const files = ['pool.mjs', '--outfile=broken.mjs']
    const options = ['--bundle', '--platform=node', '--format=esm', '--log-level=error']
    const made = await runIn(directory, [requireBundler(), ...files, ...options])
    expect(made).toEqual({ code: 0, stdout: '', stderr: '' })
    const run = [process.execPath, 'broken.mjs', STORES.ioredis]
    const { stderr } = await runIn(directory, run)
    expect(stderr).toContain('redis: stores need the package ioredis, ')
    expect(stderr).toContain('could not be loaded: Dynamic require of "events" is not supported; ')
    expect(stderr).toContain('in a bundle, leave it out as an external package or pass a client')
  })
})
