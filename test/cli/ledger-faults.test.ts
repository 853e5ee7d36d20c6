/** What fails beside a seal is reported with its source, and hides nothing that went wrong before. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { firstOddLease } from '../../src/cli/ledger-verdict.ts'
import { noteLedger } from '../../src/cli/secret-files.ts'
import { Replacement } from '../../src/delegation/ledger-files.ts'
import { sealRepeatedly } from '../../src/cli/ledger-sealer.ts'
import { takeTurn } from '../../src/delegation/turn.ts'
import { LeaseError } from '../../src/core/errors.ts'
import { writeKeyFile } from '../../src/delegation/key-file.ts'
import { generateSigningKey } from '../../src/registrar/ed25519.ts'
import { EMPTY_KEY_RING, withFirstKey } from '../../src/registrar/key-ring.ts'
import { onFault, type Fault } from '../../src/runtime/diagnostics.ts'
import { Family } from '../delegation/family.ts'

function place(): string {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-faults-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  return directory
}

function heard(): readonly Fault[] {
  const faults: Fault[] = []
  onTestFinished(onFault((fault) => faults.push(fault)))
  return faults
}

/** A call of the file system that fails once, from the time on at which it is first meant. */
function failing(call: 'rmSync' | 'writeFileSync' | 'readdirSync', code: string): void {
  const spied = vi.spyOn(fs, call).mockImplementationOnce(() => {
    throw Object.assign(new Error(`${code}: ${call}`), { code })
  })
  onTestFinished(() => spied.mockRestore())
}

it('a turn that cannot be cleared away is over, and reported', () => {
  const turn = { directory: place(), name: 'sealing', act: 'seal' }
  const faults = heard()
  const end = takeTurn(turn)
  failing('rmSync', 'EACCES')
  end()
  expect(faults).toMatchObject([{ source: 'ledger/turn', error: { code: 'EACCES' } }])
  takeTurn(turn)()
})

it('a turn whose directory cannot be read is not taken', () => {
  const turn = { directory: place(), name: 'sealing', act: 'seal' }
  failing('readdirSync', 'EIO')
  expect(() => takeTurn(turn)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }))
  expect(fs.readdirSync(turn.directory)).toEqual([])
  takeTurn(turn)()
})

it('a temporary file that stays behind is reported', () => {
  const file = path.join(place(), 'copy')
  const faults = heard()
  const replacement = new Replacement(file)
  failing('rmSync', 'EBUSY')
  replacement.end()
  expect(faults).toMatchObject([{ source: 'ledger/replacement', error: { code: 'EBUSY' } }])
})

it('a file of keys that may not be written to is reported, and no other failure is taken for that', async () => {
  const keyFile = path.join(place(), 'keys.json')
  writeKeyFile(keyFile, withFirstKey(EMPTY_KEY_RING, generateSigningKey(), 0))
  const faults = heard()
  failing('writeFileSync', 'EROFS')
  expect(await noteLedger(keyFile, '/ledger')).toBe(false)
  expect(faults).toMatchObject([{ source: 'cli/note-ledger', error: { cause: { code: 'EROFS' } } }])
  failing('writeFileSync', 'EIO')
  await expect(noteLedger(keyFile, '/ledger')).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  expect(await noteLedger(keyFile, '/ledger')).toBe(true)
  expect(faults).toHaveLength(1)
})

it('an event that does not follow from those before it is reported, and its lease is odd', async () => {
  const family = new Family()
  const lease = await family.root('work:w')
  await family.release(lease)
  const faults = heard()
  const odd = await firstOddLease({
    get: (leaseId) => family.api.get(leaseId),
    list: (filter) => family.api.list(filter),
    settings: (resource) => family.api.settings(resource),
    history: async (filter) => (await family.api.history(filter)).slice(1),
  })
  expect(odd).toBe(lease.id)
  expect(faults[0]).toMatchObject({ source: 'cli/verify' })
})

it('a store that is away while a ledger is sealed at an interval is reported once, and a mistake ends it', async () => {
  const faults = heard()
  const remarks: string[] = []
  const away = new LeaseError('STORE_UNAVAILABLE', 'the server is away')
  const answers = [away, away, null, away, new TypeError('a mistake')]
  const seal = async (): Promise<void> => {
    const answer = answers.shift() ?? null
    if (answer !== null) throw answer
  }
  const remark = (text: string): void => void remarks.push(text)
  const sealing = sealRepeatedly(seal, { everyMs: 1, remark })
  await expect(sealing).rejects.toThrow('a mistake')
  expect(faults.map(({ source, count }) => [source, count])).toEqual([
    ['cli/seal', 1],
    ['cli/seal', 1],
  ])
  expect(remarks).toHaveLength(3)
})
