/**
 * Watches a realm step by step and throws at the first broken promise. It keeps books of its own from commands,
 * answers and events, and uses none of the core's rules: overlap, deadlines and queue order are judged anew here.
 */
import type { LeaseEvent } from '../../src/core/event.ts'
import type { Claim, Entry, Lease, LeaseId, Ticket } from '../../src/core/lease.ts'
import type { Now } from '../../src/core/time.ts'
import { differences, foldLedger } from '../../src/ledger/fold.ts'
import type { AnyCommand, Step, TinyRealm } from './tiny-realm.ts'

interface Promised {
  claim: Claim
  fence: number
  readonly domain: string
  readonly holdUntilUs: number
  untilUs: number
  ttlMs: number
  /** Ended by release or revocation, or seen to have run out on a clock that could measure it. */
  free: boolean
  /** Ended in a way that the holder knows of: nobody has to keep away afterwards. */
  released: boolean
  revokedAtUs: number | null
  revoking: boolean
  upgrading: boolean
}

interface Waiting {
  readonly ticket: Ticket
  readonly keyUs: number
}

const OVER: readonly string[] = ['released', 'expired', 'revoked']
const POINT_US = 10_000_000

export class PromiseWatch {
  readonly #realm: TinyRealm
  readonly #promised = new Map<LeaseId, Promised>()
  readonly #queue = new Map<LeaseId, Waiting>()
  readonly #offered = new Set<LeaseId>()
  readonly #requests = new Set<string>()
  readonly #ended = new Map<LeaseId, string>()

  constructor(realm: TinyRealm) {
    this.#realm = realm
  }

