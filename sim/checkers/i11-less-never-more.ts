/**
 * I11: a derived lease is within its parent's place, mode, scope, time and budget, and ends with it. Looked at after
 * every commit, so that a child which ends later than its parent does is found, however soon after it does.
 *
 * Budgets are added up here from the spendings alone: of what a lease was given, so much is spent by it and by all that
 * were ever derived from it, and so much is held by the children that live. Judged anew, with none of the core's rules.
 */
import type { Entry, Lease, LeaseId } from '../../src/core/lease.ts'
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import { walk } from './ledger-walk.ts'
import { isWithin } from './reach.ts'

export const lessNeverMore: Checker = {
  promise: 'I11',
  name: 'less, never more',
  check: ({ ledger }: Evidence) => {
    const families = new Families()
    const complaints: Complaint[] = []
    for (const step of walk(ledger)) {
      for (const { event } of step.events) {
        if (event.type !== 'lease.accounted' || event.change.kind !== 'spent') continue
        families.spent(event.leaseId, event.change.amounts)
      }
      for (const wrong of families.wrongWith(step.live)) {
        complaints.push(`${wrong} at ${seconds(step.atUs)}`)
      }
    }
    return complaints
  },
}

type Amounts = Readonly<Record<string, number>>
/** A lease that has to do with derivation. */
type Member = Lease & { readonly delegation: NonNullable<Lease['delegation']> }

export class Families {
  /** What each lease has spent, and all that were ever derived from it; of one that came by transfer, also before it. */
  readonly #spent = new Map<LeaseId, Amounts>()
  readonly #lines = new Map<LeaseId, readonly LeaseId[]>()

  spent(leaseId: LeaseId, amounts: Amounts): void {
    for (const id of [leaseId, ...(this.#lines.get(leaseId) ?? [])]) {
      this.#spent.set(id, sum(this.#spent.get(id) ?? {}, amounts))
    }
  }

  /** What is wrong with the leases that live after a commit. */
  wrongWith(live: ReadonlyMap<LeaseId, Entry>): readonly Complaint[] {
    const members = [...live.values()].filter(isMember)
    const children = new Map<LeaseId, Member[]>()
    for (const member of members) {
      this.#meet(member)
      const parentId = member.delegation.line.at(-1)
      if (parentId === undefined) continue
      children.set(parentId, [...(children.get(parentId) ?? []), member])
    }
    return members.flatMap((member) => {
      const own = this.#wrongAccount(member, children.get(member.id) ?? [])
      const parentId = member.delegation.line.at(-1)
      if (parentId === undefined) return own
      const parent = live.get(parentId)
      if (parent === undefined || !isMember(parent)) {
        return [`${nameOf(member)} lives on without its parent`]
      }
      return [...excess(member, parent), ...own]
    })
  }

  #meet({ id, delegation: { line, used } }: Member): void {
    if (this.#lines.has(id)) return
    this.#lines.set(id, line)
    // Only a transfer gives a lease that has been used before, and it is seen before it can have spent anything.
    if (line.length === 0 && !this.#spent.has(id)) this.#spent.set(id, { ...used })
  }

  #wrongAccount(member: Member, living: readonly Member[]): readonly Complaint[] {
    const { limits, used, children } = member.delegation
    const known = living.map(({ id }) => id).toSorted()
    const complaints: Complaint[] = []
    if (known.join() !== children.toSorted().join()) {
      complaints.push(`${nameOf(member)} counts ${children.length} children, ${known.length} live`)
    }
    for (const [dimension, limit] of Object.entries(limits)) {
      const held = living.map((child) => {
        return amountIn(child.delegation.limits, dimension) - this.#spentBy(child, dimension)
      })
      const gone = this.#spentBy(member, dimension) + held.reduce((a, b) => a + b, 0)
      const told = amountIn(used, dimension)
      if (told !== gone) {
        complaints.push(`${nameOf(member)} counts ${told} ${dimension} as used, ${gone} are`)
      }
      if (gone > limit || told < 0) {
        complaints.push(`${nameOf(member)} has used ${gone} of ${limit} ${dimension}`)
      }
    }
    return complaints
  }

  #spentBy({ id }: Member, dimension: string): number {
    return amountIn(this.#spent.get(id) ?? {}, dimension)
  }
}

function isMember(entry: Entry): entry is Member {
  return entry.kind === 'lease' && entry.state === 'active' && entry.delegation !== undefined
}

function excess(child: Member, parent: Member): readonly Complaint[] {
  const complaints: Complaint[] = []
  const more = (what: string): void => {
    complaints.push(`${nameOf(child)} has more ${what} than its parent ${short(parent.id)}`)
  }
  if (!isWithin(child, parent)) more('room')
  if (child.mode === 'exclusive' && parent.mode === 'shared') more('for itself')
  const isOneClock = child.deadline.domain === parent.deadline.domain
  if (isOneClock && child.deadline.us > parent.deadline.us) more('time')
  if (isWider(child.delegation.scope, parent.delegation.scope)) more('scope')
  for (const [dimension, limit] of Object.entries(parent.delegation.limits)) {
    if (!(amountIn(child.delegation.limits, dimension, Infinity) <= limit)) more(dimension)
  }
  return complaints
}

type Scope = Member['delegation']['scope']

function isWider(scope: Scope, outer: Scope): boolean {
  if (outer.unlimited) return false
  if (scope.unlimited) return true
  const isUnknown = (name: 'workIds' | 'tools'): boolean => {
    return scope[name].some((item) => !outer[name].includes(item))
  }
  const isOutside = scope.namespaces.some((path) => {
    return !outer.namespaces.some((top) => `${path}/`.startsWith(`${top}/`))
  })
  return isUnknown('workIds') || isUnknown('tools') || isOutside
}

function sum(a: Amounts, b: Amounts): Amounts {
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return Object.fromEntries([...names].map((name) => [name, amountIn(a, name) + amountIn(b, name)]))
}

function amountIn(amounts: Amounts, name: string, missing = 0): number {
  return amounts[name] ?? missing
}

function nameOf({ id, resource, holder }: Member): string {
  return `${resource} of ${holder} (${short(id)})`
}
