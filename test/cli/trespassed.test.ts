/** A write through another's lease in the ledger: verified, exported, imported, and of no consequence for who holds what. */
import path from 'node:path'
import { expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { importLedger, openApi } from '../../src/open.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { workshop } from './tenure-process.ts'

it('a trespass is verified, exported and imported, and changes no lease', async () => {
  const shop = workshop()
  const api = await openApi(shop.storeUrl)
  const resource = parseResource('file:/repo/src')
  const id = systemRuntime.uuid()
  const wish = { id, resource, extent: 'subtree', holder: 'ada', session: 'ada' } as const
  await api.acquire({ ...wish, waitMs: 0, ttlMs: 3_600_000 })
  const target = parseResource('file:/repo/src/a.ts')
  const requestId = systemRuntime.uuid()
  const write = { id, by: 'mallory', target, reason: 'sed -i', requestId }
  expect(await api.trespass(write)).toMatchObject({ kind: 'trespassed', lease: { holder: 'ada' } })
  expect((await api.trespass(write)).kind).toBe('trespassed')
  expect((await api.trespass({ ...write, requestId: systemRuntime.uuid(), by: 'ada' })).kind).toBe(
    'not_found',
  )
  await api.close()
  const keys = ['--keys', path.join(shop.directory, 'keys.json')]
  for (const words of [
    ['keys', 'generate'],
    ['ledger', 'seal'],
    ['ledger', 'verify'],
  ]) {
    expect(await shop.hosted([...words, ...keys])).toMatchObject({ code: 0, stderr: '' })
  }
  const history = await shop.hosted(['history', '--type', 'trespassed', '--json'])
  expect(JSON.parse(history.stdout)).toMatchObject([
    { event: { by: 'mallory', target, holder: 'ada' } },
  ])
  const exported = await shop.hosted(['ledger', 'export'])
  const file = path.join(shop.directory, 'copy.db')
  await importLedger(`sqlite:${file}`, exported.stdout)
  const copy = await openApi(`sqlite:${file}`)
  const types = (await copy.history({})).map(({ event }) => event.type)
  expect(types).toEqual(['lease.issued', 'lease.trespassed'])
  expect((await copy.list({})).leases).toMatchObject([{ id, holder: 'ada' }])
  await copy.close()
})
