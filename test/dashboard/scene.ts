/** A small world with something of everything, played in some seconds: for the pictures of the docs, and for tests. */
import { setTimeout as sleep } from 'node:timers/promises'
import { parseResource } from '../../src/core/resource.ts'
import { openApi } from '../../src/open.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { AcquireRequest, LeaseApi } from '../../src/service/lease-api.ts'

const MINUTE = 60_000

export interface Scene {
  /** Waiters are heard of until then. */
  close(): Promise<void>
}

type Wanted = Partial<Omit<AcquireRequest, 'resource' | 'holder'>> & {
  readonly resource: string
  readonly holder: string
}

export class Stage {
  readonly api: LeaseApi
  readonly #tickets: { readonly id: string; readonly resource: string; readonly holder: string }[] =
    []
  #isClosed = false

  constructor(api: LeaseApi) {
    this.api = api
  }

  /** Takes a lease, or a place in its queue; gives the id of either. */
  async take(wanted: Wanted): Promise<string> {
    const { resource, holder, ...rest } = wanted
    const id = systemRuntime.uuid()
    const place = { id, resource: parseResource(resource), holder, session: holder }
    const answer = await this.api.acquire({
      ...{ ttlMs: 10 * MINUTE, maxRenewals: -1, waitMs: 0, ...place, ...rest },
    })
    if (answer.kind === 'queued') this.#tickets.push({ id, resource, holder })
    else if (answer.kind !== 'granted') throw new Error(`${resource} of ${holder}: ${answer.kind}`)
    return id
  }

  async release(id: string, holder: string): Promise<void> {
    await this.api.release({ id, holder, requestId: systemRuntime.uuid() })
  }

  async renew(id: string, holder: string): Promise<void> {
    await this.api.renew({ id, holder, ttlMs: 10 * MINUTE, requestId: systemRuntime.uuid() })
  }

  /** What a waiter does to be heard of, and to take what it is offered. */
  async keepWaiting(): Promise<void> {
    while (!this.#isClosed) {
      for (const { id, resource, holder } of this.#tickets) {
        await this.api.claim({ id, resource: parseResource(resource), holder, session: holder })
      }
      await sleep(500)
    }
  }

  end(): void {
    this.#isClosed = true
  }
}

/** Plays for about ten seconds, and leaves leases, waiters, a fleet and workflows behind. */
export async function playScene(storeUrl: string): Promise<Scene> {
  const stage = new Stage(await openApi(storeUrl, {}))
  const waiting = stage.keepWaiting()
  await agents(stage)
  await family(stage)
  await Promise.all([deploys(stage), ends(stage), fleet(stage), workflows(stage), deadlock(stage)])
  return {
    close: async () => {
      stage.end()
      await waiting
      await stage.api.close()
    },
  }
}

async function agents(stage: Stage): Promise<void> {
  const holds = [
    ['src/core/decide.ts', 'agent-ann', 'split decide by command'],
    ['src/core/evolve.ts', 'agent-ann', 'split decide by command'],
    ['src/core/settle.ts', 'agent-ann', 'split decide by command'],
    ['docs/model.md', 'agent-cleo', 'say what a fence is'],
  ] as const
  for (const [path, holder, reason] of holds) {
    await stage.take({ resource: `file:/repo/${path}`, holder, reason, ttlMs: 2 * MINUTE })
  }
  const subtree = { resource: 'file:/repo/src/store/sqlite', holder: 'agent-bob' }
  await stage.take({ ...subtree, extent: 'subtree', reason: 'migrate the schema' })
  const wait = { waitMs: 10 * MINUTE, reason: 'index the events' }
  await stage.take({
    resource: 'file:/repo/src/store/sqlite/schema.ts',
    holder: 'agent-dora',
    ...wait,
  })
  for (const index of [1, 2, 3]) {
    await stage.take({ resource: 'gpu:a100', holder: `trainer-${index}`, slots: 4, mode: 'shared' })
  }
  await stage.take({ resource: 'work:nightly-report', holder: 'cron@db-2', ttlMs: 60 * MINUTE })
}

/** A lease that was divided, and a shared one that waits to be exclusive. */
async function family(stage: Stage): Promise<void> {
  const [lead, resource] = ['lead', parseResource('project:docs')]
  const budget = { tokens: 100_000, toolCalls: 500 }
  const id = await stage.take({
    resource,
    holder: lead,
    budget,
    scope: { tools: ['search', 'edit'] },
  })
  const parent = { id, resource, extent: 'exact' } as const
  for (const holder of ['writer-1', 'writer-2']) {
    await stage.api.derive({
      ...{ id: systemRuntime.uuid(), parent, by: lead, holder, session: holder },
      ...{ budget: { tokens: 20_000, toolCalls: 50 }, scope: { tools: ['edit'] } },
    })
  }
  const shared = { resource: 'table:orders', mode: 'shared' } as const
  const reader = await stage.take({ ...shared, holder: 'report-1' })
  await stage.take({ ...shared, holder: 'report-2' })
  const asked = { id: reader, holder: 'report-1', mayWait: true }
  await stage.api.upgrade({ ...asked, requestId: systemRuntime.uuid() })
}

