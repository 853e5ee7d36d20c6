/** Whom a server is asked to wake: nobody who is known to wait in the asking process alone. */
import { beforeEach, expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import type { Wake } from '../../src/core/realm.ts'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Backend, Group } from '../../src/store/optimistic/backend.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { ReferenceBackend } from '../../src/testing/reference-backend.ts'
import { ServerTicks } from './server-ticks.ts'
import { sessionDigest } from '../../src/service/session-digest.ts'

const RESOURCE = parseResource('work:A')
const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`

let asked: Wake[]
let losesAnswers: boolean
let here: LeaseService
let elsewhere: LeaseService

/** Notes whom each attempt asks to wake, and may then lose the answer. */
function noting(backend: Backend): Backend {
  return new Proxy(backend, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      if (name !== 'attempt') return member.bind(target)
      return async (group: Group) => {
        asked.push(...group.attempts.flatMap(({ wakes }) => wakes))
        const reply = await target.attempt(group)
        if (losesAnswers) throw new LeaseError('STORE_OUTCOME_UNKNOWN', 'the answer was lost')
        return reply
      }
    },
  })
}

function ticket(n: number) {
  return { id: idOf(n), resource: RESOURCE, holder: `h${n}`, session: `s${n}` }
}

function wish(n: number) {
  return { ...ticket(n), ttlMs: 60_000, waitMs: 60_000 }
}

beforeEach(async () => {
  asked = []
  losesAnswers = false
  const ticks = new ServerTicks()
  const backend = noting(ticks.drive(new ReferenceBackend({ ticks })))
  const open = async (): Promise<LeaseService> => {
    const store = await OptimisticStore.open(backend, systemRuntime, ticks.time)
    return new LeaseService({ store, runtime: systemRuntime })
  }
  here = await open()
  elsewhere = await open()
  expect((await here.acquire(wish(1))).kind).toBe('granted')
  return async () => {
    await here.close()
    await elsewhere.close()
  }
})

it('a ticket that was filed here and is waited for here is woken here alone', async () => {
  const heard: unknown[] = []
  await here.onWake({ session: 's2' }, (signal) => heard.push(signal))
  expect((await here.acquire(wish(2))).kind).toBe('queued')
  expect((await here.release(ticket(1))).kind).toBe('released')
  await Promise.resolve()
  expect(heard).toEqual([{ leaseIds: [idOf(2)] }])
  expect(asked).toEqual([])
})

it('it is woken although the answer to whoever made way for it was lost', async () => {
  const heard: unknown[] = []
  await here.onWake({ session: 's2' }, (signal) => heard.push(signal))
  expect((await here.acquire(wish(2))).kind).toBe('queued')
  losesAnswers = true
  await expect(here.release(ticket(1))).rejects.toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN' })
  expect(heard).toEqual([{ leaseIds: [idOf(2)] }])
  expect(asked).toEqual([])
})

it('a lease that was once such a ticket may be used elsewhere', async () => {
  await here.onWake({ session: 's2' }, () => undefined)
  await here.acquire(wish(2))
  await here.release(ticket(1))
  expect((await here.claim(ticket(2))).kind).toBe('granted')
  await here.revoke({ id: idOf(2), resource: RESOURCE, by: 'ada' })
  expect(asked).toEqual([{ session: sessionDigest('s2'), leaseId: idOf(2) }])
})

it.each([
  ['that another process filed', () => elsewhere, () => here],
  ['whose session nobody listens for here', () => here, () => elsewhere],
])('a ticket %s is told to the server', async (_which, filing, listening) => {
  await listening().onWake({ session: 's2' }, () => undefined)
  expect((await filing().acquire(wish(2))).kind).toBe('queued')
  expect((await here.release(ticket(1))).kind).toBe('released')
  expect(asked).toEqual([{ session: sessionDigest('s2'), leaseId: idOf(2) }])
})
