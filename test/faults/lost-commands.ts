/**
 * Every kind of command that changes something, each with what must be there before it, and what must be there once
 * and only once after it, however often it was sent.
 */
import { randomUUID } from 'node:crypto'
import type { LeaseEventType } from '../../src/core/event.ts'
import { parseResource, type Resource } from '../../src/core/resource.ts'
import type { AcquireRequest, LeaseApi } from '../../src/service/lease-api.ts'

/** A command that is ready to be sent, any number of times. */
export interface ReadyCommand {
  /** A text that its request has and no other request at that time has. */
  readonly mark: string
  send(): Promise<unknown>
  /** What each further answer must match. */
  readonly answer: Readonly<Record<string, unknown>>
  /** What the ledger must tell once more than before. */
  readonly effect: { readonly leaseId: string; readonly type: LeaseEventType }
}

export interface CommandCase {
  readonly name: string
  prepare(api: LeaseApi): Promise<ReadyCommand>
}

const TTL_MS = 60_000

function newResource(): Resource {
  return parseResource(`work:${randomUUID()}`)
}

function wish(
  holder: string,
  resource: Resource,
  more: Partial<AcquireRequest> = {},
): AcquireRequest {
  // A session each: who waits in one test is not in the way of another.
  const [leaseId, session] = [randomUUID(), randomUUID()]
  return { id: leaseId, resource, holder, session, ttlMs: TTL_MS, waitMs: 0, ...more }
}

/** A lease that is held, and what names it. */
async function held(api: LeaseApi, more: Partial<AcquireRequest> = {}): Promise<AcquireRequest> {
  const request = wish('ann', more.resource ?? newResource(), more)
  const answer = await api.acquire(request)
  if (answer.kind !== 'granted') throw new Error(`not granted but ${answer.kind}`)
  return request
}

/** Somebody who waits for what another holds. */
async function waiting(
  api: LeaseApi,
): Promise<{ readonly holder: AcquireRequest; readonly waiter: AcquireRequest }> {
  const holder = await held(api)
  const waiter = wish('bob', holder.resource, { waitMs: TTL_MS, claimWindowMs: 30_000 })
  const answer = await api.acquire(waiter)
  if (answer.kind !== 'queued') throw new Error(`not queued but ${answer.kind}`)
  return { holder, waiter }
}

function byHolder({ id: leaseId, resource, holder }: AcquireRequest) {
  return { id: leaseId, resource, holder, requestId: randomUUID() }
}

function ticketOf({ id: leaseId, resource, holder, session }: AcquireRequest) {
  return { id: leaseId, resource, holder, session }
}

const TAKING: readonly CommandCase[] = [
  {
    name: 'acquire',
    prepare: async (api) => {
      const request = wish('ann', newResource())
      return {
        mark: request.id,
        send: () => api.acquire(request),
        answer: { kind: 'granted', repeated: true, lease: { id: request.id, holder: 'ann' } },
        effect: { leaseId: request.id, type: 'lease.issued' },
      }
    },
  },
  {
    name: 'acquire that has to wait',
    prepare: async (api) => {
      const { resource } = await held(api)
      const request = wish('bob', resource, { waitMs: TTL_MS, claimWindowMs: 30_000 })
      return {
        mark: request.id,
        send: () => api.acquire(request),
        answer: { kind: 'queued', leaseId: request.id, position: 0 },
        effect: { leaseId: request.id, type: 'lease.queued' },
      }
    },
  },
  {
    name: 'claim',
    prepare: async (api) => {
      const { holder, waiter } = await waiting(api)
      await api.release(byHolder(holder))
      return {
        mark: waiter.id,
        send: () => api.claim(ticketOf(waiter)),
        answer: { kind: 'granted', lease: { id: waiter.id, holder: 'bob' } },
        effect: { leaseId: waiter.id, type: 'lease.issued' },
      }
    },
  },
  {
    name: 'withdraw',
    prepare: async (api) => {
      const { waiter } = await waiting(api)
      return {
        mark: waiter.id,
        send: () => api.withdraw({ ...ticketOf(waiter), why: 'timed_out' }),
        answer: { kind: 'withdrawn', released: false },
        effect: { leaseId: waiter.id, type: 'lease.failed' },
      }
    },
  },
  {
    name: 'adopt',
    prepare: async (api) => {
      const lease = await held(api)
      const newLeaseId = randomUUID()
      await api.transfer({ ...byHolder(lease), to: 'eve', newId: newLeaseId })
      const request = {
        id: newLeaseId,
        resource: lease.resource,
        holder: 'eve',
        session: 'eve',
      }
      const requestId = randomUUID()
      return {
        mark: newLeaseId,
        send: () => api.adopt({ ...request, requestId }),
        answer: { kind: 'granted', lease: { id: newLeaseId, holder: 'eve' } },
        effect: { leaseId: newLeaseId, type: 'lease.adopted' },
      }
    },
  },
]

