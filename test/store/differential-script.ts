/**
 * One seeded script of service calls, built so that everything a call can come to does come up: wrong holders, used
 * ids, repeated requests, late claims, nonsense in the configuration, a clock that jumps.
 */
import { parseResource } from '../../src/core/resource.ts'
import type { AcquireRequest, ListFilter, TicketRef } from '../../src/service/lease-api.ts'
import type { LeaseService } from '../../src/service/lease-service.ts'
import type { Store } from '../../src/store-port/store.ts'
import type { TestClock } from '../../src/testing/fake-runtime.ts'
import { FamilyScript } from './family-script.ts'

/** One of the two stores that are compared. */
export interface Side {
  readonly store: Store
  readonly api: LeaseService
  readonly ticks: TestClock
}

export interface ScriptStep {
  readonly name: string
  /** Whom the step is about, for a script that listens to what becomes of it. */
  readonly about?: Known
  /** What is used up, if the step comes to that. */
  readonly spending?: { readonly leaseId: string; readonly amounts: { readonly tokens: number } }
  run(side: Side): Promise<unknown>
}

export interface Known {
  readonly id: string
  readonly resource: ReturnType<typeof parseResource>
  readonly holder: string
  readonly session: string
}

const RESOURCES = ['work:W-1', 'file:/src/a.ts', 'file:/src', "x:%_*'"].map(parseResource)
const FLOW = parseResource('workflow:w')
/** Takes two leases at once; sometimes somebody says three. */
const POOL = parseResource('pool:p')
const DIRECTORY = parseResource('file:/src')
interface Group {
  readonly group: string
  readonly members: readonly [Known, Known]
}

const HOLDERS = ['ada', 'bob', 'cyd', "d'Arc"]
const TTLS_MS = [500, 2_000, 10_000]
const GLOBAL = { scope: 'global', resourceId: null } as const

export class DifferentialScript {
  readonly #random: () => number
  readonly #oneClock: boolean
  readonly #known: Known[] = []
  readonly #held: Known[] = []
  readonly #waiting: Known[] = []
  readonly #given: Known[] = []
  readonly #groups: Group[] = []
  readonly #families: FamilyScript
  readonly #requestIds: string[] = []
  #ids = 0

  constructor(random: () => number, { oneClock }: { readonly oneClock: boolean }) {
    this.#random = random
    this.#oneClock = oneClock
    this.#families = new FamilyScript({ random, id: () => this.#id() })
  }

