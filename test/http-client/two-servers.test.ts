/** The short form: one store, few processes, some seconds. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { openApi } from '../../src/open.ts'
import { serving } from '../server/serving.ts'
import { freshRedis } from '../servers/shared-servers.ts'
import { expectKillSurvived } from './two-servers.ts'

it('one of two servers is killed: no overlap, no lost grant, and everybody goes on', async () => {
  await using place = await freshRedis()
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-two-servers-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const load = { processes: 3, troubleMs: 1_500 }
  await expectKillSurvived({ name: 'redis', place, directory, ...load })
})

it('a server that stops under load answers everything that it has committed', async () => {
  const store = `memory:stopped-${process.pid}`
  const api = await openApi(store)
  onTestFinished(() => api.close())
  const server = await serving({ store })
  const answered: string[] = []
  const closing: Promise<void>[] = []
  let asked = 0
  const ask = async (): Promise<void> => {
    for (;;) {
      // Whoever is refused, or finds nobody there, has asked for the last time.
      const lease = await acquired(server.url, `work:${(asked += 1)}`).catch(() => null)
      if (lease === null) return
      answered.push(lease)
      if (answered.length === STOP_AFTER) closing.push(server.server.close())
    }
  }
  await Promise.all(Array.from({ length: 50 }, ask))
  await Promise.all(closing)
  expect(answered.length).toBeGreaterThanOrEqual(STOP_AFTER)
  const issued = await api.history({ types: ['lease.issued'] })
  expect(issued.map(({ event }) => event.leaseId).toSorted()).toEqual(answered.toSorted())
})

const STOP_AFTER = 300

/** The id of the lease; null where the server says no. */
async function acquired(url: string, resource: string): Promise<string | null> {
  const headers = { 'Content-Type': 'application/json' }
  const body = JSON.stringify({ resource, holder: 'ann' })
  const response = await fetch(`${url}/v1/leases`, { method: 'POST', headers, body })
  if (response.status !== 201) return null
  return ((await response.json()) as { readonly lease: { readonly id: string } }).lease.id
}
