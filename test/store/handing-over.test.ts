/** In which order things go on in a process in which a lease is handed from one to the next. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { beforeEach, expect, it } from 'vitest'
import { TenureClient } from '../../src/client/tenure-client.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Backend } from '../../src/store/optimistic/backend.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { ReferenceBackend } from '../../src/testing/reference-backend.ts'
import { ServerTicks } from './server-ticks.ts'

const WAIT = { ttlMs: 60_000, waitMs: 60_000 }

let order: string[] = []
let isQuick = true
let ann: TenureClient
let ben: TenureClient

beforeEach(async () => {
  isQuick = true
  const ticks = new ServerTicks()
  const backend = noting(ticks.drive(new ReferenceBackend({ ticks })))
  const store = await OptimisticStore.open(backend, systemRuntime, ticks.time)
  const api = new LeaseService({ store, runtime: systemRuntime })
  ann = new TenureClient({ api, runtime: systemRuntime, holder: 'ann' })
  ben = new TenureClient({ api, runtime: systemRuntime, holder: 'ben' })
  order = []
  return async () => {
    await ann.close()
    await ben.close()
  }
})

/** Notes what each call tells. */
function noting(server: Backend): Backend {
  return new Proxy(server, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name)
      if (name === 'isQuick') return isQuick
      if (typeof member !== 'function') return member
      if (name !== 'attempt') return member.bind(target)
      return (group: Parameters<Backend['attempt']>[0]) => {
        const events = group.attempts.flatMap((attempt) => attempt.events)
        order.push(events.map(({ type, holder }) => `${type} ${holder}`).join(', '))
        return target.attempt(group)
      }
    },
  })
}

const HANDED_OVER = 'lease.released ann, lease.offered ben, lease.issued ben'

it.each([
  ['before', 'is quick', true, [HANDED_OVER, 'ben begins', 'lease.queued ann']],
  ['after', 'is slow', false, [HANDED_OVER, 'lease.queued ann', 'ben begins']],
])('a new holder begins %s the next wish is sent to a server that %s', async (...given) => {
  const [, , isServerQuick, wanted] = given
  isQuick = isServerQuick
  const first = await ann.acquire('work:A', WAIT)
  const waiting = ben.acquire('work:A', WAIT).then((lease) => {
    order.push('ben begins')
    return lease
  })
  await expect.poll(() => order).toContain('lease.queued ben')
  // It has been sent; it stands by once it has heard the answer.
  await nextTurn()
  order = []
  const again = first.release().then(() => ann.acquire('work:A', WAIT))
  const second = await waiting
  await expect.poll(() => order).toContain('lease.queued ann')
  expect(order).toEqual(wanted)
  await second.release()
  await (await again).release()
})

it('what is asked for in one turn shares a call, however many promises it goes through', async () => {
  const ask = async (name: string, detours: number): Promise<void> => {
    for (let detour = 0; detour < detours; detour += 1) await Promise.resolve()
    await ann.acquire(`work:${name}`, WAIT)
  }
  await Promise.all([ask('A', 0), ask('B', 5), ask('C', 50)])
  expect(order).toEqual([Array.from({ length: 3 }, () => 'lease.issued ann').join(', ')])
})