/** Two resources that are asked for together. */
function several() {
  const asker = { group: randomUUID(), holder: 'ann', session: randomUUID(), ttlMs: TTL_MS }
  const first = { id: randomUUID(), resource: newResource() }
  const members = [first, { id: randomUUID(), resource: newResource() }]
  const { holder, session } = asker
  const tickets = members.map((member) => ({ ...member, holder, session }))
  return { asker, first, members, tickets }
}

const TAKING_SEVERAL: readonly CommandCase[] = [
  {
    name: 'acquireAll',
    prepare: async (api) => {
      const { asker, first, members } = several()
      return {
        mark: first.id,
        send: () => api.acquireAll({ ...asker, members, waitMs: 0 }),
        answer: { kind: 'granted_all', repeated: true },
        effect: { leaseId: first.id, type: 'lease.issued' },
      }
    },
  },
  {
    name: 'claimAll',
    prepare: async (api) => {
      const { asker, first, members, tickets } = several()
      const blocker = await held(api, { resource: first.resource })
      await api.acquireAll({ ...asker, members, waitMs: TTL_MS, claimWindowMs: 30_000 })
      await api.release(byHolder(blocker))
      return {
        mark: first.id,
        send: () => api.claimAll({ tickets }),
        answer: { kind: 'granted_all' },
        effect: { leaseId: first.id, type: 'lease.issued' },
      }
    },
  },
]

const HOLDING: readonly CommandCase[] = [
  {
    name: 'renew',
    prepare: async (api) => {
      const lease = await held(api)
      const request = byHolder(lease)
      return {
        mark: request.requestId,
        send: () => api.renew(request),
        answer: { kind: 'renewed', lease: { id: lease.id, renewals: 1 } },
        effect: { leaseId: lease.id, type: 'lease.renewed' },
      }
    },
  },
  {
    name: 'upgrade',
    prepare: async (api) => {
      const lease = await held(api, { mode: 'shared' })
      const request = { ...byHolder(lease), mayWait: false }
      return {
        mark: lease.id,
        send: () => api.upgrade(request),
        answer: { kind: 'upgraded', lease: { id: lease.id, mode: 'exclusive' } },
        effect: { leaseId: lease.id, type: 'lease.upgraded' },
      }
    },
  },
  {
    name: 'upgrade that has to wait',
    prepare: async (api) => {
      const lease = await held(api, { mode: 'shared' })
      await held(api, { resource: lease.resource, mode: 'shared' })
      const request = { ...byHolder(lease), mayWait: true }
      return {
        mark: lease.id,
        send: () => api.upgrade(request),
        answer: { kind: 'upgrading', leaseId: lease.id },
        effect: { leaseId: lease.id, type: 'lease.upgrading' },
      }
    },
  },
  {
    name: 'withdrawUpgrade',
    prepare: async (api) => {
      const lease = await held(api, { mode: 'shared' })
      await held(api, { resource: lease.resource, mode: 'shared' })
      await api.upgrade({ ...byHolder(lease), mayWait: true })
      const request = byHolder(lease)
      return {
        mark: lease.id,
        send: () => api.withdrawUpgrade(request),
        answer: { kind: 'upgrade_withdrawn', leaseId: lease.id },
        effect: { leaseId: lease.id, type: 'lease.upgrading' },
      }
    },
  },
  {
    name: 'downgrade',
    prepare: async (api) => {
      const lease = await held(api)
      const request = byHolder(lease)
      return {
        mark: lease.id,
        send: () => api.downgrade(request),
        answer: { kind: 'downgraded', lease: { id: lease.id, mode: 'shared' } },
        effect: { leaseId: lease.id, type: 'lease.downgraded' },
      }
    },
  },
]

