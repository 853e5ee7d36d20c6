/**
 * The part of a script that is about derived leases: somebody gets a directory of its own with a budget, derives from it
 * and from what was derived, spends, and ends some of it; and strangers ask for the top of what may have run out. A
 * family has a number of steps in a row, or its leases would be over before much comes of them.
 */
import { parseResource } from '../../src/core/resource.ts'
import type { AcquireRequest, DeriveRequest } from '../../src/service/lease-api.ts'
import type { Known, ScriptStep } from './differential-script.ts'

export interface FamilyScriptParts {
  readonly random: () => number
  /** A new one. */
  readonly id: () => string
}

const STEPS = 16
const HOLDERS = ['ada', 'bob', 'cyd']
const TTLS_MS = [100, 400, 2_000]
const WIDE = { budget: { tokens: 20 }, scope: { tools: ['edit', 'run'], namespaces: ['src'] } }
const BUDGETS = [{ tokens: 2 }, { tokens: 2 }, { tokens: 5 }, { tokens: 20, toolCalls: 3 }, {}]
const SCOPES = [{}, { tools: ['edit'] }, { tools: ['edit'], namespaces: ['src/a'] }, WIDE.scope]

export class FamilyScript {
  readonly #parts: FamilyScriptParts
  readonly #members: Known[] = []
  #left = 0
  readonly #derivations: { readonly request: DeriveRequest; readonly about: Known }[] = []

  constructor(parts: FamilyScriptParts) {
    this.#parts = parts
  }

  get isInFlight(): boolean {
    return this.#left > 0
  }

