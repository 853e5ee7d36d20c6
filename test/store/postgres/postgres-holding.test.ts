/** Whoever keeps missing on a server that can lock: it gets through, and nobody else does meanwhile. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { parseResource } from '../../../src/core/resource.ts'
import { openApi } from '../../../src/open.ts'
import { systemRuntime } from '../../../src/runtime/system-runtime.ts'
import type { AcquireRequest, LeaseApi } from '../../../src/service/lease-api.ts'
import { LeaseService } from '../../../src/service/lease-service.ts'
import { openPostgresBackend } from '../../../src/store/postgres/postgres-store.ts'
import type { Backend } from '../../../src/store/optimistic/backend.ts'
import { OptimisticStore } from '../../../src/store/optimistic/optimistic-store.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'

let place: Place
let other: LeaseApi
let backend: Backend
let api: LeaseApi
/** What somebody else did while something was held, if anything was; and whether it was done before the end. */
let meanwhile: Promise<unknown> | null
let wasDone: boolean

beforeAll(async () => {
  place = await freshDatabase()
})

afterAll(() => place.remove())

function wish(resource: string): AcquireRequest {
  const leaseId = systemRuntime.uuid()
  const who = { holder: leaseId, session: leaseId }
  return { id: leaseId, resource: parseResource(resource), ...who, ttlMs: 60_000, waitMs: 60_000 }
}

interface Disturbance {
  /** Once, after the transaction has begun and before it holds anything. */
  readonly before?: () => Promise<unknown>
  /** Once, while it holds what it is about. */
  readonly during?: () => Promise<unknown>
}

/** Somebody else asks for the same before every ordinary call, and disturbs those that hold it. */
function disturb(resource: string, { before, during = async () => {} }: Disturbance): void {
  const { attempt, holding } = backend
  backend.attempt = async (group) => {
    if (group.attempts.length > 0) await other.acquire(wish(resource))
    return attempt.call(backend, group)
  }
  backend.holding = async (work) => {
    const result = await holding?.call(backend, (ask) =>
      work(async (group) => {
        if (meanwhile === null) await before?.()
        const reply = await ask(group)
        let isDone = false
        meanwhile ??= during().then(() => (isDone = true))
        await sleep(100)
        wasDone ||= isDone
        return reply
      }),
    )
    return result as Awaited<ReturnType<typeof work>>
  }
}

beforeEach(async () => {
  meanwhile = null
  wasDone = false
  other = await openApi(place.url)
  backend = await openPostgresBackend({ url: place.url })
  // Without pauses between the tries: nobody here has to get out of step.
  const store = await OptimisticStore.open(backend, { ...systemRuntime, random: () => 0 })
  api = new LeaseService({ store, runtime: systemRuntime })
})

afterEach(async () => {
  await api.close()
  await other.close()
})

it.each(['work:W-1', 'file:/src/a.ts'])('gets into a busy queue: %s', async (resource) => {
  await other.acquire(wish(resource))
  disturb(resource, { during: () => other.acquire(wish(resource)) })
  const asked = wish(resource)
  expect(await api.acquire(asked)).toMatchObject({ kind: 'queued' })
  expect(meanwhile).not.toBeNull()
  await meanwhile
  expect(wasDone).toBe(false)
  expect(await api.get({ id: asked.id })).toMatchObject({ state: 'pending' })
})

it('decides by settings that were changed when it came to hold', async () => {
  const resource = 'work:W-2'
  await other.acquire(wish(resource))
  const everywhere = { scope: 'global', resourceId: null } as const
  const before = () => other.configure({ key: 'default_ttl_seconds', value: '45', ...everywhere })
  disturb(resource, { before })
  const { ttlMs: _own, ...asked } = wish(resource)
  expect(await api.acquire(asked)).toMatchObject({ kind: 'queued' })
  expect(meanwhile).not.toBeNull()
  expect(await api.get({ id: asked.id })).toMatchObject({ ttlMs: 45_000 })
})
