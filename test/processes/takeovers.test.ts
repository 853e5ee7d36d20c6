import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { it } from 'vitest'
import { expectOneWriter } from './takeover-assertions.ts'
import { runTakeovers } from './takeovers.ts'

it('three orchestrators, killed, stopped and revoked in turns, are one writer to guarded processors', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-takeovers-'))
  try {
    const store = `sqlite:${path.join(directory, 'leases.db')}`
    const report = await runTakeovers({ store, processes: 3, takeovers: 10 })
    expectOneWriter(report, 10)
  } finally {
    fs.rmSync(directory, { recursive: true, force: true })
  }
}, 120_000)
