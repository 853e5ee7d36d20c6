import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { takeTurn } from '../../src/cli/sealing-turn.ts'

function directory(): string {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-turn-'))
  onTestFinished(() => fs.rmSync(made, { recursive: true, force: true }))
  return made
}

it('is one at a time, within a process as between two, and free again afterwards', () => {
  const place = directory()
  const end = takeTurn(place)
  expect(() => takeTurn(place)).toThrow(expect.objectContaining({ code: 'STORE_CONFLICT' }))
  end()
  const other = path.join(place, `sealing-${os.hostname()}-${process.ppid}`)
  fs.writeFileSync(other, '')
  expect(() => takeTurn(place)).toThrow(other)
  expect(fs.readdirSync(place)).toEqual([path.basename(other)])
  fs.rmSync(other)
  takeTurn(place)()
  expect(fs.readdirSync(place)).toEqual([])
})

it('is not held by whoever has died on this host; of another host nobody can tell', () => {
  const place = directory()
  const { pid } = spawnSync(process.execPath, ['-e', '0'])
  fs.writeFileSync(path.join(place, `sealing-${os.hostname()}-${pid}`), '')
  // A process of this very number may have died before this one was given it.
  fs.writeFileSync(path.join(place, `sealing-${os.hostname()}-${process.pid}`), '')
  takeTurn(place)()
  expect(fs.readdirSync(place)).toEqual([])
  fs.writeFileSync(path.join(place, `sealing-elsewhere-${pid}`), '')
  expect(() => takeTurn(place)).toThrow('remove it if its maker died elsewhere')
})
