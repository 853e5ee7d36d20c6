import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { takeTurn, waitForTurn, type Turn } from '../../src/delegation/turn.ts'

function directory(): string {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-turn-'))
  onTestFinished(() => fs.rmSync(made, { recursive: true, force: true }))
  return made
}

function sealing(place: string): Turn {
  return { directory: place, name: 'sealing', act: 'seal' }
}

it('is one at a time, within a process as between two, and free again afterwards', () => {
  const place = directory()
  const end = takeTurn(sealing(place))
  expect(() => takeTurn(sealing(place))).toThrow(
    expect.objectContaining({ code: 'STORE_CONFLICT' }),
  )
  end()
  const other = path.join(place, `sealing-${os.hostname()}-${process.ppid}`)
  fs.writeFileSync(other, '')
  expect(() => takeTurn(sealing(place))).toThrow(other)
  expect(fs.readdirSync(place)).toEqual([path.basename(other)])
  fs.rmSync(other)
  takeTurn(sealing(place))()
  expect(fs.readdirSync(place)).toEqual([])
})

it('is one at a time in a directory, by whatever path that is reached', () => {
  const place = directory()
  const link = path.join(directory(), 'link')
  fs.symlinkSync(place, link)
  const end = takeTurn(sealing(place))
  for (const way of [link, path.relative(process.cwd(), place)]) {
    expect(() => takeTurn(sealing(way))).toThrow(
      expect.objectContaining({ code: 'STORE_CONFLICT' }),
    )
  }
  end()
  takeTurn(sealing(link))()
  expect(fs.readdirSync(place)).toEqual([])
})

it('is not held by whoever has died on this host; of another host nobody can tell', () => {
  const place = directory()
  const { pid } = spawnSync(process.execPath, ['-e', '0'])
  fs.writeFileSync(path.join(place, `sealing-${os.hostname()}-${pid}`), '')
  // A process of this very number may have died before this one was given it.
  fs.writeFileSync(path.join(place, `sealing-${os.hostname()}-${process.pid}`), '')
  takeTurn(sealing(place))()
  expect(fs.readdirSync(place)).toEqual([])
  fs.writeFileSync(path.join(place, `sealing-elsewhere-${pid}`), '')
  expect(() => takeTurn(sealing(place))).toThrow('remove it if its maker died elsewhere')
})

it('comes to whoever waits once the other has ended it', async () => {
  const place = directory()
  const end = takeTurn(sealing(place))
  const waiting = waitForTurn(sealing(place))
  expect(await Promise.race([waiting, new Promise((resolve) => setImmediate(resolve))])).toBe(
    undefined,
  )
  end()
  const endOther = await waiting
  endOther()
  expect(fs.readdirSync(place)).toEqual([])
})
