/** What renews the leases of models, on time that only the test moves. */
import { expect, it, onTestFinished } from 'vitest'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import { LeaseKeeper } from '../../src/mcp/lease-host.ts'
import type { AcquireAnswer } from '../../src/service/lease-api.ts'
import { newWorld } from '../client/harness.ts'

const TTL_MS = 90_000

function granted(answer: AcquireAnswer): LeaseInfo {
  if (answer.kind === 'granted') return answer.lease
  throw new Error(`must be granted, got ${answer.kind}`)
}

it('renews a derived lease for as long as its parent is renewed, however late that is', async () => {
  const { runtime, service } = newWorld()
  const keeper = new LeaseKeeper(service, runtime)
  onTestFinished(() => keeper.close())
  const [id, resource] = [runtime.uuid(), parseResource('work:1')]
  const main = { id, resource, holder: 'main', session: 'main', ttlMs: TTL_MS }
  granted(await service.acquire(main))
  const child = { id: runtime.uuid(), holder: 'sub', session: 'sub', by: 'main' }
  keeper.keep(granted(await service.derive({ ...child, parent: { id } })))
  // The child's first renewal comes before any of its parent's, and extends nothing.
  for (let round = 0; round < 3; round += 1) {
    await runtime.advance(TTL_MS / 2)
    expect(await service.renew({ id, holder: 'main' })).toMatchObject({ kind: 'renewed' })
  }
  await runtime.advance(TTL_MS / 2)
  expect(await service.get({ id: child.id })).toMatchObject({ state: 'active' })
})
