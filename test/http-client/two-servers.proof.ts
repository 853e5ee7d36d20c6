/** The long form, on the stores that several servers stand before. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { freshDatabase, freshRedis } from '../servers/shared-servers.ts'
import { expectKillSurvived } from './two-servers.ts'

const GOES_ON_WITHIN_MS = 2_000

it.each([
  ['postgres', freshDatabase],
  ['redis', freshRedis],
] as const)(
  '%s: one of two servers is killed, and everybody goes on within 2 s',
  async (name, fresh) => {
    await using place = await fresh()
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-two-servers-'))
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
    const load = { processes: 8, troubleMs: 30_000 }
    const { logs, calmAtUs } = await expectKillSurvived({ name, place, directory, ...load })
    const firstMs = logs.map((log) => {
      const start = log.find((line) => line.kind === 'start' && line.atUs > calmAtUs)
      return ((start?.atUs ?? Infinity) - calmAtUs) / 1_000
    })
    expect(Math.max(...firstMs)).toBeLessThan(GOES_ON_WITHIN_MS)
  },
)
