/** The long form of the cycles in rich-leases.test.ts, and how soon they are broken on a quiet machine. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { openTenure } from '../../src/index.ts'
import { closeRing } from './rings.ts'
import { startActor } from './script.ts'

it.each([2, 4, 16])('a cycle of %i processes is broken within a second', async (length) => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-rich-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const store = `sqlite:${path.join(directory, 'leases.db')}`
  await using tenure = await openTenure(store, { holder: 'parent' })
  const names = Array.from({ length }, (_, index) => `p${index}`)
  const ring = await Promise.all(names.map((name) => startActor(store, name)))
  onTestFinished(async () => void (await Promise.all(ring.map((actor) => actor.kill()))))
  const spentMs = await closeRing(ring, tenure)
  process.stdout.write(`deadlock: ${length} processes, broken after ${spentMs.toFixed(0)} ms\n`)
  expect(spentMs).toBeLessThan(1_000)
})
