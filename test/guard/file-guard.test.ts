/** Files that are replaced under a fence, as they are on the disk. */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { invalid } from '../../src/core/errors.ts'
import { guard, type GuardedLease, type SqliteLike } from '../../src/guard/index.ts'
import { openTenure } from '../../src/open.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { hearFaults } from '../runtime/hear-faults.ts'

let directory: string
let database: SqliteDatabase

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-guard-'))
  const Driver = await loadSqlite()
  database = new Driver(path.join(directory, 'app.db'))
})

afterEach(() => {
  database.close()
  fs.rmSync(directory, { recursive: true, force: true })
})

function lease(fence: number, resource: string): GuardedLease {
  return { id: randomUUID(), resource, fence }
}

/** Content that does something when its draft is about to get it. */
function contentThat(act: () => void): Uint8Array {
  const bytes = new Uint8Array(1)
  let acted = false
  Object.defineProperty(bytes, 'byteLength', {
    get: () => {
      if (!acted) {
        acted = true
        act()
      }
      return 1
    },
  })
  return bytes
}

describe('a guarded file', () => {
  let file: string
  const at = (fence: number): GuardedLease => lease(fence, `file:${file}`)
  const read = (): string => fs.readFileSync(file, 'utf8')

  beforeEach(() => {
    file = path.join(fs.realpathSync(directory), 'report.txt')
    guard.file(database).init()
  })

  it('is replaced whole, keeps its permissions, and leaves nothing beside it', () => {
    fs.writeFileSync(file, 'old', { mode: 0o640 })
    guard.file(database).write(at(10), 'new')
    expect(read()).toBe('new')
    expect(fs.statSync(file).mode & 0o777).toBe(0o640)
    expect(fs.readdirSync(directory).filter((name) => name.startsWith('report'))).toEqual([
      'report.txt',
    ])
  })

  it('is not replaced by a holder that a later one has passed', () => {
    const files = guard.file(database)
    files.write(at(20), Buffer.from('later'))
    expect(() => files.write(at(10), 'stale')).toThrow('fence must be at least 20, got 10')
    expect(read()).toBe('later')
  })

  it('is not replaced when a later holder comes between the check and the rename', () => {
    guard.file(database).write(at(10), 'first')
    let begun = 0
    const interrupted: SqliteLike = {
      inTransaction: false,
      prepare: (sql) => database.prepare(sql),
      exec: (sql) => {
        begun += sql.startsWith('BEGIN') ? 1 : 0
        // The later holder comes exactly between the two transactions.
        if (sql.startsWith('BEGIN') && begun === 2) {
          guard.sqlite(database).check(`file:${file}`, 20)
        }
        return database.exec(sql)
      },
    }
    const files = guard.file(interrupted)
    expect(() => files.write(at(11), 'stale')).toThrow('fence must be at least 20, got 11')
    expect(read()).toBe('first')
    database.exec('ROLLBACK')
  })

  it('keeps permissions that the mask of the process would take away', () => {
    fs.writeFileSync(file, 'old')
    fs.chmodSync(file, 0o666)
    const mask = process.umask(0o077)
    guard.file(database).write(at(10), 'new')
    process.umask(mask)
    expect(fs.statSync(file).mode & 0o777).toBe(0o666)
  })

  it('is written over what a process left beside it that died', () => {
    const files = guard.file(database)
    const names: string[] = []
    const dying = contentThat(() => {
      names.push(...fs.readdirSync(directory).filter((name) => name.startsWith('.tenure-')))
    })
    files.write(at(10), dying)
    const [draft = ''] = names
    // An earlier version of this left it, or a later one takes it away.
    expect(draft).toBe('.tenure-eafb4aff19bc57c3106afe5e1d4aef0b')
    fs.writeFileSync(path.join(directory, draft), 'half', { mode: 0o400 })
    files.write(at(11), 'whole')
    expect(read()).toBe('whole')
    expect(fs.readdirSync(directory)).not.toContain(draft)
    fs.mkdirSync(path.join(directory, draft, 'full'), { recursive: true })
    files.write(at(12), 'whole again')
    expect(fs.readdirSync(directory)).not.toContain(draft)
  })

  it('is on the disk before it has its name, which is there when the write returns', () => {
    const done: string[] = []
    const [sync, rename] = [fs.fsyncSync, fs.renameSync]
    vi.spyOn(fs, 'fsyncSync').mockImplementation((descriptor) => {
      const status = fs.fstatSync(descriptor)
      done.push(status.isDirectory() ? 'directory' : `${status.size} bytes`)
      sync(descriptor)
    })
    vi.spyOn(fs, 'renameSync').mockImplementation((from, to) => {
      done.push(path.basename(String(to)))
      rename(from, to)
    })
    onTestFinished(() => void vi.restoreAllMocks())
    guard.file(database).write(at(10), 'new')
    expect(done).toEqual(['3 bytes', 'report.txt', 'directory'])
  })

  it('is closed again with all that was opened for it, written or not', () => {
    const opened = vi.spyOn(fs, 'openSync')
    const closed = vi.spyOn(fs, 'closeSync')
    onTestFinished(() => void vi.restoreAllMocks())
    const files = guard.file(database)
    files.write(at(10), 'new')
    const failing = contentThat(() => {
      throw new Error('no')
    })
    expect(() => files.write(at(11), failing)).toThrow('no')
    expect(opened).toHaveBeenCalledTimes(3)
    expect(closed.mock.calls.flat()).toEqual(opened.mock.results.map(({ value }) => value))
  })

  it('has a draft that none may open who may not read the file', () => {
    fs.writeFileSync(file, 'old', { mode: 0o600 })
    const change = fs.fchmodSync
    const modes: number[] = []
    vi.spyOn(fs, 'fchmodSync').mockImplementation((descriptor, mode) => {
      modes.push(fs.fstatSync(descriptor).mode & 0o777)
      change(descriptor, mode)
    })
    onTestFinished(() => void vi.restoreAllMocks())
    guard.file(database).write(at(10), 'secret')
    expect(modes).toEqual([0o600])
  })

  it('stays as it was when its directory is not there, without more to report', () => {
    const faults = hearFaults()
    const lost = `file:${path.join(path.dirname(file), 'missing', 'a')}`
    expect(() => guard.file(database).write(lease(10, lost), 'x')).toThrow('ENOENT')
    expect(faults()).toEqual([])
  })

  it('is not written when a link has come in its way meanwhile', () => {
    const [elsewhere, loop] = [path.join(path.dirname(file), 'other'), `${file}-loop`]
    fs.writeFileSync(elsewhere, 'other')
    const files = guard.file(database)
    const linked = contentThat(() => fs.symlinkSync(elsewhere, file))
    expect(() => files.write(at(10), linked)).toThrow(
      expect.objectContaining({
        code: 'SCOPE_VIOLATION',
        message: `${file} leads elsewhere now, to ${elsewhere}`,
        details: { path: file },
      }),
    )
    expect(fs.readFileSync(elsewhere, 'utf8')).toBe('other')
    const looped = contentThat(() => fs.symlinkSync(loop, loop))
    expect(() => files.write(lease(10, `file:${loop}`), looped)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', details: { field: 'path', path: loop } }),
    )
    expect(fs.readdirSync(directory).filter((name) => name.startsWith('.tenure-'))).toEqual([])
  })

  it('cannot be found behind a link that leads to itself', () => {
    const files = guard.file(database)
    const loop = path.join(path.dirname(file), 'loop')
    fs.symlinkSync('loop', loop)
    const error = (field: string, place: string): unknown => {
      return expect.objectContaining({ code: 'INVALID_INPUT', details: { field, path: place } })
    }
    const write = (resource: string, to?: string) => (): void => {
      files.write(lease(10, resource), 'x', to === undefined ? {} : { path: to })
    }
    expect(write(`file:${loop}/a`)).toThrow(error('resource', `${loop}/a`))
    expect(write(`file:${loop}/\u00e9`)).toThrow(error('resource', loop))
    expect(write('document:report', `${loop}/a`)).toThrow(error('path', `${loop}/a`))
  })

  it('takes text or bytes', () => {
    const write = (): void => guard.file(database).write(at(10), 5 as unknown as string)
    expect(write).toThrow(
      expect.objectContaining({ message: 'content must be text or bytes, got 5' }),
    )
  })

  it('is checked without being written', () => {
    expect(guard.file(database).check(`file:${file}`, 20)).toBe(true)
    expect(fs.existsSync(file)).toBe(false)
  })

  it('is one file however it is reached: through a link an older holder is refused as well', () => {
    const real = path.join(path.dirname(file), 'real')
    fs.mkdirSync(real)
    fs.symlinkSync('real', path.join(path.dirname(file), 'link'))
    const files = guard.file(database)
    files.write(lease(20, `file:${real}/a`), 'later')
    const around = `file:${path.dirname(file)}/link/a`
    expect(() => files.write(lease(10, around), 'stale')).toThrow('must be at least 20, got 10')
    expect(() => files.check(around, 10)).toThrow('must be at least 20, got 10')
    fs.symlinkSync(path.join(real, 'a'), file)
    files.write(at(30), 'through the link')
    expect(fs.readFileSync(path.join(real, 'a'), 'utf8')).toBe('through the link')
    expect(fs.lstatSync(file).isSymbolicLink()).toBe(true)
  })

  it('is not written where a link leads out of what the lease covers', () => {
    const top = path.dirname(file)
    fs.mkdirSync(path.join(top, 'src'))
    fs.mkdirSync(path.join(top, 'secret'))
    fs.symlinkSync('../secret', path.join(top, 'src', 'out'))
    const whole = { ...lease(10, `file:${top}/src`), extent: 'subtree' } as const
    const write = (): void => {
      guard.file(database).write(whole, 'x', { resource: `file:${top}/src/out/a` })
    }
    expect(write).toThrow(`got file:${top}/secret/a`)
    expect(fs.readdirSync(path.join(top, 'secret'))).toEqual([])
  })

  describe('whose name has more than one spelling in Unicode', () => {
    const [composed, decomposed] = ['caf\u00e9.txt', 'cafe\u0301.txt']
    const named = (name: string): string => path.join(path.dirname(file), name)
    const found = (): readonly string[] => {
      return fs.readdirSync(path.dirname(file)).filter((name) => name.endsWith('.txt'))
    }

    it.each([composed, decomposed])('is written as it was named', (name) => {
      fs.writeFileSync(named(name), 'old')
      guard.file(database).write(lease(10, `file:${named(name)}`), 'new')
      expect(found()).toEqual([name])
      expect(fs.readFileSync(named(name), 'utf8')).toBe('new')
    })

    it('has one mark under all of them', () => {
      const files = guard.file(database)
      files.write(lease(20, `file:${named(decomposed)}`), 'later')
      expect(() => files.write(lease(10, `file:${named(composed)}`), 'stale')).toThrow('got 10')
      expect(() => files.check(`file:${named(composed)}`, 10)).toThrow('got 10')
    })

    it('is found by the handle of its lease, which knows the composed one only', async () => {
      const tenure = await openTenure('memory:', { holder: 'ann' })
      onTestFinished(() => tenure.close())
      const directories = [named('e\u0301'), path.join(named('e\u0301'), decomposed)] as const
      fs.mkdirSync(directories[0])
      fs.writeFileSync(directories[1], 'old')
      const held = await tenure.acquire(`file:${directories[1]}`)
      guard.file(database).write(held, 'new')
      expect(fs.readFileSync(directories[1], 'utf8')).toBe('new')
      expect(fs.readdirSync(directories[0])).toEqual([decomposed])
    })

    it('is taken at its word where any part of it is not composed', () => {
      const [one, other] = [named('\u00e9'), named('e\u0301')]
      for (const place of [one, other]) fs.mkdirSync(place)
      guard.file(database).write(lease(10, `file:${one}/${decomposed}`), 'new')
      expect(fs.readdirSync(one)).toEqual([decomposed])
      expect(fs.readdirSync(other)).toEqual([])
    })

    it('is what it was named as long as its directory is not there', () => {
      const files = guard.file(database)
      const resources = ['\u00e9/a', 'missing/\u00e9', 'missing/\u00e8'].map((name) => {
        return `file:${named(name)}`
      })
      for (const resource of resources) {
        expect(files.check(resource, 20)).toBe(true)
        expect(() => files.check(resource, 10)).toThrow(`${resource}: fence must be at least 20`)
        expect(files.check(resource, 21)).toBe(true)
      }
    })

    it('costs a plain name nothing: its directory need not be one that may be listed', () => {
      vi.spyOn(fs, 'readdirSync').mockImplementation(() => {
        throw new Error('EACCES')
      })
      onTestFinished(() => void vi.restoreAllMocks())
      guard.file(database).write(at(10), 'new')
      expect(read()).toBe('new')
    })

    it('must be named by its path where both are there', () => {
      fs.writeFileSync(named(composed), 'one')
      fs.writeFileSync(named(decomposed), 'two')
      const [files, held] = [guard.file(database), lease(10, `file:${named(composed)}`)]
      const names = found().map(named).join(', ')
      const { message } = invalid('path', 'must say which of 2 files is meant', names)
      expect(() => files.write(held, 'new')).toThrow(expect.objectContaining({ message }))
      files.write(held, 'new', { path: named(composed) })
      files.write(held, 'newer', { path: named(decomposed) })
      expect(fs.readFileSync(named(composed), 'utf8')).toBe('new')
      expect(fs.readFileSync(named(decomposed), 'utf8')).toBe('newer')
    })
  })

  it('is written below a directory that is leased', () => {
    const directoryLease = {
      ...lease(10, `file:${path.dirname(file)}`),
      extent: 'subtree',
    } as const
    const files = guard.file(database)
    expect(() => files.write(directoryLease, 'x')).toThrow('resource must name the file')
    files.write(directoryLease, 'x', { resource: `file:${file}` })
    expect(read()).toBe('x')
  })

  it('may belong to a resource of another kind, which says where it is', () => {
    const files = guard.file(database)
    files.write(lease(10, 'document:report'), 'x', { path: file })
    expect(read()).toBe('x')
    expect(() => files.write(lease(9, 'document:report'), 'y', { path: file })).toThrow('got 9')
    expect(() => files.write(lease(11, 'document:report'), 'y')).toThrow(
      'path must be an absolute path for document:report, got undefined',
    )
    expect(() => files.write(at(11), 'y', { path: '/elsewhere' })).toThrow(
      `path must be that of file:${file}, got "/elsewhere"`,
    )
  })

  it('is not written from within a transaction, whose marks could be undone', () => {
    database.exec('BEGIN')
    expect(() => guard.file(database).write(at(10), 'x')).toThrow(
      expect.objectContaining({
        message: 'database must not be in a transaction, got "one that is"',
      }),
    )
    database.exec('ROLLBACK')
  })
})
