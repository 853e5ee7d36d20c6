/** A file that cannot be read is not one that is absent: what it decides stays undecided. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Tenure } from '../../src/client/contract.ts'
import { gitCommonDirectory } from '../../src/cli/default-store.ts'
import { guard, type GuardedLease } from '../../src/guard/index.ts'
import { openTenure } from '../../src/open.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { sqliteBench, temporaryDirectory } from '../files/harness.ts'
import { failToRead } from './failing-files.ts'

async function client(url: string): Promise<Tenure> {
  const tenure = await openTenure(url, { holder: 'ann' })
  onTestFinished(() => tenure.close())
  return tenure
}

/** A directory and a link to it. */
function linkedDirectory(): { readonly real: string; readonly link: string } {
  const top = temporaryDirectory()
  const [real, link] = [path.join(top, 'real'), path.join(top, 'link')]
  fs.mkdirSync(real)
  fs.symlinkSync('real', link)
  return { real, link }
}

const LONG = 'n'.repeat(300)

describe('a path that cannot be followed', () => {
  it.each([
    ['EIO', 'STORE_UNAVAILABLE'],
    ['ESTALE', 'STORE_UNAVAILABLE'],
    ['EMFILE', 'STORE_UNAVAILABLE'],
    ['EACCES', 'INVALID_INPUT'],
  ])('is not leased under its spelling: %s is %s', async (fault, code) => {
    const { real, link } = linkedDirectory()
    const tenure = await client('memory:')
    await tenure.acquire(`file:${real}/a`)
    failToRead(['/link/a', '/link'], fault)
    const error: unknown = await tenure
      .acquire(`file:${link}/a`, { waitMs: 0 })
      .catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code, effect: 'none' })
    expect((error as Error).message).toContain(`${link}/a`)
    expect((error as Error).message).toContain(fault)
  })

  it('is refused to an agent, too', async () => {
    const { link } = linkedDirectory()
    const { files } = await sqliteBench(path.join(temporaryDirectory(), 'leases.db'))
    const fault = failToRead('/link', 'EIO')
    const request = { filePath: link, agentId: 'agent-1' }
    await expect(files.acquireLease(request)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    await expect(files.isFileLocked(link)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    fault.heal()
    expect(await files.isFileLocked(link)).toBe(false)
  })

  it('is named when it goes in a circle, or is too long for the system', async () => {
    const { real } = linkedDirectory()
    fs.symlinkSync('b', path.join(real, 'a'))
    fs.symlinkSync('a', path.join(real, 'b'))
    fs.symlinkSync('missing/../self', path.join(real, 'self'))
    const tenure = await client('memory:')
    for (const name of ['a', 'a/x', 'self', LONG]) {
      const asked = tenure.acquire(`file:${real}/${name}`)
      await expect(asked).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        details: { field: 'resource', path: `${real}/${name}` },
      })
    }
  })

  it('is not written by a guard', async () => {
    const { real, link } = linkedDirectory()
    const Driver = await loadSqlite()
    const database = new Driver(':memory:')
    onTestFinished(() => void database.close())
    const files = guard.file(database)
    files.init()
    const id = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
    const lease = (fence: number): GuardedLease => ({ id, resource: `file:${link}/a`, fence })
    failToRead('/link/a', 'ESTALE')
    expect(() => files.write(lease(1), 'x')).toThrow(/link\/a.*ESTALE/)
    expect(fs.readdirSync(real)).toEqual([])
  })

  it('is no place for a store', async () => {
    const { link } = linkedDirectory()
    failToRead('/link', 'EIO')
    await expect(client(`sqlite:${link}/leases.db`)).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    })
  })
})

describe.runIf(process.platform === 'linux')('a host whose clock cannot be told', () => {
  it.each(['/boot_id', '/timens_offsets'])('ends no lease: %s', async (file) => {
    const url = `sqlite:${path.join(temporaryDirectory(), 'leases.db')}`
    const first = await client(url)
    const lease = await first.acquire('work:W')
    const fault = failToRead(file, 'EMFILE')
    const other = openTenure(url, { holder: 'bob', synchronous: 'normal' })
    await expect(other).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    await expect(client('memory:')).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    fault.heal()
    const again = await openTenure(url, { holder: 'bob', synchronous: 'normal' })
    expect((await again.get(lease.id))?.state).toBe('active')
    await again.close()
  })
})

describe('a repository that cannot be read', () => {
  it.each([
    ['.git', 'EIO', 'STORE_UNAVAILABLE'],
    ['.git', 'EACCES', 'INVALID_INPUT'],
    ['HEAD', 'EACCES', 'INVALID_INPUT'],
    ['commondir', 'EMFILE', 'STORE_UNAVAILABLE'],
  ])('is not left for another store: %s, %s', (file, fault, code) => {
    const [top, common] = [temporaryDirectory(), temporaryDirectory()]
    fs.writeFileSync(path.join(common, 'HEAD'), 'ref: refs/heads/main\n')
    fs.writeFileSync(path.join(common, 'commondir'), '.\n')
    fs.writeFileSync(path.join(top, '.git'), `gitdir: ${common}\n`)
    expect(gitCommonDirectory(top, {})).toBe(common)
    failToRead(`/${file}`, fault)
    const look = (): unknown => gitCommonDirectory(top, {})
    expect(look).toThrow(fault)
    try {
      look()
    } catch (error) {
      expect(error).toMatchObject({ code })
    }
  })
})