const ENDING: readonly CommandCase[] = [
  {
    name: 'release',
    prepare: async (api) => {
      const lease = await held(api)
      const request = byHolder(lease)
      return {
        mark: request.requestId,
        send: () => api.release(request),
        answer: { kind: 'released', lease: { id: lease.id, state: 'released' } },
        effect: { leaseId: lease.id, type: 'lease.released' },
      }
    },
  },
  {
    name: 'release that makes an offer',
    prepare: async (api) => {
      const { holder, waiter } = await waiting(api)
      const request = byHolder(holder)
      return {
        mark: request.requestId,
        send: () => api.release(request),
        answer: { kind: 'released', lease: { id: holder.id, state: 'released' } },
        effect: { leaseId: waiter.id, type: 'lease.offered' },
      }
    },
  },
  {
    name: 'transfer',
    prepare: async (api) => {
      const lease = await held(api)
      const newLeaseId = randomUUID()
      const request = { ...byHolder(lease), to: 'eve', newId: newLeaseId }
      return {
        mark: newLeaseId,
        send: () => api.transfer(request),
        answer: { kind: 'transferred', lease: { id: newLeaseId, holder: 'eve' } },
        effect: { leaseId: newLeaseId, type: 'lease.issued' },
      }
    },
  },
  {
    name: 'transfer to the next in the queue',
    prepare: async (api) => {
      const { holder, waiter } = await waiting(api)
      const request = { ...byHolder(holder), to: null, newId: randomUUID() }
      return {
        mark: request.requestId,
        send: () => api.transfer(request),
        answer: { kind: 'transferred', lease: null },
        effect: { leaseId: waiter.id, type: 'lease.offered' },
      }
    },
  },
  {
    name: 'revoke',
    prepare: async (api) => {
      const { id: leaseId, resource } = await held(api)
      const request = { id: leaseId, resource, by: 'operator', requestId: randomUUID() }
      return {
        mark: request.requestId,
        send: () => api.revoke(request),
        answer: { kind: 'revoked', leaseId },
        effect: { leaseId, type: 'lease.revoked' },
      }
    },
  },
  {
    name: 'revoke with a grace',
    prepare: async (api) => {
      const { id: leaseId, resource } = await held(api)
      const requestId = randomUUID()
      const request = { id: leaseId, resource, by: 'operator', graceMs: 20_000, requestId }
      return {
        mark: requestId,
        send: () => api.revoke(request),
        answer: { kind: 'revoked', leaseId },
        effect: { leaseId, type: 'lease.revoking' },
      }
    },
  },
]

/** A command without an id, which finds nothing more to do the second time. */
const ENDING_ALL: CommandCase = {
  name: 'revokeAll',
  prepare: async (api) => {
    const { id: leaseId, holder } = await held(api, { holder: `ann-${randomUUID()}` })
    return {
      mark: leaseId,
      send: async () => ({ count: await api.revokeAll({ holder, by: 'operator' }) }),
      answer: { count: 0 },
      effect: { leaseId, type: 'lease.revoked' },
    }
  },
}

export const COMMANDS: readonly CommandCase[] = [
  ...TAKING,
  ...TAKING_SEVERAL,
  ...HOLDING,
  ...ENDING,
  ENDING_ALL,
]