  run(command: AnyCommand): Step<AnyCommand> {
    const before = [...this.#realm.entries.values()]
    const step = this.#realm.step(command)
    for (const promised of this.#promised.values()) observeClock(promised, step.now)
    for (const event of step.decision.events) this.#observe(event, step, command)
    this.#checkExclusion(step.now)
    this.#checkRefusal(command, step)
    this.#checkWaiting(command, step)
    this.#checkNoWayBack()
    checkTransfer(step.decision.events)
    checkStates(step.decision.events, before, this.#realm.entries)
    checkWholeness(step, command)
    if (step.decision.events.length === 0) {
      const after = [...this.#realm.entries.values()]
      const same = after.length === before.length && after.every((one, at) => one === before[at])
      must(same, 'I7: changed without an event')
    }
    return step
  }

  /** The same books, going on with another realm that stands where this one does. */
  fork(realm: TinyRealm): PromiseWatch {
    const copy = new PromiseWatch(realm)
    for (const [id, promised] of this.#promised) copy.#promised.set(id, { ...promised })
    for (const [id, waiting] of this.#queue) copy.#queue.set(id, waiting)
    for (const id of this.#offered) copy.#offered.add(id)
    for (const id of this.#requests) copy.#requests.add(id)
    for (const [id, state] of this.#ended) copy.#ended.set(id, state)
    return copy
  }

  /** I7: the ledger tells the state, byte for byte. */
  checkLedger(recordsRenewals = true): void {
    const options = { recordsRenewals: () => recordsRenewals }
    const found = differences(foldLedger(this.#realm.ledger), this.#realm.entries, options)
    must(found.length === 0, `ledger and entries differ: ${JSON.stringify(found)}`)
  }

  #observe(event: LeaseEvent, step: Step<AnyCommand>, command: AnyCommand): void {
    this.#checkRequest(event)
    const { now } = step
    switch (event.type) {
      case 'lease.queued': {
        const keyUs = now.tick.us - event.ticket.priority * POINT_US
        this.#queue.set(event.leaseId, { ticket: event.ticket, keyUs })
        break
      }
      case 'lease.offered':
        this.#checkTurn(event.leaseId)
        this.#offered.add(event.leaseId)
        break
      case 'lease.failed':
      case 'lease.denied':
        this.#leaveQueue(event.leaseId)
        break
      case 'lease.issued':
        this.#observeGrant(event.lease, step, command)
        break
      case 'lease.unlocked':
      case 'lease.waiting':
      case 'lease.accounted':
      case 'lease.updated':
      case 'lease.trespassed':
      case 'lease.advanced':
        break
      case 'lease.renewed':
      case 'lease.released':
      case 'lease.expired':
      case 'lease.revoked':
      case 'lease.revoking':
      case 'lease.upgrading':
      case 'lease.upgraded':
      case 'lease.downgraded':
      case 'lease.transferred':
      case 'lease.adopted':
        this.#observeHolder(event, now)
    }
  }

  /** What becomes of a lease that somebody has. */
  #observeHolder(event: LeaseEvent, now: Now): void {
    const promised = this.#promised.get(event.leaseId)
    if (promised === undefined) return
    switch (event.type) {
      case 'lease.renewed':
        must(!promised.free, 'I6: a lease that ended was renewed')
        must(!promised.revoking, 'a lease that was asked to end was renewed')
        promised.ttlMs = event.ttlMs
        promised.untilUs = Math.min(now.tick.us + event.ttlMs * 1000, promised.holdUntilUs)
        break
      case 'lease.adopted':
        must(!promised.free, 'I6: a lease that ended was adopted')
        if (promised.revoking) break
        promised.untilUs = Math.min(now.tick.us + promised.ttlMs * 1000, promised.holdUntilUs)
        break
      case 'lease.revoking':
        must(event.deadline.us <= promised.untilUs, 'a request to end gave more time')
        promised.untilUs = event.deadline.us
        promised.revoking = true
        break
      case 'lease.expired':
        promised.upgrading = false
        break
      case 'lease.upgrading':
        promised.upgrading = event.wished
        break
      case 'lease.upgraded':
        this.#observeUpgrade(promised, event.fence)
        break
      case 'lease.downgraded':
        promised.claim = { ...promised.claim, mode: 'shared' }
        break
      case 'lease.revoked':
        promised.revokedAtUs ??= Math.min(now.tick.us, promised.untilUs)
        promised.free = true
        promised.upgrading = false
        break
      case 'lease.released':
      case 'lease.transferred':
        promised.released = true
        promised.free = true
        break
      case 'lease.issued':
      case 'lease.queued':
      case 'lease.offered':
      case 'lease.waiting':
      case 'lease.failed':
      case 'lease.denied':
      case 'lease.advanced':
      case 'lease.unlocked':
      case 'lease.accounted':
      case 'lease.updated':
      case 'lease.trespassed':
        break
    }
  }

  #observeGrant(lease: Lease, { now, decision }: Step<AnyCommand>, command: AnyCommand): void {
    must(!this.#promised.has(lease.id), `I8: ${lease.id} was granted twice`)
    const wasOffered = this.#offered.has(lease.id)
    const giver = lease.adopted ? undefined : this.#giverOf(decision.events)
    if (!wasOffered && lease.adopted) this.#checkTurn(lease.id, { lease, now, command })
    this.#leaveQueue(lease.id)
    for (const earlier of this.#promised.values()) {
      if (!touch(earlier.claim, lease)) continue
      must(earlier.fence < lease.fence, `I2: fence ${lease.fence} after ${earlier.fence}`)
      const letIn = wasOffered || !lease.adopted || !earlier.upgrading || earlier.free
      must(letIn, `${lease.id} came in although ${earlier.claim.id} wishes to be alone`)
      if (compatible(earlier.claim, lease)) continue
      must(earlier.free, `I3: ${lease.id} was granted while ${earlier.claim.id} was promised`)
      checkDelay(earlier, lease, now)
    }
    const { fence, ttlMs, maxHoldMs } = lease
    const { domain, us } = now.tick
    const ownUntilUs = maxHoldMs === null ? Infinity : us + maxHoldMs * 1000
    const holdUntilUs = giver === undefined ? ownUntilUs : ceilingOf(giver)
    const untilUs = Math.min(us + ttlMs * 1000, holdUntilUs)
    const facts = { claim: lease, fence, ttlMs, domain, holdUntilUs, untilUs }
    const revoking = giver?.revoking ?? false
    const state = { free: false, released: false, revokedAtUs: null, revoking, upgrading: false }
    this.#promised.set(lease.id, { ...facts, ...state })
  }

  #giverOf(events: readonly LeaseEvent[]): Promised | undefined {
    const given = events.find((event) => event.type === 'lease.transferred')
    return given === undefined ? undefined : this.#promised.get(given.leaseId)
  }

  #observeUpgrade(promised: Promised, fence: number): void {
    must(!promised.free, 'I6: a lease that ended was upgraded')
    for (const other of this.#promised.values()) {
      if (other === promised || !touch(other.claim, promised.claim)) continue
      must(other.free, `I1: ${promised.claim.id} was upgraded beside ${other.claim.id}`)
      must(other.fence < fence, `I2: upgraded to fence ${fence} after ${other.fence}`)
    }
    must(promised.fence < fence, `I2: upgraded from fence ${promised.fence} to ${fence}`)
    promised.claim = { ...promised.claim, mode: 'exclusive' }
    promised.fence = fence
    promised.upgrading = false
  }

  /** I9: nobody is served before a conflicting claim with a smaller key. */
  #checkTurn(leaseId: LeaseId, newcomer?: Newcomer): void {
    const own = this.#queue.get(leaseId) ?? waitingOf(newcomer)
    if (own === undefined) throw new Error(`I9: ${leaseId} was served without waiting`)
    for (const { ticket, keyUs } of this.#queue.values()) {
      if (ticket.id === leaseId || !touch(ticket, own.ticket)) continue
      if (compatible(ticket, own.ticket)) continue
      const isFirst = keyUs === own.keyUs ? ticket.id < leaseId : keyUs < own.keyUs
      must(!isFirst, `I9: ${leaseId} passed ${ticket.id}`)
    }
  }

  #leaveQueue(leaseId: LeaseId): void {
    this.#queue.delete(leaseId)
    this.#offered.delete(leaseId)
  }

  /** I8: a request id has one effect. */
  #checkRequest({ requestId }: LeaseEvent): void {
    if (requestId === null) return
    must(!this.#requests.has(requestId), `I8: request ${requestId} had a second effect`)
    this.#requests.add(requestId)
  }

  #checkExclusion({ tick }: Now): void {
    const held = [...this.#realm.entries.values()].filter((entry): entry is Lease => {
      if (entry.kind !== 'lease' || entry.state !== 'active') return false
      return entry.deadline.domain === tick.domain && entry.deadline.us > tick.us
    })
    for (const [index, one] of held.entries()) {
      const clash = held
        .slice(index + 1)
        .find((other) => touch(one, other) && !compatible(one, other))
      must(clash === undefined, `I1: ${one.id} and ${clash?.id} are both held`)
      checkSlots(one, held)
    }
  }

  /** I5: what is said to stand in the way is there at this very tick, and really is in the way. */
  #checkRefusal(command: AnyCommand, { decision, now }: Step<AnyCommand>): void {
    const { outcome } = decision
    if (outcome.kind !== 'held') return
    must(outcome.blockers.length > 0, 'I5: refused although nothing stands in the way')
    const wishes = this.#wishesOf(command, now)
    for (const { leaseId } of outcome.blockers) {
      const entry = this.#realm.entries.get(leaseId)
      must(entry !== undefined && runs(entry, now), `I5: ${leaseId} is over and still blocks`)
      const inTheWay = wishes.some((wish) => {
        return outcome.notWaiting === 'own_transfer'
          ? isOtherGift(entry, wish.claim)
          : this.#obstacles(wish, now).includes(entry)
      })
      must(inTheWay, `I5: ${leaseId} is named as a blocker and is not in the way`)
    }
  }

  /** I9: nobody is told to wait for what is free. */
  #checkWaiting(command: AnyCommand, { decision, now }: Step<AnyCommand>): void {
    const { outcome } = decision
    if (outcome.kind === 'upgrading') {
      const blocked = this.#wishesOf(command, now).some((wish) => this.#isStopped(wish, now))
      must(blocked, `I9: ${outcome.leaseId} waits to be alone and is alone`)
    }
    if (outcome.kind !== 'queued' && outcome.kind !== 'queued_all') return
    const leaseIds = outcome.kind === 'queued' ? [outcome.leaseId] : outcome.leaseIds
    const waiting = leaseIds.map((leaseId) => this.#queue.get(leaseId))
    if (leaseIds.length === 1 && this.#offered.has(leaseIds[0] ?? '')) return
    // Whoever waits for several is not offered what became free in this very step, but told to come and take it.
    if (decision.wakes.some(({ leaseId }) => leaseIds.includes(leaseId))) return
    const blocked = waiting.some((one) => {
      must(one !== undefined, `I9: ${leaseIds.join()} waits without a ticket`)
      return this.#isStopped({ claim: one.ticket, keyUs: one.keyUs }, now)
    })
    must(blocked, `I9: ${leaseIds.join()} waits although nothing stands in its way`)
  }

  /** What a command asks for: one resource, several, what it waits for, or to be alone with what it shares. */
  #wishesOf(command: AnyCommand, { tick }: Now): readonly Wish[] {
    if (command.kind === 'acquire_all' || command.kind === 'acquire') {
      const asked = command.kind === 'acquire' ? [command] : command.members
      return asked.map((one) => {
        return { claim: { ...one, id: one.leaseId }, keyUs: tick.us - one.priority * POINT_US }
      })
    }
    if (command.kind !== 'upgrade' && command.kind !== 'claim') return []
    const lease = this.#realm.entries.get(command.leaseId)
    if (lease === undefined) return []
    // A claim that is refused has failed by now; leases were in its way, whatever place it had.
    if (command.kind === 'claim') return [{ claim: lease, keyUs: -Infinity }]
    return [{ claim: { ...lease, mode: 'exclusive', slots: null }, keyUs: -Infinity }]
  }

  #isStopped(wish: Wish, now: Now): boolean {
    return this.#obstacles(wish, now).length > 0
  }

  /** All that keeps a wish from being granted, by the rules as these books know them. */
  #obstacles({ claim, keyUs }: Wish, now: Now): readonly Entry[] {
    const ahead = [...this.#realm.entries.values()].filter((entry) => {
      if (entry.id === claim.id || !touch(entry, claim) || !runs(entry, now)) return false
      if (entry.kind === 'lease') return entry.state === 'active' || entry.lockedUntil !== null
      if (entry.state !== 'pending') return false
      const itsKeyUs = this.#queue.get(entry.id)?.keyUs ?? Infinity
      const isFirst = itsKeyUs === keyUs ? entry.id < claim.id : itsKeyUs < keyUs
      return entry.offer !== null || isFirst
    })
    const sharers = ahead.filter((entry) => compatible(entry, claim) && !wantsAlone(entry))
    const fewest = Math.min(...[claim, ...sharers].map(({ slots }) => slots ?? Infinity))
    if (sharers.length + 1 > fewest) return ahead
    return ahead.filter((entry) => !sharers.includes(entry))
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

/** A lease that was transferred to whoever asks, who has not adopted it and asks for something else. */
function isOtherGift(entry: Entry, wanted: Wish['claim']): boolean {
  if (entry.kind !== 'lease' || entry.adopted || entry.resource !== wanted.resource) return false
  const isLess =
    (entry.mode === 'shared' && wanted.mode === 'exclusive') ||
    (entry.extent === 'exact' && wanted.extent === 'subtree')
  const isAlone = entry.mode === 'exclusive' && wanted.mode === 'exclusive'
  const isMixed = (entry.slots === null) !== (wanted.slots === null)
  const hasMore = (entry.slots ?? 0) > (wanted.slots ?? 0)
  return entry.holder === wanted.holder && (isLess || (!isAlone && (isMixed || hasMore)))
}

interface Wish {
  readonly claim: Reached & Pick<Claim, 'id' | 'holder'>
  readonly keyUs: number
}

type Reached = Pick<Claim, 'resource' | 'extent' | 'mode' | 'slots'>

interface Newcomer {
  readonly lease: Lease
  readonly now: Now
  readonly command: AnyCommand
}

/** A request that is granted at once is measured by the place that it would have had. */
function waitingOf(newcomer: Newcomer | undefined): Waiting | undefined {
  if (newcomer === undefined) return undefined
  const { lease, now, command } = newcomer
  const asked = command.kind === 'acquire_all' ? command.members[0] : command
  const priority = asked?.kind === 'acquire' ? asked.priority : 0
  const ticket = lease as Claim as Ticket
  return { ticket, keyUs: now.tick.us - priority * POINT_US }
}

/** What a transfer hands on: the end of `maxHoldMs`, or the end that somebody asked for. */
function ceilingOf(giver: Promised): number {
  return giver.revoking ? giver.untilUs : giver.holdUntilUs
}

/** After an end that the holder may not have noticed, nobody comes in for as long as the lease said. */
function checkDelay(earlier: Promised, lease: Lease, { tick }: Now): void {
  if (earlier.released || earlier.domain !== tick.domain) return
  const sinceUs = earlier.revokedAtUs ?? earlier.untilUs
  const isOver = tick.us >= sinceUs + earlier.claim.lockDelayMs * 1000
  must(isOver, `${lease.id} was granted within the lock delay of ${earlier.claim.id}`)
}

/** At no place are there more leases than any of them shares with. */
function checkSlots(one: Lease, held: readonly Lease[]): void {
  const place: Claim = { ...one, extent: 'exact' }
  const there = held.filter((other) => touch(other, place))
  const fewest = Math.min(...there.map(({ slots }) => slots ?? Infinity))
  must(
    there.length <= fewest,
    `I1: ${there.length} leases in the ${fewest} slots of ${one.resource}`,
  )
}

/** I7: each event says from which state it takes its entry to which, and how often that was renewed by then. */
function checkStates(
  events: readonly LeaseEvent[],
  before: readonly Entry[],
  entries: ReadonlyMap<LeaseId, Entry>,
): void {
  const states = new Map(before.map(({ id, state }) => [id, state]))
  const told = new Map<LeaseId, LeaseEvent>()
  for (const event of events) {
    const { leaseId, type } = event
    const state = states.get(leaseId) ?? null
    must(
      event.before === state,
      `I7: ${type} of ${leaseId} is from ${event.before}, it was ${state}`,
    )
    states.set(leaseId, event.after)
    told.set(leaseId, event)
  }
  for (const [leaseId, { type, after, renewals }] of told) {
    const entry = entries.get(leaseId)
    if (entry === undefined) continue
    must(entry.state === after, `I7: ${type} of ${leaseId} is to ${after}, it is ${entry.state}`)
    const isCounted = entry.kind === 'ticket' || entry.renewals === renewals
    must(isCounted, `I7: ${type} of ${leaseId} tells of ${renewals} renewals`)
  }
}

/** No instant is unowned: the commit that ends the old lease gives the resource to another. */
function checkTransfer(events: readonly LeaseEvent[]): void {
  const given = events.find((event) => event.type === 'lease.transferred')
  if (given === undefined) return
  const taken = events.some((event) => {
    if (given.to === null) return event.type === 'lease.offered'
    if (event.type !== 'lease.issued' || event.lease.adopted) return false
    return event.lease.resource === given.resource && event.lease.holder === given.to
  })
  must(taken, `${given.leaseId} was given away and nobody has it`)
}

/** Several at once, or none of them. */
function checkWholeness({ decision, view }: Step<AnyCommand>, command: AnyCommand): void {
  const issued = decision.events.filter((event) => event.type === 'lease.issued')
  if ('members' in command) {
    // What was transferred to the requester is taken over together with the rest.
    const adopted = decision.events.filter(({ type }) => type === 'lease.adopted')
    const count = issued.length + adopted.length
    must([0, command.members.length].includes(count), `${count} were granted, not all of them`)
    return
  }
  for (const { leaseId } of issued) {
    const ticket = view.entries.get(leaseId)
    const single = ticket?.kind !== 'ticket' || ticket.group === null
    must(single, `${leaseId} was granted without the others that it belongs to`)
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

function touch(a: Reached, b: Reached): boolean {
  if (a.resource === b.resource) return true
  const below = (outer: Reached, inner: Reached): boolean => {
    const tree = outer.resource.startsWith('file:') && outer.extent === 'subtree'
    return tree && inner.resource.startsWith(`${outer.resource}/`)
  }
  return below(a, b) || below(b, a)
}

function compatible(a: Reached, b: Reached): boolean {
  return a.mode === 'shared' && b.mode === 'shared' && (a.slots === null) === (b.slots === null)
}

function wantsAlone(entry: Entry): boolean {
  return entry.kind === 'lease' && entry.upgrading
}

function must(held: boolean, broken: string): asserts held {
  if (!held) throw new Error(broken)
}
