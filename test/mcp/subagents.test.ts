/** What a subagent takes inside of what its main agent has, where the store fails half way. */
import { expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import type { LeaseHost } from '../../src/mcp/lease-host.ts'
import { LEASE_TOOLS } from '../../src/mcp/lease-tools.ts'
import { FaultyApi, failWith, newWorld, type Fault } from '../client/harness.ts'

it('keeps nothing of several resources if the store goes away before the last of them', async () => {
  const { runtime, service } = newWorld()
  for (const resource of ['work:1', 'work:2'].map(parseResource)) {
    const asked = { id: runtime.uuid(), resource, holder: 'main', session: 'main' }
    expect(await service.acquire(asked)).toMatchObject({ kind: 'granted' })
  }
  const between = new FaultyApi(service, runtime)
  const away = failWith('STORE_UNAVAILABLE')
  const onlyFirst: Fault = (send, input) => {
    return between.count('derive') === 1 ? send() : away(send, input)
  }
  between.when('derive', onlyFirst)
  const host = {
    ...{ runtime, api: between.api, holder: 'sub', onCall: async () => undefined },
    readReach: (text: string) => ({ resource: parseResource(text), extent: 'exact' }),
  } as Partial<LeaseHost> as LeaseHost
  const asked = { resources: ['work:1', 'work:2'], parent: 'main' } as never
  const connection = { isOpen: true, onEnd: () => undefined }
  const answer = LEASE_TOOLS['lease_acquire']?.run(host, asked, connection)
  await expect(answer).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  const { leases } = await service.list({ state: 'active' })
  expect(leases.map(({ holder }) => holder)).toEqual(['main', 'main'])
})
