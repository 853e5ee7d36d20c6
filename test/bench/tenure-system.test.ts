/** An application opens one client for its process, whatever it does at once: so does what is measured of Tenure. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { tenureClient, tenureUrl } from '../../bench/systems/tenure-system.ts'
import { openApi } from '../../src/open.ts'

const WORKERS = 5

it('all workers of a process are tasks of one client of Tenure, and take turns', async () => {
  const at = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-system-'))
  onTestFinished(() => fs.rmSync(at, { recursive: true, force: true }))
  const system = await tenureClient('sqlite').open({ at }, WORKERS)
  const takeTurn = async (): Promise<void> => {
    await system.release(await system.acquire('wanted', 60_000))
  }
  await Promise.all(Array.from({ length: WORKERS }, takeTurn))
  await system.close()

  const api = await openApi(tenureUrl('sqlite', { at }))
  const { leases } = await api.list({ state: 'released' })
  await api.close()
  expect(leases).toHaveLength(WORKERS)
  expect(new Set(leases.map(({ session }) => session)).size).toBe(1)
})
