import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

interface LockedPackage {
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

interface Lockfile {
  readonly packages: Readonly<Record<string, LockedPackage>>
}

interface Solution {
  readonly references: readonly { readonly path: string }[]
}

function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(`${ROOT}${path}`, 'utf8')) as T
}

describe('the lockfile', () => {
  const { packages } = readJson<Lockfile>('package-lock.json')

  test('has the binaries of every platform; npm ci refuses a lockfile that lacks one', () => {
    const missing = Object.values(packages)
      .flatMap(({ optionalDependencies }) => Object.keys(optionalDependencies ?? {}))
      .filter((name) => packages[`node_modules/${name}`] === undefined)
    expect(missing).toEqual([])
  })
})

describe('the machinery', () => {
  test('sets itself up with scripts that need nothing but Node', () => {
    const imported = readdirSync(`${ROOT}scripts`)
      .map((name) => readFileSync(`${ROOT}scripts/${name}`, 'utf8'))
      .flatMap((text) => [...text.matchAll(/ from '(.*)'$/gm)].map(([, from]) => from ?? ''))
    expect(imported.length).toBeGreaterThan(10)
    expect(imported.filter((from) => !/^(node:|\.\/)/.test(from))).toEqual([])
  })

  test('builds every project under src with its solution file', () => {
    const { references } = readJson<Solution>('tsconfig.json')
    const projects = ['src', ...readdirSync(`${ROOT}src`).map((name) => `src/${name}`)]
      .filter((path) => existsSync(`${ROOT}${path}/tsconfig.json`))
      .map((path) => `./${path}`)
    expect(references.map(({ path }) => path).toSorted()).toEqual(
      [...projects, './tsconfig.dev.json'].toSorted(),
    )
  })

  test('has the same checks in CI as at the desk', () => {
    const commands = readFileSync(`${ROOT}.ci/run`, 'utf8')
      .split('\n')
      .filter((line) => line.includes('npm'))
    expect(commands).toEqual(['exec npm test'])
  })
})
