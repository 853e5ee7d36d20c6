/** Decisions on what is still on its way to the server. */
import { describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Backend, Group, GroupReply } from '../../src/store/speculation/backend.ts'
import { SpeculatingStore } from '../../src/store/speculation/speculating-store.ts'
import { MemoryBackend } from './memory-backend.ts'
import { ServerTicks } from './server-ticks.ts'

const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
const RESOURCE = parseResource('work:A')

function wish(n: number) {
  const own = { leaseId: idOf(n), holder: `h${n}`, session: `s${n}` }
  return { ...own, resource: RESOURCE, ttlMs: 60_000, waitMs: 60_000 }
}

/** A call as the server got it. It is carried out at once, if at all, and answered when the test says so. */
interface Call {
  readonly ids: readonly string[]
  answer(): void
}

/** A server whose answers wait, and to which some attempts come too late. */
class SlowServer {
  readonly calls: Call[] = []
  isSlow = false
  late: string | null = null
  readonly backend: Backend

  constructor(kept: Backend) {
    this.backend = new Proxy(kept, {
      get: (target, name) => {
        if (name === 'attempt') return (group: Group) => this.#attempt(target, group)
        const member: unknown = Reflect.get(target, name)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }

  async #attempt(target: Backend, group: Group): Promise<GroupReply> {
    const ids = group.attempts.map(({ places }) => places[0]?.footprint.leaseId ?? '')
    const attempts = group.attempts.map((attempt, index) => {
      return ids[index] === this.late ? { ...attempt, beforeUs: 0 } : attempt
    })
    const reply = await target.attempt({ ...group, attempts })
    if (!this.isSlow) return reply
    return new Promise((resolve) => {
      this.calls.push({ ids, answer: () => resolve(reply) })
    })
  }

  get asked(): readonly (readonly string[])[] {
    return this.calls.map(({ ids }) => ids)
  }
}

async function start() {
  const ticks = new ServerTicks()
  const memory = new MemoryBackend(ticks)
  const server = new SlowServer(ticks.drive(memory))
  const store = await SpeculatingStore.open(server.backend, systemRuntime, ticks.time)
  const api = new LeaseService({ store, runtime: systemRuntime })
  expect((await api.acquire(wish(1))).kind).toBe('granted')
  server.isSlow = true
  memory.misses = 0
  return { memory, server, api, ticks }
}

/** Time passes for everybody. */
async function pass(ticks: ServerTicks): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 5))
  ticks.pass(1)
}

describe('whoever gives back while another of its process joins the queue', () => {
  it('does not wait for the answer to the other, and hands over to it', async () => {
    const { memory, server, api, ticks } = await start()
    const joining = api.acquire(wish(2))
    await pass(ticks)
    const leaving = api.release(wish(1))
    await pass(ticks)
    expect(server.asked).toEqual([[idOf(2)], [idOf(1)]])
    for (const call of server.calls) call.answer()
    expect((await joining).kind).toBe('queued')
    expect((await leaving).kind).toBe('released')
    server.isSlow = false
    expect((await api.claim(wish(2))).kind).toBe('granted')
    expect(memory.misses).toBe(0)
    await api.close()
  })

  it('misses if the other missed, which is tried again only then', async () => {
    const { memory, server, api, ticks } = await start()
    server.late = idOf(2)
    const joining = api.acquire(wish(2))
    await pass(ticks)
    const leaving = api.release(wish(1))
    await pass(ticks)
    server.late = null
    expect(memory.misses).toBe(2)
    server.calls[0]?.answer()
    await pass(ticks)
    expect(server.asked).toEqual([[idOf(2)], [idOf(1)]])
    server.isSlow = false
    server.calls[1]?.answer()
    expect((await leaving).kind).toBe('released')
    expect(['queued', 'granted']).toContain((await joining).kind)
    await api.close()
  })

  it.each([
    ['a third', async (api: LeaseService) => void api.acquire(wish(3)), 2],
    [
      'a claim, which changes what is there',
      async (api: LeaseService) => void api.claim(wish(9)),
      1,
    ],
  ])('is not counted on by %s', async (_who, ask, calls) => {
    const { server, api, ticks } = await start()
    server.isSlow = false
    await api.acquire(wish(9))
    server.isSlow = true
    void (calls === 2 ? api.acquire(wish(2)) : ask(api))
    await pass(ticks)
    const leaving = api.release(wish(1))
    await pass(ticks)
    if (calls === 2) await ask(api)
    await pass(ticks)
    expect(server.calls).toHaveLength(calls)
    server.isSlow = false
    for (const call of server.calls) call.answer()
    expect((await leaving).kind).toBe('released')
    await api.close()
  })
})