/** A queue that moves, and grows again. */
async function deploys(stage: Stage): Promise<void> {
  const waitMs = 10 * MINUTE
  for (const [index, holdMs] of [1_500, 2_500, 2_000].entries()) {
    const holder = `ci-47${10 + index}`
    const id = await stage.take({ resource: 'deploy:prod', holder, reason: `release 2.3.${index}` })
    for (let renewal = 0; renewal < 3; renewal += 1) {
      await sleep(holdMs / 4)
      await stage.renew(id, holder)
    }
    await sleep(holdMs / 4)
    await stage.release(id, holder)
    await sleep(300)
  }
  await stage.take({
    resource: 'deploy:prod',
    holder: 'ci-4713',
    reason: 'release 2.4.0',
    ttlMs: 4 * MINUTE,
  })
  await stage.take({ resource: 'deploy:prod', holder: 'ci-4714', reason: 'release 2.4.1', waitMs })
  await stage.take({
    resource: 'deploy:prod',
    holder: 'ci-4715',
    reason: 'hotfix',
    waitMs,
    priority: 5,
  })
}

/** One lease runs out, one is revoked, one is handed over, one was asked to finish. */
async function ends(stage: Stage): Promise<void> {
  const { api } = stage
  await stage.take({
    resource: 'work:import-7',
    holder: 'importer-2',
    ttlMs: 2_500,
    reason: 'killed',
  })
  const stuck = await stage.take({
    resource: 'work:import-8',
    holder: 'importer-3',
    reason: 'stuck',
  })
  const given = await stage.take({ resource: 'work:import-9', holder: 'importer-4' })
  await sleep(3_000)
  const requestId = systemRuntime.uuid()
  await api.revoke({ id: stuck, by: 'oncall', reason: 'does not answer', requestId })
  const moved = { newId: systemRuntime.uuid(), requestId: systemRuntime.uuid() }
  await api.transfer({ id: given, holder: 'importer-4', to: 'importer-5', ...moved })
  await stage.take({
    resource: 'work:import-8',
    holder: 'importer-1',
    reason: 'again, from the start',
  })
  const asked = await stage.take({
    resource: 'work:import-7',
    holder: 'importer-1',
    breakable: true,
  })
  const graceMs = 2 * MINUTE
  await api.revoke({ id: asked, by: 'oncall', graceMs, requestId: systemRuntime.uuid() })
  await stage.take({ resource: 'work:thumbnails', holder: 'resize-1', ttlMs: 60 * MINUTE })
}

/** Two who wait for each other, seen by the search and broken. */
async function deadlock(stage: Stage): Promise<void> {
  const one = await stage.take({ resource: 'db:orders', holder: 'billing' })
  const other = await stage.take({ resource: 'db:stock', holder: 'shipping' })
  await sleep(1_000)
  const waitMs = 10 * MINUTE
  await stage.take({ resource: 'db:stock', holder: 'billing', waitMs, under: [one] })
  await stage.take({ resource: 'db:orders', holder: 'shipping', waitMs, under: [other] })
}

const SESSIONS = 24

async function fleet(stage: Stage): Promise<void> {
  const nodes = ['poller-a', 'poller-b', 'poller-c']
  const ids = new Map<number, string>()
  for (const [index, id] of nodes.entries()) {
    const metadata = { weight: 1, name: `eu-${index + 1}`, leaseTtlMs: 30_000 }
    await stage.take({ resource: `node:${id}`, holder: id, metadata, ttlMs: 5 * MINUTE })
  }
  for (let index = 0; index < SESSIONS; index += 1) {
    const holder = nodes[index % 2] ?? ''
    ids.set(
      index,
      await stage.take({ resource: `session:s-${100 + index}`, holder, ttlMs: 5 * MINUTE }),
    )
  }
  await sleep(2_000)
  for (const [index, id] of [...ids].slice(0, SESSIONS / 3)) {
    const moved = { newId: systemRuntime.uuid(), requestId: systemRuntime.uuid() }
    await stage.api.transfer({ id, holder: nodes[index % 2] ?? '', to: 'poller-c', ...moved })
  }
}

async function workflows(stage: Stage): Promise<void> {
  const first = await stage.take({ resource: 'workflow:checkout-118', holder: 'orchestrator-1' })
  await stage.take({ resource: 'workflow:refund-22', holder: 'orchestrator-2', ttlMs: 3 * MINUTE })
  const past = await stage.take({ resource: 'workflow:checkout-117', holder: 'orchestrator-1' })
  const own = { id: first, holder: 'orchestrator-1', requestId: systemRuntime.uuid() }
  await stage.api.advance({ ...own, from: 0, count: 3 })
  await stage.release(past, 'orchestrator-1')
}

/** The moment as the page's time picker writes it. */
export function localMoment(atMs: number): string {
  const zoneMs = new Date(atMs).getTimezoneOffset() * 60_000
  return new Date(atMs - zoneMs).toISOString().slice(0, 23)
}
