/**
 * A store with a clock to move, and commands short enough to write down in a line. Commands go through the core's own
 * `decide`, exactly as the service sends them, so what is checked here is the store and nothing else.
 */
import assert from 'node:assert/strict'
import { mergeViews } from '../../core/acquire-all.ts'
import type { Acquire, ClaimOffer, Command, SeveralCommand } from '../../core/command.ts'
import { commitOf, NOTHING } from '../../core/commit.ts'
import {
  decide,
  decideSeveral,
  readSetOf,
  readSetsOf,
  viewOf,
  type OutcomeOf,
} from '../../core/decide.ts'
import type { LeaseDenied, LeaseEvent } from '../../core/event.ts'
import type { Entry, Lease, LeaseId } from '../../core/lease.ts'
import { LIST_LIMIT_MAX } from '../../core/limits.ts'
import type { AcquireAllOutcome, AdvanceOutcome } from '../../core/outcome.ts'
import type { ReadSet, RealmView } from '../../core/realm.ts'
import { parseResource, type Reach, type Resource } from '../../core/resource.ts'
import type { SettingKey } from '../../core/settings.ts'
import type { Now } from '../../core/time.ts'
import type { Decide, Store } from '../../store-port/store.ts'
import { allEntries } from '../all-entries.ts'
import { ManualTicks, type TestClock } from '../fake-runtime.ts'
import type { OpenedStore, StoreHarness } from './harness.ts'

export const TTL_MS = 10_000
export const WINDOW_MS = 5_000
export const WORK: Resource = parseResource('work:W-1')
export const OTHER: Resource = parseResource('work:W-2')

/** What a decision saw and came to. */
export interface Seen<Outcome> {
  readonly outcome: Outcome
  readonly view: RealmView
  readonly now: Now
  readonly refusals: readonly LeaseDenied[]
}

export class Stage {
  readonly clock: TestClock
  readonly #harness: StoreHarness
  readonly #opened: OpenedStore
  readonly #others: Stage[] = []
  #store: Store
  #written: LeaseEvent[] | null = null
  #ids = 0

  static async open(harness: StoreHarness): Promise<Stage> {
    return new Stage(harness, await harness.open(new ManualTicks()))
  }

  private constructor(harness: StoreHarness, opened: OpenedStore) {
    this.#harness = harness
    this.#opened = opened
    this.#store = opened.store
    this.clock = opened.clock
  }

  get store(): Store {
    return this.#store
  }

  async close(): Promise<void> {
    for (const other of this.#others) await other.close()
    await this.#opened.close()
  }

  /** Another, empty store of the same kind. */
  async elsewhere(): Promise<Stage> {
    const other = await Stage.open(this.#harness)
    this.#others.push(other)
    return other
  }

  async reopen(): Promise<void> {
    const reopened = await this.#opened.reopen?.()
    assert(reopened !== undefined, 'the harness cannot reopen and does not say why')
    this.#store = reopened
  }

  async another(): Promise<Store> {
    const another = await this.#opened.openAnother?.()
    assert(another !== undefined, 'the harness cannot open another and does not say why')
    return another
  }

  /** A new lease or request id. */
  id(): string {
    this.#ids += 1
    return `00000000-0000-4000-8000-${String(this.#ids).padStart(12, '0')}`
  }

  /** What is written to the ledger from here on, as the core gave it to the store. */
  recordEvents(): readonly LeaseEvent[] {
    const written: LeaseEvent[] = []
    this.#written = written
    return written
  }

  /** Several at once, exactly as the service sends them. */
  async runSeveral(command: SeveralCommand): Promise<AcquireAllOutcome> {
    const readSets = command.members.map((member) => readSetOf(member))
    return this.#store.transact(readSets, (views, now) => {
      const decision = decideSeveral(views, command, now)
      const { outcome, validUntilUs } = decision
      return { outcome, commit: commitOf(mergeViews(views), decision), validUntilUs }
    })
  }

  async run<C extends Command>(command: C, store: Store = this.#store): Promise<OutcomeOf<C>> {
    return (await this.see(command, store)).outcome
  }

  see<C extends Command>(command: C, store: Store = this.#store): Promise<Seen<OutcomeOf<C>>> {
    const decide = ruling(command)
    let events: readonly LeaseEvent[] = []
    return store
      .transact(readSetsOf(command), (views, now) => {
        const ruled = decide(views, now)
        events = ruled.commit.events
        return ruled
      })
      .then((seen) => {
        this.#written?.push(...events)
        return seen
      })
  }

