import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Tenure } from '../../src/client/contract.ts'
import * as index from '../../src/index.ts'
import { openApi, openQuestions, openTenure, type OpenOptions } from '../../src/open.ts'
import { LeaseService } from '../../src/service/lease-service.ts'

let directory: string
const opened: Tenure[] = []

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-open-'))
})

afterEach(async () => {
  await Promise.all(opened.splice(0).map((tenure) => tenure.close()))
  fs.rmSync(directory, { recursive: true, force: true })
  vi.restoreAllMocks()
})

async function open(url: string, options: Partial<OpenOptions> = {}): Promise<Tenure> {
  const tenure = await openTenure(url, { holder: 'alice', ...options })
  opened.push(tenure)
  return tenure
}

it('clients of one store in one process stand by for each other', async () => {
  const claim = vi.spyOn(LeaseService.prototype, 'claim')
  const url = `sqlite:${path.join(directory, 'tenure.db')}`
  // Whoever waits for long claims now and then to keep its place; with this window not before 20 s.
  const patient = { holder: 'bob', claimWindowMs: 60_000 }
  const [one, two] = [await open(url), await open(url, patient)]
  const held = await one.acquire('work:W-1')
  const waiting = two.acquire('work:W-1', { waitMs: 15_000 })
  const isQueued = async (): Promise<boolean> => (await one.inspect('work:W-1')).queue.length === 1
  await vi.waitUntil(isQueued, { timeout: 15_000 })
  await held.release()
  expect((await waiting).holder).toBe('bob')
  expect(claim).not.toHaveBeenCalled()
})

describe('memory:', () => {
  it('is a store of its own for everyone who opens it', async () => {
    const [one, two] = [await open('memory:'), await open('memory:')]
    await one.acquire('work:W-1')
    expect(await two.isHeld('work:W-1')).toBe(false)
  })

  it('with a name is shared within the process until the last one closes it', async () => {
    const [one, two] = [await open('memory:shared'), await open('memory:shared')]
    await one.acquire('work:W-1', { autoRenew: false }).then((lease) => lease.abandon())
    expect(await two.isHeld('work:W-1')).toBe(true)
    await one.close()
    expect(await two.isHeld('work:W-1')).toBe(true)
    await two.close()
    expect(await (await open('memory:shared')).isHeld('work:W-1')).toBe(false)
  })

  it('does not cross namespaces', async () => {
    const one = await open('memory:shared', { namespace: 'one' })
    const two = await open('memory:shared?namespace=two')
    await one.acquire('work:W-1')
    expect(await two.isHeld('work:W-1')).toBe(false)
    expect(await (await open('memory:shared?namespace=one')).isHeld('work:W-1')).toBe(true)
  })
})

describe('sqlite:', () => {
  it('keeps leases in a file, for clients that share a store and for those that open it later', async () => {
    const url = `sqlite:${path.join(directory, 'deep', 'leases.db')}`
    const [one, two] = [await open(url), await open(url, { holder: 'bob' })]
    const lease = await one.acquire('work:W-1')
    expect(await two.holds('alice', 'work:W-1')).toBe(true)
    const waiting = two.acquire('work:W-1', { waitMs: 5_000 })
    await lease.release()
    expect((await waiting).fence).toBeGreaterThan(lease.fence)
    await one.close()
    expect(await two.isHeld('work:W-1')).toBe(true)
    await two.close()
    const later = await open(url)
    expect(await later.history({ types: ['lease.issued'] })).toHaveLength(2)
  })

  it('is one store under two spellings of its path', async () => {
    const file = path.join(directory, 'leases.db')
    fs.writeFileSync(file, '')
    const link = path.join(directory, 'link.db')
    fs.symlinkSync(file, link)
    const one = await openApi(`sqlite:${file}`)
    const two = await openApi(`sqlite:${link}`)
    try {
      expect(two.store.url).toBe(one.store.url)
    } finally {
      await Promise.all([one.close(), two.close()])
    }
  })

  it('does not cross namespaces', async () => {
    const url = `sqlite:${path.join(directory, 'leases.db')}`
    const one = await open(url, { namespace: 'one' })
    const two = await open(url, { namespace: 'two' })
    await one.acquire('work:W-1')
    expect(await two.isHeld('work:W-1')).toBe(false)
  })

  it('says that a file is no database, and can be opened once it is gone', async () => {
    const file = path.join(directory, 'leases.db')
    fs.writeFileSync(file, 'this is not a database, however long one looks at it\n'.repeat(100))
    const url = `sqlite:${file}`
    await expect(openTenure(url, { holder: 'alice' })).rejects.toMatchObject({
      code: 'STORE_SCHEMA',
    })
    fs.rmSync(file)
    await (await open(url)).acquire('work:W-1')
  })

  it('closes for one user what that user started, and nothing else', async () => {
    const url = `sqlite:${path.join(directory, 'leases.db')}`
    const [one, two] = [await openApi(url), await openApi(url)]
    await one.close()
    await one.close()
    await expect(one.list({})).rejects.toMatchObject({ code: 'CLOSED' })
    expect(await two.list({})).toMatchObject({ leases: [] })
    await two.close()
    await expect(two.list({})).rejects.toMatchObject({ code: 'CLOSED' })
  })
})