  next(): ScriptStep {
    if (this.#families.isInFlight) return this.#families.next()
    const makers: readonly (readonly [number, () => ScriptStep])[] = [
      [20, () => this.#acquire()],
      [28, () => this.#claim()],
      [8, () => this.#withdraw()],
      [14, () => this.#renew()],
      [16, () => this.#release()],
      [8, () => this.#upgrade()],
      [2, () => this.#withdrawUpgrade()],
      [4, () => this.#downgrade()],
      [8, () => this.#transfer()],
      [6, () => this.#adopt()],
      [3, () => this.#orchestrate()],
      [6, () => this.#advance()],
      [3, () => this.#families.next()],
      [8, () => this.#acquireAll()],
      [14, () => this.#claimAll()],
      [4, () => this.#rivals()],
      [2, () => this.#together()],
      [7, () => this.#revoke()],
      // These end several at once, which optimistic stores do at one tick and others at one each, in an order of its own.
      [this.#oneClock ? 0 : 1, () => this.#revokeAll()],
      [this.#oneClock ? 0 : 1, () => ({ name: 'cleanup', run: ({ api }) => api.cleanup() })],
      [3, () => this.#pass()],
      [this.#oneClock ? 0 : 1, () => this.#clock()],
      [10, () => this.#read()],
      [5, () => this.#configure()],
    ]
    let rest = this.#random() * makers.reduce((sum, [weight]) => sum + weight, 0)
    const chosen = makers.find(([weight]) => (rest -= weight) < 0)
    return (chosen?.[1] ?? (() => this.#pass()))()
  }

  /** What a step came to; so that most claims are of somebody who waits, and most releases of somebody who holds. */
  hear({ about }: ScriptStep, outcome: string): void {
    if (about === undefined) return
    this.#families.hear(about, outcome)
    if (/granted|transferred/.test(outcome)) this.#held.push(about)
    if (outcome.includes('queued')) this.#waiting.push(about)
  }

  #acquire(): ScriptStep {
    const one = this.#chance(0.25) ? this.#someone(this.#held) : this.#newcomer()
    const request = {
      ...one,
      ...(this.#chance(0.03) ? { resource: this.#pick(RESOURCES) } : {}),
      waitMs: this.#pick([0, 1_000, 60_000, 'configured'] as const),
      ...(this.#chance(0.95) ? { ttlMs: this.#pick(TTLS_MS) } : {}),
      ...(this.#chance(0.3) ? { maxRenewals: this.#pick([0, 1, 2]) } : {}),
      ...(this.#chance(0.2) ? { maxHoldMs: 3_000 } : {}),
      ...(this.#chance(0.2) ? { reason: 'edit "ü"', metadata: { pr: 7, ok: true } } : {}),
      ...this.#sharing(one),
      ...(this.#chance(0.1) ? { lockDelayMs: 300 } : {}),
      ...(this.#chance(0.2) ? { priority: this.#pick([-100, -1, 1, 100]) } : {}),
      ...(this.#chance(0.2) ? { breakable: true } : {}),
      ...(this.#chance(0.1) ? { breakGraceMs: this.#pick([0, 200]) } : {}),
      ...(this.#chance(0.3) ? { sequential: true } : {}),
      ...(this.#chance(0.2) ? { under: [one.id, this.#id()] } : {}),
      claimWindowMs: 1_000,
    }
    return { name: 'acquire', about: one, run: ({ api }) => api.acquire(request) }
  }

  #sharing({ resource }: Known): Pick<AcquireRequest, 'mode' | 'extent' | 'slots'> {
    if (resource === POOL) return { slots: this.#chance(0.9) ? 2 : 3 }
    const extent = resource === DIRECTORY ? ({ extent: 'subtree' } as const) : {}
    return this.#chance(0.45) ? { mode: 'shared', ...extent } : extent
  }

  #upgrade(): ScriptStep {
    const { id: leaseId, holder } = this.#someone(this.#held)
    const request = { id: leaseId, holder, mayWait: this.#chance(0.7) }
    return { name: 'upgrade', run: ({ api }) => api.upgrade(request) }
  }

  #withdrawUpgrade(): ScriptStep {
    const { id: leaseId, holder } = this.#someone(this.#held)
    return {
      name: 'withdrawUpgrade',
      run: ({ api }) => api.withdrawUpgrade({ id: leaseId, holder }),
    }
  }

  #downgrade(): ScriptStep {
    const { id: leaseId, holder } = this.#someone(this.#held)
    const request = { id: leaseId, holder, ...this.#requestId() }
    return { name: 'downgrade', run: ({ api }) => api.downgrade(request) }
  }

  #orchestrate(): ScriptStep {
    const about = { ...this.#newcomer(), resource: FLOW }
    const request = { ...about, waitMs: 0, ttlMs: this.#pick(TTLS_MS) }
    return { name: 'orchestrate', about, run: ({ api }) => api.acquire(request) }
  }

  /** From the next epoch, or from one beside it; mostly of what has epochs. */
  #advance(): ScriptStep {
    const flows = this.#held.filter(({ resource }) => resource === FLOW)
    const { id: leaseId, holder } = this.#someone(this.#chance(0.8) ? flows : this.#held)
    const besides = this.#pick([0, 0, 0, 1])
    const request = { id: leaseId, holder, count: this.#pick([1, 2, 100]), ...this.#requestId() }
    return {
      name: 'advance',
      run: async ({ api }) => {
        const from = ((await api.get({ id: leaseId }))?.epoch ?? 0) + besides
        return api.advance({ ...request, from })
      },
    }
  }

  /** Whoever is given a lease adopts it by its id, or meets it when it asks for the resource. */
  #transfer(): ScriptStep {
    const { id: leaseId, holder, resource } = this.#someone(this.#held)
    const to = this.#pick(HOLDERS.filter((other) => other !== holder))
    const newLeaseId = this.#chance(0.9) ? this.#id() : this.#someone().id
    const given = { id: newLeaseId, resource, holder: to, session: `s-${to}` }
    this.#given.push(given)
    const toWhom = this.#chance(0.7) ? to : null
    const request = { id: leaseId, holder, to: toWhom, newId: newLeaseId, ...this.#requestId() }
    return { name: 'transfer', about: given, run: ({ api }) => api.transfer(request) }
  }

  #adopt(): ScriptStep {
    const one = this.#someone(this.#given)
    const { id: leaseId, holder } = one
    const session = this.#chance(0.7) ? one.session : `${one.session}-2`
    return {
      name: 'adopt',
      about: one,
      run: ({ api }) => api.adopt({ id: leaseId, holder, session }),
    }
  }

  /** Two that do not overlap; sometimes the same again, as after a lost answer. */
  #acquireAll(): ScriptStep {
    const old = this.#groups.slice(-2)
    const again = old.length > 0 && this.#chance(0.4)
    const { group, members } = again ? this.#pick(old) : this.#newGroup()
    const [{ holder, session }] = members
    const request = {
      ...{ group, holder, session, ttlMs: this.#pick(TTLS_MS), claimWindowMs: 1_000 },
      waitMs: this.#pick([0, 60_000]),
      members: members.map(({ id, resource }) => ({ id, resource })),
    }
    return { name: 'acquireAll', run: ({ api }) => api.acquireAll(request) }
  }

  #newGroup(): Group {
    const first = { ...this.#newcomer(), resource: this.#pick(RESOURCES.slice(0, 2)) }
    const second = { ...first, id: this.#id(), resource: parseResource('x:together') }
    const group = { group: this.#id(), members: [first, second] } as const
    this.#groups.push(group)
    return group
  }

  /** Two who share something new and both wish to be alone: too rare to wait for. */
  #rivals(): ScriptStep {
    const resource = parseResource(`work:${this.#id()}`)
    const rivals = ['ada', 'bob'].map((holder) => ({ id: this.#id(), resource, holder }))
    return {
      name: 'upgrade',
      run: async ({ api }) => {
        for (const one of rivals) {
          const wish = { mode: 'shared', ttlMs: 500, waitMs: 0 } as const
          await api.acquire({ ...one, ...wish, session: `s-${one.holder}` })
        }
        const [first, second] = rivals
        if (first === undefined || second === undefined) throw new Error('there are two')
        return [
          await api.upgrade({ ...first, mayWait: true }),
          await api.upgrade({ ...second, mayWait: true }),
        ].at(-1)
      },
    }
  }

  /** Somebody waits for two new ones of which one is held, and gets both, in time or too late. */
  #together(): ScriptStep {
    const names = [parseResource(`work:${this.#id()}`), parseResource(`file:/new/${this.#id()}`)]
    const [first = POOL] = names
    const held = { id: this.#id(), resource: first, holder: 'cyd', session: 's-cyd' }
    const members = names.map((resource) => ({ id: this.#id(), resource }))
    const who = { holder: 'ada', session: 's-ada' }
    const group = this.#id()
    const lateMs = this.#pick([0, 600])
    return {
      name: 'claimAll',
      run: async ({ api, ticks }) => {
        await api.acquire({ ...held, ttlMs: 500, waitMs: 0 })
        const wish = { ttlMs: 500, waitMs: 60_000, claimWindowMs: 1_000 }
        await api.acquireAll({ group, members, ...who, ...wish })
        await api.release(held)
        const tickets = members.map((member) => ({ ...member, ...who }))
        const answer = await api.claimAll({ tickets })
        ticks.pass(lateMs)
        return lateMs === 0 ? answer : api.claimAll({ tickets })
      },
    }
  }

  #claimAll(): ScriptStep {
    const { members } =
      this.#groups.length === 0 ? this.#newGroup() : this.#pick(this.#groups.slice(-1))
    const tickets = members.map(({ id: leaseId, resource, holder, session }) => ({
      id: leaseId,
      resource,
      holder,
      session,
    }))
    return { name: 'claimAll', run: ({ api }) => api.claimAll({ tickets }) }
  }

  #claim(): ScriptStep {
    const one = this.#someone(this.#waiting)
    const { id: leaseId, resource, holder, session } = one
    const extent = resource === DIRECTORY ? 'subtree' : 'exact'
    const hints: Pick<TicketRef, 'expects'> = this.#pick([
      {},
      { expects: 'offer' },
      { expects: 'nothing' },
    ])
    const implied = this.#chance(0.2) ? { implied: [this.#id()] } : {}
    const ticket = { id: leaseId, resource, extent, holder, session, ...hints, ...implied } as const
    return { name: 'claim', about: one, run: ({ api }) => api.claim(ticket) }
  }

  #withdraw(): ScriptStep {
    const { id: leaseId, resource, holder, session } = this.#someone(this.#waiting)
    const why = this.#pick(['timed_out', 'aborted'] as const)
    const extent = resource === DIRECTORY ? 'subtree' : 'exact'
    const ticket = { id: leaseId, resource, extent, holder, session, why } as const
    return { name: 'withdraw', run: ({ api }) => api.withdraw(ticket) }
  }

  #renew(): ScriptStep {
    const { id: leaseId, holder } = this.#someone(this.#held)
    const ttl = this.#chance(0.3) ? { ttlMs: this.#pick([1, ...TTLS_MS]) } : {}
    const request = { id: leaseId, holder, ...ttl, ...this.#requestId() }
    return { name: 'renew', run: ({ api }) => api.renew(request) }
  }

  #release(): ScriptStep {
    const { id: leaseId, holder } = this.#someone(this.#held)
    const releaseReason = this.#pick(['completed', 'aborted', 'voluntary'] as const)
    const request = { id: leaseId, holder, releaseReason, ...this.#requestId() }
    return { name: 'release', run: ({ api }) => api.release(request) }
  }

  #revoke(): ScriptStep {
    const grace = this.#chance(0.4) ? { graceMs: this.#pick([1, 300]) } : {}
    const { id: leaseId } = this.#someone()
    const request = { id: leaseId, by: 'operator', ...grace, ...this.#requestId() }
    return { name: 'revoke', run: ({ api }) => api.revoke(request) }
  }

  #revokeAll(): ScriptStep {
    const holder = this.#pick(HOLDERS)
    return {
      name: 'revokeAll',
      run: ({ api }) => api.revokeAll({ holder, by: 'operator', reason: 'enough' }),
    }
  }

  #pass(): ScriptStep {
    const spanMs = this.#pick([1, 100, 400, 1_000, 5_000])
    return { name: 'pass', run: async ({ ticks }) => ticks.pass(spanMs) }
  }

  #clock(): ScriptStep {
    const domain = this.#pick(['h1/boot-1/0', 'h1/boot-2/0', 'h2/boot-3/0'])
    const wallMs = this.#pick([-60_000, 60_000, 40 * 86_400_000])
    const move = this.#chance(0.5)
      ? (ticks: TestClock) => ticks.enterDomain(domain)
      : (ticks: TestClock) => ticks.stepWall(wallMs)
    const [before, after] = [this.#stamp(), this.#stamp()]
    return {
      name: 'clock',
      run: async ({ ticks, api }) => {
        const first = await api.acquire(before)
        move(ticks)
        return { kind: 'moved', first, second: await api.acquire(after) }
      },
    }
  }

  /** A store need not remember a clock under which nothing was committed, so something is. */
  #stamp(): AcquireRequest {
    return { ...this.#newcomer(), resource: parseResource(`clock:${this.#id()}`), waitMs: 0 }
  }

  #read(): ScriptStep {
    const { id: leaseId, resource, holder } = this.#someone()
    const state = this.#pick(['active', 'pending', 'released', 'expired', 'revoked'] as const)
    const reads: readonly ScriptStep[] = [
      { name: 'get', run: ({ api }) => api.get({ id: leaseId }) },
      { name: 'list live', run: ({ api }) => list(api, {}) },
      { name: 'list by state', run: ({ api }) => list(api, { state, holder, limit: 5 }) },
      { name: 'list by resource', run: ({ api }) => list(api, { resource, state }) },
      { name: 'inspect', run: ({ api }) => api.inspect({ resource }) },
      { name: 'history of a lease', run: ({ api }) => history(api, { leaseId }) },
      {
        name: 'history of a holder',
        run: ({ api }) => history(api, { holder, newestFirst: true }),
      },
      { name: 'settings', run: ({ api }) => api.settings({ resource }) },
    ]
    return this.#pick(reads)
  }

  #configure(): ScriptStep {
    const [key, values] = this.#pick([
      ['default_ttl_seconds', ['5', '7']],
      ['max_renewals', ['0', '-1', null]],
      ['acquisition_timeout_ms', ['0', '2000', null]],
      ['blocking_mode_enabled', ['false', 'true', 'true', null]],
      ['record_renewals', ['false', 'true', 'true', null]],
      ['keep_history', ['false', 'true', 'true', 'true', null]],
    ] as const)
    const value = this.#pick<string | null>(values)
    if (!this.#chance(0.2)) {
      return { name: 'configure', run: ({ api }) => api.configure({ key, value, ...GLOBAL }) }
    }
    const target = { scope: 'kind', resourceId: 'work' } as const
    const nonsense = this.#chance(0.4) ? 'nonsense' : null
    return {
      name: 'configure a kind',
      run: ({ store }) => store.configure({ key, value: nonsense, ...target }),
    }
  }

  /** Mostly somebody who was heard of lately; sometimes a stranger with the right id, or a right one without. */
  #someone(among: readonly Known[] = this.#known): Known {
    const known = this.#chance(0.3) ? this.#known.slice(-10) : among.slice(-5)
    if (known.length === 0 || this.#chance(0.03)) return this.#newcomer()
    const one = this.#pick(known)
    if (!this.#chance(0.06)) return one
    return { ...one, holder: this.#pick(HOLDERS), session: `s-${this.#pick(HOLDERS)}` }
  }

  #newcomer(): Known {
    const holder = this.#pick(HOLDERS)
    const session = this.#chance(0.8) ? `s-${holder}` : `s-${holder}-2`
    const resource = this.#pick([...RESOURCES, POOL])
    const one = { id: this.#id(), resource, holder, session }
    this.#known.push(one)
    return one
  }

  #requestId(): { readonly requestId?: string } {
    if (this.#chance(0.4)) return {}
    if (this.#requestIds.length === 0 || this.#chance(0.6)) this.#requestIds.push(this.#id())
    return { requestId: this.#pick(this.#requestIds.slice(-6)) }
  }

  #id(): string {
    this.#ids += 1
    return `00000000-0000-4000-8000-${String(this.#ids).padStart(12, '0')}`
  }

  #chance(share: number): boolean {
    return this.#random() < share
  }

  #pick<Item>(items: readonly Item[]): Item {
    const item = items[Math.floor(this.#random() * items.length)]
    if (item === undefined) throw new Error('nothing to pick from')
    return item
  }
}

/** Positions are opaque and may differ; what happened may not. */
/** With a second page where there is one; what leads there is each store's own. */
async function list(api: LeaseService, filter: ListFilter): Promise<unknown> {
  const { next, ...first } = await api.list(filter)
  if (next === undefined) return { first }
  const { next: _next, ...second } = await api.list({ ...filter, after: next })
  return { first, second }
}

async function history(api: LeaseService, filter: object): Promise<unknown> {
  return (await api.history(filter)).map((entry) => entry.event)
}