  /** Looks at a read set and changes nothing. */
  async look(readSet: Partial<ReadSet> & { readonly resource: Resource }): Promise<RealmView> {
    const whole = { ...DEFAULT_READ_SET, ...readSet }
    return this.#store.transact([whole], ([view]) => {
      assert(view !== undefined)
      return { outcome: view, commit: NOTHING, validUntilUs: null }
    })
  }

  async now(): Promise<Now> {
    return this.#store.transact([{ ...DEFAULT_READ_SET, resource: WORK }], (_views, now) => {
      return { outcome: now, commit: NOTHING, validUntilUs: null }
    })
  }

  /** A request of `ada`, who does not wait. */
  acquire(change: Partial<Acquire> = {}): Acquire {
    const holder = change.holder ?? 'ada'
    return {
      kind: 'acquire',
      leaseId: this.id(),
      resource: WORK,
      mode: 'exclusive',
      extent: 'exact',
      holder,
      session: `session-of-${holder}`,
      ttlMs: TTL_MS,
      maxRenewals: null,
      maxHoldMs: null,
      slots: null,
      priority: 0,
      lockDelayMs: 0,
      breakable: false,
      breakGraceMs: null,
      reason: null,
      metadata: null,
      wait: { kind: 'none' },
      claimWindowMs: WINDOW_MS,
      ...change,
    }
  }

  async grant(change: Partial<Acquire> = {}): Promise<Lease> {
    const outcome = await this.run(this.acquire(change))
    assert.equal(outcome.kind, 'granted', JSON.stringify(outcome))
    assert(outcome.kind === 'granted')
    return outcome.lease
  }

  /** What is to be counted of a request that is refused. */
  async refusal(command: Acquire): Promise<LeaseDenied> {
    const { refusals, outcome } = await this.see(command)
    const [refusal] = refusals
    assert(refusal !== undefined, JSON.stringify(outcome))
    return refusal
  }

  /** As earlier versions did: a refused request is an entry that has failed, and the ledger tells of it. */
  async refuseInLedger(change: Partial<Acquire> = {}): Promise<void> {
    const command = this.acquire(change)
    const event = await this.refusal(command)
    const { leaseId: id, ticket: after } = event
    const changes = [{ id, before: undefined, after, renewal: false }]
    await this.#store.transact(readSetsOf(command), () => {
      const commit = { ...NOTHING, changes, events: [event] }
      return { outcome: null, commit, validUntilUs: null }
    })
    this.#written?.push(event)
  }

  /** Files a ticket behind the blocker. */
  async queue(change: Partial<Acquire> = {}): Promise<Acquire> {
    const command = this.acquire({ wait: { kind: 'up_to', waitMs: 60_000 }, ...change })
    const outcome = await this.run(command)
    assert.equal(outcome.kind, 'queued', JSON.stringify(outcome))
    return command
  }

  /** The waiter accepts what it was offered. */
  async claim(ticket: Acquire): Promise<OutcomeOf<ClaimOffer>> {
    return this.run({ kind: 'claim', ...placeOf(ticket), session: ticket.session })
  }

  async release(lease: Lease, requestId: string | null = null): Promise<void> {
    const outcome = await this.run({
      ...{ kind: 'release', ...placeOf(lease), releaseReason: 'voluntary', requestId },
    })
    assert.equal(outcome.kind, 'released', JSON.stringify(outcome))
  }

  async renew(lease: Lease, requestId: string | null = null): Promise<void> {
    const outcome = await this.run({ kind: 'renew', ...placeOf(lease), ttlMs: null, requestId })
    assert.equal(outcome.kind, 'renewed', JSON.stringify(outcome))
  }

  /** Uses up the next epochs of a workflow. */
  async advance(lease: Lease, from: number, count = 1): Promise<AdvanceOutcome> {
    const epochs = { from, count, reason: null, requestId: null }
    return this.run({ kind: 'advance', ...placeOf(lease), ...epochs })
  }

  async revoke(entry: Lease | Acquire, requestId: string | null = null): Promise<void> {
    const operator = { by: 'operator', reason: null, graceMs: 0, requestId }
    const outcome = await this.run({ kind: 'revoke', ...placeOf(entry), ...operator })
    assert.equal(outcome.kind, 'revoked', JSON.stringify(outcome))
  }

  async configure(key: SettingKey, value: string | null): Promise<void> {
    await this.#store.configure({ key, value, scope: 'global', resourceId: null })
  }

  async entries(): Promise<readonly Entry[]> {
    return allEntries(this.#store)
  }

  async kept(id: LeaseId): Promise<Entry | undefined> {
    return (await this.#store.find({ ids: [id], limit: 1 })).entries[0]
  }

  async events(): Promise<readonly LeaseEvent[]> {
    const ledger = await this.#store.history({ limit: LIST_LIMIT_MAX })
    return ledger.map((entry) => entry.event)
  }
}

const DEFAULT_READ_SET = {
  extent: 'exact',
  leaseId: '00000000-0000-4000-8000-ffffffffffff',
  requestId: null,
  depth: 'claims',
} as const

/** By what a command names a lease or a ticket. */
export interface LeasePlace extends Reach {
  readonly leaseId: LeaseId
  readonly holder: string
}

export function placeOf(entry: Lease | Acquire): LeasePlace {
  const leaseId = 'id' in entry ? entry.id : entry.leaseId
  const { resource, extent, holder } = entry
  return { leaseId, resource, extent, holder }
}

/** The ruling of the core, as the service asks for it. */
export function ruling<C extends Command>(command: C): Decide<Seen<OutcomeOf<C>>> {
  return (views, now) => {
    assert(views.length > 0, 'the store gave no view for the read set')
    const view = viewOf(views)
    const decision = decide(view, command, now)
    const { outcome, validUntilUs, refusals } = decision
    const seen = { outcome, view, now, refusals }
    return { outcome: seen, commit: commitOf(view, decision), validUntilUs }
  }
}

export async function refusesWith(code: string, call: () => Promise<unknown>): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert(error instanceof Error)
    assert.equal((error as Error & { code?: unknown }).code, code, error.message)
    return true
  })
}
