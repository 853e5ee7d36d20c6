import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseKeyRing } from '../../src/registrar/key-ring.ts'
import { workshop } from './tenure-process.ts'

interface Listed {
  readonly file: string
  readonly rotations: number
  readonly keys: readonly {
    readonly keyId: string
    readonly state: string
    readonly signs: boolean
  }[]
}

describe('tenure keys', () => {
  it('makes a key in a file that its owner alone can read, and a second one only by rotation', async () => {
    const { tenure, json, directory } = workshop()
    const file = path.join(directory, 'deep', 'keys.json')
    const env = { TENURE_KEYS: file }
    expect((await tenure(['keys', 'generate'], { env })).code).toBe(0)
    expect(fs.statSync(file).mode & 0o777).toBe(0o600)
    const again = await tenure(['keys', 'generate'], { env })
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('rotate it instead')])
    const rotated = await json<Listed>(['keys', 'rotate', '--overlap', '1h', '--keys', file])
    expect(rotated.keys.map(({ state, signs }) => [state, signs])).toEqual([
      ['retiring', false],
      ['active', true],
    ])
    expect(rotated.rotations).toBe(1)
    expect(fs.readdirSync(path.dirname(file))).toEqual(['keys.json'])
  })

  it('hands out the public part, which another file takes in', async () => {
    const { tenure, json, directory } = workshop()
    await tenure(['keys', 'generate', '--keys', 'a.json'])
    const { stdout } = await tenure(['keys', 'export', '--keys', 'a.json'])
    expect(stdout).not.toContain('seed')
    expect(parseKeyRing(stdout).keys).toHaveLength(1)
    fs.writeFileSync(path.join(directory, 'public.json'), stdout)
    await tenure(['keys', 'import', 'public.json', '--keys', 'b.json'])
    const { keys } = await json<Listed>(['keys', 'ls', '--keys', 'b.json'])
    expect(keys).toMatchObject([{ state: 'active', signs: false }])
    const refused = await tenure(['keys', 'rotate', '--keys', 'b.json'])
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining('no key that signs'),
    ])
  })

  it('takes in the keys of other registrars and signs with its own as before', async () => {
    const { tenure, json, directory } = workshop()
    for (const name of ['a', 'b']) {
      await tenure(['keys', 'generate', '--keys', `${name}.json`])
      const { stdout } = await tenure(['keys', 'export', '--keys', `${name}.json`])
      fs.writeFileSync(path.join(directory, `${name}.pub`), stdout)
    }
    await json(['keys', 'import', 'a.pub', '--keys', 'b.json'])
    const rotated = await json<Listed>(['keys', 'rotate', '--keys', 'b.json'])
    expect(rotated.keys.map(({ state, signs }) => [state, signs])).toEqual([
      ['retiring', false],
      ['active', false],
      ['active', true],
    ])
    await json(['keys', 'import', 'a.pub', '--keys', 'reader.json'])
    await json(['keys', 'import', 'b.pub', '--keys', 'reader.json'])
    const { keys } = await json<Listed>(['keys', 'generate', '--keys', 'reader.json'])
    expect(keys.map(({ signs }) => signs)).toEqual([false, false, true])
  })

  it('changes the file that a symbolic link leads to, and leaves the link', async () => {
    const { tenure, json, directory } = workshop()
    const at = (name: string): string => path.join(directory, name)
    fs.mkdirSync(at('safe'))
    await tenure(['keys', 'generate', '--keys', 'safe/keys.json'])
    fs.symlinkSync('safe/keys.json', at('keys.json'))
    fs.symlinkSync('keys.json', at('again.json'))
    const rotated = await json<Listed>(['keys', 'rotate', '--keys', 'again.json'])
    expect(rotated.keys).toHaveLength(2)
    for (const link of ['keys.json', 'again.json']) {
      expect(fs.lstatSync(at(link)).isSymbolicLink()).toBe(true)
    }
    expect(parseKeyRing(fs.readFileSync(at('safe/keys.json'), 'utf8')).keys).toHaveLength(2)
    expect(fs.statSync(at('safe/keys.json')).mode & 0o777).toBe(0o600)
    expect(fs.readdirSync(at('safe'))).toEqual(['keys.json'])
    fs.symlinkSync('safe/new.json', at('new.json'))
    await json<Listed>(['keys', 'generate', '--keys', 'new.json'])
    expect(parseKeyRing(fs.readFileSync(at('safe/new.json'), 'utf8')).keys).toHaveLength(1)
    fs.symlinkSync('loop.json', at('loop.json'))
    const looped = await tenure(['keys', 'generate', '--keys', 'loop.json'])
    expect([looped.code, looped.stderr]).toEqual([
      2,
      expect.stringContaining('file must be usable'),
    ])
  })

  it('takes turns on one file, by whatever link it is named', async () => {
    const { tenure, json, directory } = workshop()
    fs.mkdirSync(path.join(directory, 'safe'))
    await tenure(['keys', 'generate', '--keys', 'safe/keys.json'])
    fs.symlinkSync('safe/keys.json', path.join(directory, 'keys.json'))
    const files = ['keys.json', 'safe/keys.json', 'keys.json']
    await Promise.all(files.map((file) => json<Listed>(['keys', 'rotate', '--keys', file])))
    const { keys } = await json<Listed>(['keys', 'ls', '--keys', 'keys.json'])
    expect(keys).toHaveLength(4)
  })

  it('loses no key when two rotate at once', async () => {
    const { json } = workshop()
    await json(['keys', 'generate', '--keys', 'a.json'])
    const rotate = async () => json<Listed>(['keys', 'rotate', '--keys', 'a.json'])
    const told = await Promise.all([rotate(), rotate(), rotate()])
    const { keys, rotations } = await json<Listed>(['keys', 'ls', '--keys', 'a.json'])
    expect(rotations).toBe(3)
    const kept = keys.map(({ keyId }) => keyId)
    const made = told.flatMap((each) => each.keys.filter(({ signs }) => signs))
    expect(kept).toEqual(expect.arrayContaining(made.map(({ keyId }) => keyId)))
    expect(new Set(made.map(({ keyId }) => keyId)).size).toBe(3)
  })

  it('lets anybody read a file that holds nothing secret', async () => {
    const { tenure, json, directory } = workshop()
    await tenure(['keys', 'generate', '--keys', 'a.json'])
    const { stdout } = await tenure(['keys', 'export', '--keys', 'a.json'])
    fs.writeFileSync(path.join(directory, 'a.pub'), stdout, { mode: 0o644 })
    const { keys } = await json<Listed>(['keys', 'ls', '--keys', 'a.pub'])
    expect(keys).toMatchObject([{ state: 'active', signs: false }])
  })

  it('refuses a file that others can read, one that is none, and words that it does not know', async () => {
    const { tenure, directory } = workshop()
    await tenure(['keys', 'generate', '--keys', 'a.json'])
    fs.chmodSync(path.join(directory, 'a.json'), 0o644)
    fs.writeFileSync(path.join(directory, 'b.json'), 'nonsense', { mode: 0o600 })
    const none = '{"version":1,"keys":[null],"rotations":[]}'
    fs.writeFileSync(path.join(directory, 'd.json'), none)
    for (const [words, said] of [
      [['keys', 'ls', '--keys', 'a.json'], 'readable by its owner only'],
      [['keys', 'ls', '--keys', 'b.json'], 'no JSON'],
      [['keys', 'ls', '--keys', 'd.json'], 'keys[0] must be an object, got null'],
      [['keys', 'generate', '--keys', 'b.json/k'], 'file must be usable'],
      [['keys', 'import', 'missing.json', '--keys', 'c.json'], 'file must be usable'],
      [['keys', 'import', '--keys', 'c.json'], 'must be followed by FILE'],
      [['keys', 'ls', 'more', '--keys', 'c.json'], 'must be followed by nothing'],
      [['keys', 'melt'], 'ACTION must be one of generate, ls, rotate, export, import'],
    ] as const) {
      const { code, stderr } = await tenure(words)
      expect([code, stderr]).toEqual([2, expect.stringContaining(said)])
      expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    }
  })
})
