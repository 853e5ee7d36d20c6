import { describe, expect, test } from 'vitest'
import { decideInstall, driverAdvice, fingerprint, nodeComplaint } from '../../scripts/setup.mjs'

const HOST = { platform: 'linux', arch: 'x64', versions: { modules: '115' } }

type Packages = Record<string, { version?: string; optional?: boolean; dev?: boolean }>

const LOCKED: Packages = {
  '': {},
  'node_modules/better-sqlite3': { version: '12.11.1', optional: true },
  'node_modules/typescript': { version: '7.0.2', dev: true },
  'node_modules/@typescript/linux': { version: '7.0.2', optional: true },
  'node_modules/@typescript/darwin': { version: '7.0.2', optional: true },
}

const INSTALLED: Packages = {
  'node_modules/better-sqlite3': { version: '12.11.1', optional: true },
  'node_modules/typescript': { version: '7.0.2', dev: true },
  'node_modules/@typescript/linux': { version: '7.0.2', optional: true },
}

function without(packages: Packages, path: string): Packages {
  return Object.fromEntries(Object.entries(packages).filter(([key]) => key !== path))
}

function decideFor(installed: Packages | null, stamp: string | null = null): string {
  return decideInstall({
    stamp,
    wanted: 'wanted',
    lockText: JSON.stringify({ packages: LOCKED }),
    installed: installed === null ? null : JSON.stringify({ packages: installed }),
  })
}

describe('the fingerprint of an installation', () => {
  test('is the same for the same lockfile on the same host', () => {
    expect(fingerprint('{}', HOST)).toBe(fingerprint('{}', { ...HOST }))
  })

  test('changes with the lockfile', () => {
    expect(fingerprint('{ }', HOST)).not.toBe(fingerprint('{}', HOST))
  })

  test.each([
    ['platform', { ...HOST, platform: 'darwin' }],
    ['architecture', { ...HOST, arch: 'arm64' }],
    ['addon interface of Node', { ...HOST, versions: { modules: '127' } }],
  ])('changes with the %s, because the driver is compiled for it', (_, host) => {
    expect(fingerprint('{}', host)).not.toBe(fingerprint('{}', HOST))
  })
})

describe('whether to install', () => {
  test('a fresh clone is installed', () => {
    expect(decideFor(null)).toBe('install')
  })

  test('a tree with the stamp of this lockfile is kept without looking further', () => {
    expect(decideFor(null, 'wanted')).toBe('keep')
  })

  test('a tree that somebody installed with npm itself is adopted', () => {
    expect(decideFor(INSTALLED)).toBe('adopt')
  })

  test('a stamp of another lockfile is no reason to install what is there already', () => {
    expect(decideFor(INSTALLED, 'another')).toBe('adopt')
  })

  test.each<[string, Packages]>([
    ['has another version', { ...INSTALLED, 'node_modules/typescript': { version: '7.0.1' } }],
    ['lacks a development tool', without(INSTALLED, 'node_modules/typescript')],
    ['lacks the driver, optional as it is', without(INSTALLED, 'node_modules/better-sqlite3')],
    [
      'has what the lockfile does not know',
      { ...INSTALLED, 'node_modules/x': { version: '1.0.0' } },
    ],
  ])('a tree that %s is installed afresh', (_, installed) => {
    expect(decideFor(installed)).toBe('install')
  })
})

describe('the message when the driver does not load', () => {
  const situation = {
    platform: 'linux',
    missing: ['make', 'g++'],
    scriptsIgnored: false,
    cause: "Error: Cannot find module 'better-sqlite3'",
  }

  test('names the Debian packages and what is missing of them', () => {
    const advice = driverAdvice(situation)
    expect(advice).toContain('apt-get install python3 make g++ (missing: make, g++)')
    expect(advice).toContain("Cannot find module 'better-sqlite3'")
  })

  test('does not claim that something is missing when nothing is', () => {
    expect(driverAdvice({ ...situation, missing: [] })).toContain('all three are on the PATH')
  })

  test('names the command of macOS', () => {
    expect(driverAdvice({ ...situation, platform: 'darwin' })).toContain('xcode-select --install')
  })

  test('names the build tools of Windows', () => {
    const advice = driverAdvice({ ...situation, platform: 'win32' })
    expect(advice).toContain('Visual Studio Build Tools')
  })

  test('blames the configuration, not the compiler, where npm runs no install scripts', () => {
    const advice = driverAdvice({ ...situation, scriptsIgnored: true })
    expect(advice).toContain('npm rebuild better-sqlite3 --ignore-scripts=false')
    expect(advice).not.toContain('apt-get')
  })
})

describe('the version of Node', () => {
  test.each(['20.19.0', '20.20.2', '22.0.0', '100.1.0'])('%s is recent enough', (version) => {
    expect(nodeComplaint(version)).toBeNull()
  })

  test.each(['18.20.8', '20.18.3', '20.9.0'])('%s is refused by name', (version) => {
    expect(nodeComplaint(version)).toBe(`Tenure needs Node 20.19 or later, this is ${version}.`)
  })
})
