/** What `tenure ledger seal` writes to, and what it leaves as it is. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { LedgerSealer, type Sealing } from '../../src/cli/ledger-sealer.ts'
import { generateSigningKey } from '../../src/registrar/ed25519.ts'
import { EMPTY_KEY_RING, formatKeyRing, withFirstKey } from '../../src/registrar/key-ring.ts'
import { livedWorld, type LedgerWorld } from '../ledger/ledger-world.ts'
import { workshop } from './tenure-process.ts'

const RING = withFirstKey(EMPTY_KEY_RING, generateSigningKey(), 0)

interface Place {
  readonly directory: string
  readonly copy: string
  /** Seals what the world has by now. */
  seal(more?: Partial<Sealing>): Promise<unknown>
  lines(name: string): readonly string[]
  readonly world: LedgerWorld
}

async function place(): Promise<Place> {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-files-'))
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }))
  const directory = path.join(root, 'ledger')
  const copy = path.join(root, 'copy.ndjson')
  const world = await livedWorld(11, 20)
  const history: LedgerWorld['store']['history'] = (filter) => world.store.history(filter)
  const questions = {
    history: async (filter: object) => history({ limit: 1_000, ...filter }),
    settingRows: () => world.store.settings(),
  }
  const common = { ring: () => RING, note: async () => undefined, nowMs: 1_000, others: [] }
  const lines = (name: string): readonly string[] => {
    const file = path.join(directory, name)
    return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').slice(0, -1) : []
  }
  const seal = (more: Partial<Sealing> = {}) => {
    return new LedgerSealer(questions, directory).seal({ ...common, copy: undefined, ...more })
  }
  return { directory, copy, seal, lines, world }
}

async function refusedUnchanged(
  file: string,
  sealed: () => Promise<unknown>,
  said: RegExp,
): Promise<void> {
  const before = fs.readFileSync(file)
  await expect(sealed()).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringMatching(said) as string,
  })
  expect(fs.readFileSync(file).equals(before)).toBe(true)
}

describe('sealing a ledger', () => {
  it('leaves the key that it signs with, and a file of notes, as they are', async () => {
    const shop = workshop()
    await shop.json(['keys', 'generate', '--keys', 'ledger/keys.json'])
    await shop.json(['keys', 'generate', '--keys', 'other.json'])
    const notes = path.join(shop.directory, 'notes.txt')
    fs.writeFileSync(notes, 'first line\nlast words')
    for (const [file, words] of [
      ['ledger/keys.json', ['--keys', 'ledger/keys.json', '--ledger', 'ledger']],
      ['notes.txt', ['--keys', 'other.json', '--copy', 'notes.txt']],
    ] as const) {
      const before = fs.readFileSync(path.join(shop.directory, file), 'utf8')
      const { code } = await shop.tenure(['ledger', 'seal', ...words])
      expect([code, fs.readFileSync(path.join(shop.directory, file), 'utf8')]).toEqual([2, before])
    }
  })

  it('writes no copy over a file of its own, of the keys or of the store, however it is named', async () => {
    const { directory, copy, seal } = await place()
    await seal()
    const others = ['keys', 'store.db'].map((name) => path.join(path.dirname(directory), name))
    for (const file of others) fs.writeFileSync(file, 'precious')
    const own = ['events.ndjson', 'checkpoints.ndjson', 'keys.json'].map((name) => {
      return path.join(directory, name)
    })
    for (const file of [...own, ...others]) {
      for (const link of [fs.symlinkSync, fs.linkSync, null]) {
        link?.(file, copy)
        const named = link === null ? file : copy
        const sealed = () => seal({ copy: named, others })
        await refusedUnchanged(file, sealed, /^file must be another one than/)
        fs.rmSync(copy, { force: true })
      }
    }
  })

  it('writes a copy only to an empty file or to one of checkpoints', async () => {
    const { directory, copy, seal } = await place()
    for (const text of ['notes', 'notes\n', '{"sequence":1}\n', '\n', '{"json":true}']) {
      fs.writeFileSync(copy, text)
      await refusedUnchanged(copy, () => seal({ copy }), /^copy must be an empty file, or one of/)
      expect(fs.existsSync(directory)).toBe(false)
    }
    fs.writeFileSync(copy, '')
    await seal({ copy })
    await seal({ copy })
    expect(fs.readFileSync(copy, 'utf8').split('\n')).toHaveLength(3)
  })

  it('replaces no file of keys that holds a secret or is none, and no lines that are not its own', async () => {
    const { directory, seal } = await place()
    fs.mkdirSync(directory)
    for (const [name, text, said] of [
      ['keys.json', formatKeyRing(RING, { secrets: true }), /^keys.json must be public keys/],
      ['keys.json', '{}', /^keys.json must be public keys/],
      ['events.ndjson', 'notes', /^file must end with a line that begins/],
      ['checkpoints.ndjson', 'notes', /^file must end with a line that begins/],
    ] as const) {
      const file = path.join(directory, name)
      fs.writeFileSync(file, text)
      await refusedUnchanged(file, () => seal(), said)
      fs.rmSync(file)
    }
  })

  it('signs no second checkpoint in place of one that the copy has', async () => {
    const { directory, copy, seal, lines, world } = await place()
    await seal({ copy })
    const events = lines('events.ndjson')
    for (let step = 0; step < 30; step += 1) await world.step()
    await seal({ copy })
    const checkpoints = lines('checkpoints.ndjson').slice(0, 1)
    for (const [name, kept] of [
      ['events.ndjson', events],
      ['checkpoints.ndjson', checkpoints],
    ] as const) {
      fs.writeFileSync(path.join(directory, name), kept.map((line) => `${line}\n`).join(''))
    }
    await expect(seal({ copy })).rejects.toThrow('checkpoint 2 of the copy is not in the ledger')
    expect(lines('checkpoints.ndjson')).toEqual(checkpoints)
    expect(lines('events.ndjson')).toEqual(events)
  })

  it('takes from the copy the checkpoint that a sealer which died has left there alone', async () => {
    const { directory, copy, seal, lines, world } = await place()
    await seal({ copy })
    for (let step = 0; step < 30; step += 1) await world.step()
    await seal({ copy })
    const whole = lines('checkpoints.ndjson')
    fs.writeFileSync(path.join(directory, 'checkpoints.ndjson'), `${whole[0]}\n`)
    await expect(seal({ copy })).resolves.toMatchObject({ sequence: 3 })
    expect(lines('checkpoints.ndjson').slice(0, 2)).toEqual(whole)
    expect(fs.readFileSync(copy, 'utf8').split('\n').slice(0, -1)).toEqual(
      lines('checkpoints.ndjson'),
    )
  })

  it('seals nothing when the copy cannot be written in the end', async () => {
    const { directory, copy, seal, lines } = await place()
    const rename = vi.spyOn(fs, 'renameSync').mockImplementation(() => {
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    })
    onTestFinished(() => rename.mockRestore())
    await expect(seal({ copy })).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    expect(lines('checkpoints.ndjson')).toEqual([])
    expect(fs.readdirSync(path.dirname(directory))).toEqual(['ledger'])
    rename.mockRestore()
    await expect(seal({ copy })).resolves.toMatchObject({ sequence: 1 })
  })
})
