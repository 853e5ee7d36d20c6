/** A question makes nothing: a mistyped path is not answered by an empty store that nobody uses. */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { workshop } from './tenure-process.ts'

const ID = randomUUID()

const QUESTIONS: readonly (readonly string[])[] = [
  ['ls'],
  ['ls', 'work:W-1'],
  ['show', ID],
  ['show', 'work:W-1'],
  ['why', 'work:W-1'],
  ['history'],
  ['watch'],
  ['fleet', 'nodes'],
  ['config', 'ls'],
  ['config', 'get', 'max_renewals'],
  ['config', 'unset', 'max_renewals'],
  ['ledger', 'export'],
  ['ledger', 'digest'],
  ['ledger', 'seal'],
  ['ledger', 'replay', '--at', '1h'],
  ['renew', 'work:W-1'],
  ['release', 'work:W-1'],
  ['upgrade', 'work:W-1'],
  ['downgrade', 'work:W-1'],
  ['transfer', 'work:W-1', '--next'],
  ['adopt', ID],
  ['revoke', ID],
  ['release-all', 'agent-7'],
  ['cleanup'],
]

describe('of a store that is not there', () => {
  it.each(QUESTIONS.map((words) => [words.join(' '), words] as const))(
    'tenure %s says so and makes nothing',
    async (_name, words) => {
      const shop = workshop()
      const file = path.join(shop.directory, 'mistyped', 'leases.db')
      const { code, stdout, stderr } = await shop.hosted([...words, '--store', `sqlite:${file}`])
      expect([code, stdout]).toEqual([15, ''])
      expect(stderr).toBe(
        `tenure: no store at ${file}; tenure acquire and tenure run make one (STORE_UNAVAILABLE)\n`,
      )
      expect(fs.existsSync(path.dirname(file))).toBe(false)
    },
  )

  it('an empty file is none either, and stays empty', async () => {
    const shop = workshop()
    const file = path.join(shop.directory, 'empty.db')
    fs.writeFileSync(file, '')
    const { code } = await shop.tenure(['ls', '--store', `sqlite:${file}`])
    expect(code).toBe(15)
    expect(fs.readdirSync(shop.directory).filter((name) => name.startsWith('empty'))).toEqual([
      'empty.db',
    ])
    expect(fs.statSync(file).size).toBe(0)
  })

  it.each([
    ['acquire', ['acquire', 'work:W-1']],
    ['run', ['run', 'work:W-1', '--', 'true']],
    ['config set', ['config', 'set', 'max_renewals', '5']],
  ])('tenure %s makes it', async (_name, words) => {
    const shop = workshop()
    const file = path.join(shop.directory, 'new', 'leases.db')
    expect(await shop.tenure(['--store', `sqlite:${file}`, ...words])).toMatchObject({ code: 0 })
    expect(await shop.tenure(['ls', '--store', `sqlite:${file}`])).toMatchObject({ code: 0 })
  })
})

describe('a variable that is set and empty', () => {
  it.each(['TENURE_STORE', 'TENURE_NAMESPACE', 'TENURE_HOLDER', 'TENURE_SESSION', 'TENURE_DEBUG'])(
    '%s is refused in one line',
    async (name) => {
      const shop = workshop()
      const words = name === 'TENURE_STORE' ? [] : ['--store', `sqlite:${shop.directory}/l.db`]
      const ended = await shop.tenure(['acquire', 'work:W-1', ...words], { env: { [name]: '' } })
      expect(ended).toMatchObject({ code: 2, stdout: '' })
      expect(ended.stderr).toBe(
        `tenure: ${name} must have a value or not be set, got "" (INVALID_INPUT)\n`,
      )
    },
  )

  it('TENURE_KEYS is refused in one line', async () => {
    const ended = await workshop().tenure(['keys', 'ls'], { env: { TENURE_KEYS: '' } })
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toContain('TENURE_KEYS must have a value or not be set')
  })

  it('is passed over where an option says otherwise', async () => {
    const shop = workshop()
    const env = { TENURE_STORE: '', TENURE_HOLDER: '' }
    const words = ['acquire', 'work:W-1', '--store', `sqlite:${shop.directory}/l.db`]
    expect(await shop.tenure([...words, '--holder', 'ann'], { env })).toMatchObject({ code: 0 })
  })
})