describe('opening', () => {
  it.each([
    '',
    'leases.db',
    'etcd://localhost',
    'redis:',
    'redis://localhost/leases',
    'redis://localhost?mode=ro',
    'redis://localhost?buckets=none',
    'redis://localhost?callMs=0',
    'postgres:',
    'postgres://localhost/db?mode=ro',
    'postgres://localhost/db?poolSize=1e3',
    'postgres://localhost/db?prepare=maybe',
    'sqlite:',
    'sqlite://host/leases.db',
    'sqlite::memory:',
    'memory:?sync=full',
    'memory:x?synchronous=full',
    'sqlite:x.db?convert=gently',
    'redis://localhost?convert=gently',
    'redis://localhost?buckets=1025',
    'postgres://localhost/db?convert=gently',
    'postgres://localhost/db?callMs=0',
    'sqlite:leases.db?mode=ro',
    'sqlite:leases.db?synchronous=off',
    'sqlite:leases.db?namespace=A',
    7 as unknown as string,
  ])('refuses %j and says what is known', async (url) => {
    await expect(openTenure(url, { holder: 'alice' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/must/) as string,
    })
  })

  it('names the known stores and parameters', async () => {
    await expect(openTenure('etcd://x', { holder: 'a' })).rejects.toThrow(
      'store must be memory:, memory:NAME, sqlite:PATH, postgres://HOST/DATABASE, redis://HOST or http://HOST:PORT, got "etcd://x"',
    )
    await expect(openTenure('sqlite:x.db?mode=ro', { holder: 'a' })).rejects.toThrow(
      'store parameters must be among namespace, synchronous, convert, got "mode"',
    )
  })

  it.each([
    ['sqlite:leases.db ', 'store must be a file whose name does not end with white space'],
    ['sqlite:leases.db\u00a0?namespace=a', 'must be a file whose name does not end with white'],
    ['memory://jobs', 'store must be memory:, memory:NAME, sqlite:PATH'],
    ['redis://127.0.0.1:99999', 'store port must be an integer 1..65535, got 99999'],
    ['rediss://u:7@[::1]:65536/2', 'store port must be an integer 1..65535, got 65536'],
    ['postgres://u@h:0/d', 'store port must be an integer 1..65535, got 0'],
    ['redis://127.0.0.1/1#leases', 'store must have no # in its URL'],
    ['redis://:50%pass@h', 'store must have its user and password escaped'],
    ['redis://u%zz@h', 'store must have its user and password escaped'],
    ['postgres://u:pass#word@h/d', 'store must have no # in its URL'],
    ['postgres://h/d?namespace=a#b', 'store must have no # in its URL'],
  ])('says what is wrong with %s', async (url, message) => {
    const said = await openTenure(url, { holder: 'a' }).catch((error: Error) => error.message)
    expect(said).toContain(message)
    expect(said).not.toContain('pass#')
  })

  it('never repeats what may hold a password', async () => {
    for (const url of [
      'mysql://app:secret@host/db',
      'redis://app:secret@',
      'postgres://a:secret@/',
      'redis://app:12/34secret@host:6379',
      'redis://:12?34secret@host',
      'redis://:12?3=4&secret@host',
      'postgres://app:12/34secret@host/db',
      'postgres://app:12?34secret@host/db',
      'http:app:secret@host:7420',
      'http:///app:secret@host:7420',
    ]) {
      const message = await openTenure(url, { holder: 'a' }).catch((error: Error) => error.message)
      expect(message).toMatch(/must|cannot/)
      expect(message).not.toContain('secret')
    }
  })

  it('never repeats a token, wherever it was given', async () => {
    for (const url of ['sqlite:leases.db', 'redis://localhost', 'http://a:7420']) {
      const token = 'a secret'
      const said = await openTenure(url, { holder: 'a', token }).catch((error: unknown) => error)
      expect(said).toMatchObject({ code: 'INVALID_INPUT', details: { field: 'token' } })
      expect(String(said)).not.toContain('secret')
    }
  })

  it('refuses an option of another store', async () => {
    const options = { holder: 'a', synchronous: 'full' } as const
    await expect(openTenure('redis://localhost', options)).rejects.toThrow(
      'synchronous must not be given for a redis store, got "full"',
    )
    await expect(openTenure('memory:', { holder: 'a', buckets: 2 })).rejects.toMatchObject({
      details: { field: 'buckets' },
    })
  })

  it('refuses a source that is neither a URL nor a known client', async () => {
    for (const source of [{}, { mysql: 1 }, { postgres: null }, { redis: {} }, null]) {
      await expect(openTenure(source as never, { holder: 'a' })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      })
    }
  })

  it('refuses options that contradict the URL, and unknown ones', async () => {
    const contradiction = openTenure('memory:?namespace=a', { holder: 'alice', namespace: 'b' })
    await expect(contradiction).rejects.toMatchObject({ details: { field: 'namespace' } })
    const unknown = openTenure('memory:', { holder: 'alice', ttlMs: 5 } as OpenOptions)
    await expect(unknown).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  })

  it('refuses a URL that says two things about one option', async () => {
    const contradiction = openTenure('memory:?namespace=a&namespace=b', { holder: 'alice' })
    await expect(contradiction).rejects.toThrow(
      'namespace must not differ from "a" beside it, got "b"',
    )
    await open('memory:?namespace=a&namespace=a')
  })

  it('says of a certificate that cannot be read that the store cannot be used', async () => {
    const url = 'postgres://u:secret@127.0.0.1:1/d?sslrootcert=/nowhere/root.crt'
    await expect(openTenure(url, { holder: 'alice' })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringContaining('/nowhere/root.crt') as string,
    })
  })

  it('refuses options that are left out where a holder is needed, and those that are none', async () => {
    await expect(openTenure('memory:', undefined as never)).rejects.toThrow(
      'options must be an object with a holder, got undefined',
    )
    for (const open of [openTenure, openApi, openQuestions]) {
      for (const options of [null, 'alice']) {
        await expect(open('memory:', options as never)).rejects.toMatchObject({
          code: 'INVALID_INPUT',
          details: { field: 'options' },
        })
      }
    }
  })

  it('creates nothing when the holder, or another option of the client, is refused', async () => {
    const file = path.join(directory, 'leases.db')
    const alice = { holder: 'alice' }
    for (const options of [
      { holder: '' },
      { ...alice, session: '' },
      { ...alice, sequential: 'yes' as unknown as boolean },
      { ...alice, claimWindowMs: 1 },
      { ...alice, orphans: 'keep' as 'renew' },
      { ...alice, maxHold: 'a day' as 'none' },
    ]) {
      await expect(openTenure(`sqlite:${file}`, options)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      })
    }
    expect(fs.existsSync(file)).toBe(false)
  })
})

describe('the public face', () => {
  it('exports these names and no others', () => {
    expect(Object.keys(index).toSorted()).toEqual([
      'ERROR_CODES',
      'FAULT_CHANNEL',
      'LeaseError',
      'importLedger',
      'isLeaseError',
      'onFault',
      'openApi',
      'openTenure',
    ])
  })
})
