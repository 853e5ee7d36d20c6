import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'
import { expectOneWriter } from './takeover-assertions.ts'
import { runTakeovers } from './takeovers.ts'

it('three orchestrators are one writer through 200 takeovers, a third of them revocations', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-takeovers-'))
  try {
    const store = `sqlite:${path.join(directory, 'leases.db')}`
    const report = await runTakeovers({ store, processes: 3, takeovers: 200 })
    expect(report.revocations).toBeGreaterThan(50)
    expect(report.onlyRevoked).toBeGreaterThan(0)
    expectOneWriter(report, 200)
  } finally {
    fs.rmSync(directory, { recursive: true, force: true })
  }
})
