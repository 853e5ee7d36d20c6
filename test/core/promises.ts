/**
 * Watches a realm step by step and throws at the first broken promise. It keeps books of its own from commands,
 * answers and events, and uses none of the core's rules: overlap, deadlines and queue order are judged anew here.
 */
import type { Command } from '../../src/core/command.ts'
import type { LeaseEvent } from '../../src/core/event.ts'
import type { Claim, Entry, LeaseId } from '../../src/core/lease.ts'
import type { Now } from '../../src/core/time.ts'
import { differences, foldLedger } from '../../src/ledger/fold.ts'
import type { Step, TinyRealm } from './tiny-realm.ts'

interface Promised {
  readonly claim: Claim
  readonly fence: number
  readonly domain: string
  readonly holdUntilUs: number
  untilUs: number
  ttlMs: number
  /** Ended by release or revocation, or seen to have run out on a clock that could measure it. */
  free: boolean
}

const OVER: readonly string[] = ['released', 'expired', 'revoked']

export class PromiseWatch {
  readonly #realm: TinyRealm
  readonly #promised = new Map<LeaseId, Promised>()
  readonly #queue: Claim[] = []
  readonly #offered = new Set<LeaseId>()
  readonly #requests = new Set<string>()
  readonly #ended = new Map<LeaseId, string>()

  constructor(realm: TinyRealm) {
    this.#realm = realm
  }

  run(command: Command): Step<Command> {
    const before = [...this.#realm.entries.values()]
    const step = this.#realm.step(command)
    for (const promised of this.#promised.values()) observeClock(promised, step.now)
    for (const event of step.decision.events) this.#observe(event, step.now)
    this.#checkExclusion(step.now)
    this.#checkRefusal(command, step)
    this.#checkWaiting(step)
    this.#checkNoWayBack()
    if (step.decision.events.length === 0) {
      const after = [...this.#realm.entries.values()]
      const same = after.length === before.length && after.every((one, at) => one === before[at])
      must(same, 'I7: changed without an event')
    }
    return step
  }

  /** I7: the ledger tells the state, byte for byte. */
  checkLedger(recordsRenewals = true): void {
    const options = { recordsRenewals: () => recordsRenewals }
    const found = differences(foldLedger(this.#realm.ledger), this.#realm.entries, options)
    must(found.length === 0, `ledger and entries differ: ${JSON.stringify(found)}`)
  }

  #observe(event: LeaseEvent, now: Now): void {
    this.#checkRequest(event)
    const promised = this.#promised.get(event.leaseId)
    switch (event.type) {
      case 'lease.queued':
        this.#queue.push(event.ticket)
        break
      case 'lease.offered':
        this.#checkTurn(event.leaseId)
        this.#offered.add(event.leaseId)
        break
      case 'lease.failed':
        this.#leaveQueue(event.leaseId)
        break
      case 'lease.issued':
        this.#observeGrant(event.lease, now)
        break
      case 'lease.renewed':
        must(promised !== undefined && !promised.free, 'I6: a lease that ended was renewed')
        if (promised === undefined) break
        promised.ttlMs = event.ttlMs
        promised.untilUs = Math.min(now.tick.us + event.ttlMs * 1000, promised.holdUntilUs)
        break
      case 'lease.released':
      case 'lease.revoked':
        if (promised !== undefined) promised.free = true
        break
      case 'lease.denied':
      case 'lease.expired':
      case 'lease.unlocked':
      case 'lease.waiting':
        break
    }
  }

  #observeGrant(lease: Claim & { readonly fence: number }, now: Now): void {
    must(!this.#promised.has(lease.id), `I8: ${lease.id} was granted twice`)
    if (!this.#offered.has(lease.id)) this.#checkTurn(null, lease)
    this.#leaveQueue(lease.id)
    for (const earlier of this.#promised.values()) {
      if (!touch(earlier.claim, lease)) continue
      must(earlier.fence < lease.fence, `I2: fence ${lease.fence} after ${earlier.fence}`)
      if (compatible(earlier.claim, lease)) continue
      must(earlier.free, `I3: ${lease.id} was granted while ${earlier.claim.id} was promised`)
    }
    const { fence, ttlMs, maxHoldMs } = lease
    const { domain, us } = now.tick
    const holdUntilUs = maxHoldMs === null ? Infinity : us + maxHoldMs * 1000
    const untilUs = Math.min(us + ttlMs * 1000, holdUntilUs)
    const facts = { claim: lease, fence, ttlMs, domain, holdUntilUs, untilUs }
    this.#promised.set(lease.id, { ...facts, free: false })
  }

  /** I9: nobody is served before a conflicting claim that waits longer. */
  #checkTurn(leaseId: LeaseId | null, newcomer?: Claim): void {
    const place = this.#queue.findIndex((waiting) => waiting.id === leaseId)
    const claim = newcomer ?? this.#queue[place]
    if (claim === undefined) throw new Error(`I9: ${leaseId} was served without waiting`)
    const before = newcomer === undefined ? this.#queue.slice(0, place) : this.#queue
    const passed = before.find((waiting) => touch(waiting, claim) && !compatible(waiting, claim))
    must(passed === undefined, `I9: ${claim.id} passed ${passed?.id}`)
  }

  #leaveQueue(leaseId: LeaseId): void {
    const place = this.#queue.findIndex((waiting) => waiting.id === leaseId)
    if (place >= 0) this.#queue.splice(place, 1)
    this.#offered.delete(leaseId)
  }

  /** I8: a request id has one effect. */
  #checkRequest({ requestId }: LeaseEvent): void {
    if (requestId === null) return
    must(!this.#requests.has(requestId), `I8: request ${requestId} had a second effect`)
    this.#requests.add(requestId)
  }

  #checkExclusion({ tick }: Now): void {
    const held = [...this.#realm.entries.values()].filter((entry) => {
      if (entry.kind !== 'lease' || entry.state !== 'active') return false
      return entry.deadline.domain === tick.domain && entry.deadline.us > tick.us
    })
    for (const [index, one] of held.entries()) {
      const clash = held
        .slice(index + 1)
        .find((other) => touch(one, other) && !compatible(one, other))
      must(clash === undefined, `I1: ${one.id} and ${clash?.id} are both held`)
    }
  }

  /** I5: what stands in the way is there at this very tick, and really is in the way. */
  #checkRefusal(command: Command, { decision, now }: Step<Command>): void {
    const { outcome } = decision
    if (outcome.kind !== 'held' || command.kind !== 'acquire') return
    must(outcome.blockers.length > 0, 'I5: refused although nothing stands in the way')
    for (const blocker of outcome.blockers) {
      const entry = this.#realm.entries.get(blocker.leaseId)
      must(
        entry !== undefined && runs(entry, now),
        `I5: ${blocker.leaseId} is over and still blocks`,
      )
      const inTheWay = touch(entry, command) && !compatible(entry, command)
      must(inTheWay, `I5: ${blocker.leaseId} blocks what it does not touch`)
    }
  }