  next(): ScriptStep {
    this.#left -= 1
    if (this.#left < 0) return this.#found()
    const makers: readonly (() => ScriptStep)[] = [
      ...[() => this.#derive(), () => this.#derive(), () => this.#derive(), () => this.#derive()],
      ...[() => this.#derive(), () => this.#spend(), () => this.#spend(), () => this.#again()],
      ...[() => this.#renew(), () => this.#end(), () => this.#changeMode(), () => this.#visit()],
    ]
    return this.#pick(makers)()
  }

  hear(about: Known, outcome: string): void {
    if (/^(found|derive|transfer) (granted|transferred)/.test(outcome)) this.#members.push(about)
  }

  /** A directory that nobody knows of yet. */
  #found(): ScriptStep {
    this.#left = STEPS
    this.#members.splice(0, this.#members.length - 1)
    const about = this.#newcomer(`file:/family/${this.#parts.id()}`)
    const request: AcquireRequest = {
      ...{ ...about, extent: 'subtree', waitMs: 0, ttlMs: this.#pick([400, 2_000, 10_000]) },
      ...(this.#chance(0.3) ? { mode: 'shared' } : {}),
      ...(this.#chance(0.8) ? WIDE : {}),
      ...(this.#chance(0.2) ? { lockDelayMs: 300 } : {}),
      ...(this.#chance(0.3) ? { breakable: true } : {}),
    }
    return { name: 'found', about, run: ({ api }) => api.acquire(request) }
  }

  /** Part of what somebody has, mostly; sometimes more than that. */
  #derive(): ScriptStep {
    const parent = this.#member()
    const below = this.#pick(['', '', '/a', '/a/deep', '/b'])
    const resource = this.#chance(0.9) ? `${parent.resource}${below}` : 'file:/elsewhere'
    const about = this.#newcomer(resource)
    const { id: leaseId, holder, session } = about
    const request = {
      ...{ id: leaseId, holder, session, by: parent.holder, parent: { id: parent.id } },
      ...(below === '' ? {} : { resource: about.resource }),
      ...(this.#chance(0.4) ? { extent: this.#pick(['exact', 'subtree'] as const) } : {}),
      ...(this.#chance(0.3) ? { mode: this.#pick(['shared', 'exclusive'] as const) } : {}),
      ...(this.#chance(0.5) ? { ttlMs: this.#pick(TTLS_MS) } : {}),
      ...{ budget: this.#pick(BUDGETS), scope: this.#pick(SCOPES) },
    }
    this.#derivations.push({ request, about })
    return { name: 'derive', about, run: ({ api }) => api.derive(request) }
  }

  /** As after a lost answer. */
  #again(): ScriptStep {
    const last = this.#derivations.at(-1)
    if (last === undefined) return this.#derive()
    return { name: 'derive', run: ({ api }) => api.derive(last.request) }
  }

  /** Twice under one request id, which spends once; sometimes under an id that is known for something else. */
  #spend(): ScriptStep {
    const { id: leaseId, holder } = this.#member()
    const amounts = { tokens: this.#pick([1, 2, 10]) }
    const requestId = this.#parts.id()
    const isReused = this.#chance(0.1)
    return {
      name: 'spend',
      spending: { leaseId, amounts },
      run: async ({ api }) => {
        const request = { id: leaseId, holder, amounts, requestId }
        if (isReused) await api.renew({ id: leaseId, holder, ttlMs: 20_000, requestId })
        await api.spend(request)
        return api.spend(request)
      },
    }
  }

  #renew(): ScriptStep {
    const { id: leaseId, holder } = this.#member()
    const request = { id: leaseId, holder, ...(this.#chance(0.5) ? { ttlMs: 5_000 } : {}) }
    return { name: 'renew', run: ({ api }) => api.renew(request) }
  }

  #end(): ScriptStep {
    const one = this.#member()
    const { id: leaseId, holder, resource } = one
    const graceMs = this.#pick([0, 50])
    const to = this.#newcomer(resource)
    const newLeaseId = to.id
    const steps: readonly ScriptStep[] = [
      { name: 'release', run: ({ api }) => api.release({ id: leaseId, holder }) },
      { name: 'revoke', run: ({ api }) => api.revoke({ id: leaseId, by: 'operator', graceMs }) },
      {
        name: 'transfer',
        about: to,
        run: ({ api }) => api.transfer({ id: leaseId, holder, to: to.holder, newId: newLeaseId }),
      },
    ]
    return this.#pick(steps)
  }

  #changeMode(): ScriptStep {
    const { id: leaseId, holder } = this.#member()
    if (this.#chance(0.5)) {
      return { name: 'downgrade', run: ({ api }) => api.downgrade({ id: leaseId, holder }) }
    }
    return {
      name: 'upgrade',
      run: ({ api }) => api.upgrade({ id: leaseId, holder, mayWait: true }),
    }
  }

  /** A stranger asks for the name of somebody's place and no more, alone or together with another, perhaps late. */
  #visit(): ScriptStep {
    const { resource } = this.#member()
    const { id: leaseId, holder } = this.#newcomer(resource)
    const who = { holder, session: `stranger-${holder}`, ttlMs: 50, claimWindowMs: 1_000 }
    const lateMs = this.#pick([0, 0, 500, 2_500])
    const members = [{ id: leaseId, resource }]
    const group = this.#parts.id()
    const isJoint = this.#chance(0.3)
    const breakGraceMs = this.#pick([0, 100])
    return {
      name: 'visit',
      run: async ({ api, ticks }) => {
        ticks.pass(lateMs)
        if (isJoint) return api.acquireAll({ ...who, group, members, waitMs: 0 })
        return api.acquire({ ...who, id: leaseId, resource, waitMs: 10, breakGraceMs })
      },
    }
  }

  /** Mostly one of those who came last; sometimes under a wrong name. */
  #member(): Known {
    const lately = this.#members.slice(-6)
    if (lately.length === 0) return this.#newcomer('file:/family/none')
    const one = this.#pick(lately)
    return this.#chance(0.95) ? one : { ...one, holder: this.#pick(HOLDERS) }
  }

  #newcomer(name: string): Known {
    const holder = this.#pick(HOLDERS)
    const resource = parseResource(name)
    return { id: this.#parts.id(), resource, holder, session: `s-${holder}` }
  }

  #chance(share: number): boolean {
    return this.#parts.random() < share
  }

  #pick<Item>(items: readonly Item[]): Item {
    const item = items[Math.floor(this.#parts.random() * items.length)]
    if (item === undefined) throw new Error('nothing to pick from')
    return item
  }
}
