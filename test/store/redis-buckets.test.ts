/** Attempts of one process that lie in several buckets, each of which may be on another node of a Cluster. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { sessionDigest } from '../../src/service/session-digest.ts'
import type { EntryQuery, Store } from '../../src/store-port/store.ts'
import { openRedisBackend } from '../../src/store/redis/redis-store.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { direct, server, Subject, TTL_MS, until } from './redis-subject.ts'
import { ServerTicks } from './server-ticks.ts'

const BUCKETS = 2

/** A client whose calls in one bucket go wrong, as those to one node of several do. */
async function clientOf(url: string) {
  const client = direct(url)
  await until(async () => client.status === 'ready')
  const call = client.call.bind(client) as (...args: string[]) => Promise<unknown>
  const faults = new Map<string, (send: () => Promise<unknown>) => Promise<unknown>>()
  Object.assign(client, {
    call: (...args: string[]) => {
      const send = () => call(...args)
      const fault = faults.get(args[3] ?? '')
      return fault === undefined ? send() : fault(send)
    },
  })
  return { client, faults }
}

async function refuse(): Promise<never> {
  throw new Error('READONLY You cannot write against a read only replica.')
}

async function loseAnswer(send: () => Promise<unknown>): Promise<never> {
  await send()
  throw new Error('Connection is closed.')
}

/** Enough to have some in each bucket. */
const NAMES = Array.from({ length: 8 }, (_, n) => `n-${n}`)

async function askForAll(subject: Subject) {
  const answers = await Promise.allSettled(NAMES.map((name) => subject.acquire({}, name)))
  return answers.map((answer, n) => ({ answer, resource: parseResource(`work:${NAMES[n]}`) }))
}

async function open() {
  const { url } = await server()
  const { client, faults } = await clientOf(url)
  const subject = await Subject.openAtNoTime({ client, buckets: BUCKETS })
  const bystander = await Subject.open({ url, buckets: BUCKETS })
  const isThere = async (resource: ReturnType<typeof parseResource>): Promise<boolean> => {
    const { entries } = await bystander.store.find({ resource, states: ['active'], limit: 1 })
    return entries.length > 0
  }
  return { subject, faults, isThere }
}

describe('a group of attempts in several buckets', () => {
  it('tells each what became of it when one bucket refuses', async () => {
    const { subject, faults, isThere } = await open()
    faults.set('tenure:{default/1}', refuse)
    const kinds = new Set<string>()
    for (const { answer, resource } of await askForAll(subject)) {
      kinds.add(answer.status)
      expect(await isThere(resource)).toBe(answer.status === 'fulfilled')
      if (answer.status === 'fulfilled') continue
      expect(answer.reason).toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
    }
    expect(kinds).toEqual(new Set(['fulfilled', 'rejected']))
    faults.clear()
    const again = await askForAll(subject)
    expect(again.every(({ answer }) => answer.status === 'fulfilled')).toBe(true)
  })

  it('tells nobody that nothing was written when one bucket refuses and the other is not heard', async () => {
    const { subject, faults, isThere } = await open()
    faults.set('tenure:{default/0}', refuse)
    faults.set('tenure:{default/1}', loseAnswer)
    let written = 0
    for (const { answer, resource } of await askForAll(subject)) {
      if (!(await isThere(resource))) continue
      written += 1
      expect(answer).toMatchObject({ reason: { code: 'STORE_OUTCOME_UNKNOWN' } })
    }
    expect(written).toBeGreaterThan(0)
  })

  it('wakes the waiters of this process where one bucket is not heard, which the server was not asked to do', async () => {
    const { subject, faults } = await open()
    const woken = new Set<string>()
    await subject.store.subscribe(sessionDigest('bob'), ({ leaseIds }) =>
      leaseIds?.forEach((id) => woken.add(id)),
    )
    const waits = NAMES.map(async (name) => {
      const resource = parseResource(`work:${name}`)
      const { id: held } = await subject.grant(name)
      const id = systemRuntime.uuid()
      const wish = { holder: 'bob', session: 'bob', ttlMs: TTL_MS, waitMs: TTL_MS }
      expect((await subject.api.acquire({ id, resource, ...wish })).kind).toBe('queued')
      return { id, resource, held }
    })
    const waiters = await Promise.all(waits)
    faults.set('tenure:{default/1}', loseAnswer)
    const releases = await Promise.allSettled(
      waiters.map(({ held, resource }) => {
        const requestId = systemRuntime.uuid()
        return subject.api.release({ id: held, resource, holder: 'ada', requestId })
      }),
    )
    expect(new Set(releases.map(({ status }) => status)).size).toBe(2)
    expect([...woken].toSorted()).toEqual(waiters.map(({ id }) => id).toSorted())
  })
})

/** On a clock that stands still, so that the first leases of the buckets are created in one moment. */
async function openAtOneMoment() {
  const { url } = await server()
  const ticks = new ServerTicks()
  const backend = await openRedisBackend({ url, buckets: BUCKETS, nowUs: ticks.nowUs })
  const store = await OptimisticStore.open(ticks.drive(backend), systemRuntime, ticks.time)
  const api = new LeaseService({ store, runtime: systemRuntime })
  onTestFinished(() => api.close())
  return { api, store }
}

async function pagesOf(store: Store, query: EntryQuery): Promise<readonly string[]> {
  const { entries, next } = await store.find(query)
  const ids = entries.map(({ id }) => id)
  expect(ids.length).toBeGreaterThan(0)
  return next === null ? ids : [...ids, ...(await pagesOf(store, { ...query, after: next }))]
}

describe('leases in several buckets', () => {
  it('are listed page by page, each once, though some were created in one moment', async () => {
    const { api, store } = await openAtOneMoment()
    const wishes = NAMES.map((name) => {
      return {
        id: systemRuntime.uuid(),
        resource: parseResource(`work:${name}`),
        holder: 'ada',
      }
    })
    const asked = { session: 'ada', ttlMs: TTL_MS, waitMs: 0 }
    await Promise.all(wishes.map((wish) => api.acquire({ ...wish, ...asked })))
    const all = (await store.find({ limit: 100 })).entries.map(({ id }) => id)
    expect(all.toSorted()).toEqual(wishes.map(({ id }) => id).toSorted())
    expect(await pagesOf(store, { limit: 1 })).toEqual(all)
    expect(await pagesOf(store, { limit: 3, holder: 'ada' })).toEqual(all)
    expect(await pagesOf(store, { limit: 1, states: ['active'] })).toEqual(all)
    for (const wish of wishes) await api.release({ ...wish, requestId: systemRuntime.uuid() })
    const ended = await pagesOf(store, { limit: 1, states: ['released'] })
    expect(ended.toSorted()).toEqual(all.toSorted())
    expect(await pagesOf(store, { limit: 3, states: ['released'], holder: 'ada' })).toEqual(ended)
  })
})