  /** I9: nobody is told to wait for what is free. */
  #checkWaiting({ decision, now }: Step<Command>): void {
    const { outcome } = decision
    if (outcome.kind !== 'queued') return
    const place = this.#queue.findIndex((waiting) => waiting.id === outcome.leaseId)
    const claim = this.#queue[place]
    if (claim === undefined) throw new Error(`I9: ${outcome.leaseId} waits without a ticket`)
    if (this.#offered.has(claim.id)) return
    const earlier = new Set(this.#queue.slice(0, place).map((waiting) => waiting.id))
    const blocked = [...this.#realm.entries.values()].some((entry) => {
      if (entry.id === claim.id || !touch(entry, claim) || compatible(entry, claim)) return false
      if (!runs(entry, now)) return false
      if (entry.kind === 'lease') return entry.state === 'active' || entry.lockedUntil !== null
      return entry.state === 'pending' && (entry.offer !== null || earlier.has(entry.id))
    })
    must(blocked, `I9: ${claim.id} waits although nothing stands in its way`)
  }

  /** I6: an ended lease stays as it ended. */
  #checkNoWayBack(): void {
    for (const entry of this.#realm.entries.values()) {
      const before = this.#ended.get(entry.id)
      const { state } = entry
      must(
        before === undefined || before === state,
        `I6: ${entry.id} went from ${before} to ${state}`,
      )
      if (OVER.includes(state)) this.#ended.set(entry.id, state)
    }
  }
}

/** I3: a lease of this clock is free at its deadline; one of another clock after a whole TTL on this one. */
function observeClock(promised: Promised, { tick, domainSinceUs }: Now): void {
  if (promised.domain === tick.domain) {
    promised.free ||= tick.us >= promised.untilUs
    return
  }
  const [host, boot] = promised.domain.split('/')
  const [presentHost, presentBoot] = tick.domain.split('/')
  promised.free ||= host === presentHost && boot !== presentBoot
  promised.free ||= tick.us - domainSinceUs >= promised.ttlMs * 1000
}

function runs(entry: Entry, { tick }: Now): boolean {
  const deadline =
    entry.kind === 'ticket'
      ? (entry.offer?.deadline ?? entry.deadline)
      : (entry.lockedUntil ?? entry.deadline)
  return deadline.domain === tick.domain && deadline.us > tick.us
}

type Wish = Pick<Claim, 'resource' | 'extent' | 'mode'>

function touch(a: Wish, b: Wish): boolean {
  if (a.resource === b.resource) return true
  const below = (outer: Wish, inner: Wish): boolean => {
    const tree = outer.resource.startsWith('file:') && outer.extent === 'subtree'
    return tree && inner.resource.startsWith(`${outer.resource}/`)
  }
  return below(a, b) || below(b, a)
}

function compatible(a: Wish, b: Wish): boolean {
  return a.mode === 'shared' && b.mode === 'shared'
}

function must(held: boolean, broken: string): asserts held {
  if (!held) throw new Error(broken)
}
