/** What is published is what is meant to be: the built sources, the documentation and the examples, and nothing beside them. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from './packed-project.ts'

interface Packed {
  readonly files: readonly { readonly path: string; readonly size: number }[]
}

const MEANT: readonly RegExp[] = [
  /^dist\/(?!dashboard\/).+\.(js|d\.ts)$/,
  /^dist\/dashboard\/(index\.html|assets\/[\w.-]+\.(js|css|svg))(\.(br|gz))?$/,
  /^docs\/.+\.(md|svg|json|yml|yaml)$/,
  /^examples\/.+\.(ts|mjs|js|json|md|py|sh|sql|yml|yaml)$/,
  /^(README|ARCHITECTURE|CHANGELOG|CONTRIBUTING|SECURITY)\.md$/,
  /^(LICENSE|package\.json)$/,
]

/** Nobody who uses the package has a use for it, or it must not leave this repository. */
const NEVER =
  /(^|\/)(test|sim|bench|campaign|scripts|node_modules|\.git)\/|\.(map|tsbuildinfo|db|pem|key|tgz|patch)$|tokens\.json$|\.env/

const SIZE_MAX = 400_000

let files: Packed['files'] = []

beforeAll(async () => {
  const packing = ['pack', '--dry-run', '--ignore-scripts', '--json']
  const { stdout } = await promisify(execFile)('npm', packing, { cwd: ROOT, maxBuffer: 2 ** 26 })
  const [packed] = JSON.parse(stdout) as Packed[]
  files = packed?.files ?? []
})

describe('the package', () => {
  it('has what it offers', () => {
    const paths = new Set(files.map(({ path: name }) => name))
    const manifest = fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')
    const offered = [...manifest.matchAll(/"\.\/(dist\/[^"]+)"|"(dist\/cli\/[^"]+)"/g)]
    const names = offered.map(([, file, program]) => file ?? program ?? '')
    expect(names.length).toBeGreaterThan(10)
    expect(names.filter((name) => !paths.has(name))).toEqual([])
    expect(paths).toContain('SECURITY.md')
  })

  it('has nothing that is not meant to be in it', () => {
    const odd = files.filter(({ path: name }) => !MEANT.some((pattern) => pattern.test(name)))
    expect(odd.map(({ path: name }) => name)).toEqual([])
    expect(files.filter(({ path: name }) => NEVER.test(name))).toEqual([])
  })

  it('has no file of a size that nobody expects', () => {
    expect(files.filter(({ size }) => size > SIZE_MAX)).toEqual([])
  })
})
