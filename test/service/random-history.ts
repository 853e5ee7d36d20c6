/**
 * A few sessions that acquire, wait, upgrade, claim and give back at random. A session that waits does nothing else
 * until it is served or gives up, as a program that calls one thing after the other does.
 */
import type { Entry } from '../../src/core/lease.ts'
import type { Extent } from '../../src/core/resource.ts'
import { WaitingWorld, type Wish } from './waiting-world.ts'

const SESSIONS = ['ann', 'bob', 'cyd', 'dan']
const PLACES: readonly {
  readonly resource: string
  readonly extent: Extent
  readonly slots?: number
}[] = [
  { resource: 'work:a', extent: 'exact' },
  { resource: 'work:b', extent: 'exact' },
  { resource: 'file:/d', extent: 'subtree' },
  { resource: 'file:/d/f', extent: 'exact' },
  { resource: 'pool:p', extent: 'exact', slots: 2 },
  { resource: 'pool:p', extent: 'exact', slots: 3 },
  { resource: 'pool:p', extent: 'exact', slots: 1 },
  { resource: 'pool:p', extent: 'exact' },
]

export interface HistoryStep {
  readonly name: string
  /** What there was when the step had been taken and nobody had been refused yet. */
  readonly closing: readonly Entry[]
  readonly victims: number
}

export class RandomHistory {
  readonly #world = new WaitingWorld()
  readonly #random: () => number

  constructor(random: () => number) {
    this.#random = random
  }

  entries(): Promise<readonly Entry[]> {
    return this.#world.entries()
  }

  async step(): Promise<HistoryStep> {
    const before = await this.entries()
    const name = await this.#act(this.#pick(SESSIONS), before)
    const after = await this.entries()
    const known = new Map(before.map((entry) => [entry.id, entry]))
    const victims = after.filter((entry) => isVictim(entry) && !isVictim(known.get(entry.id)))
    const fresh = after.filter((entry) => !known.has(entry.id)).map(restored)
    const closing = [...before.map((entry) => this.#asWished(entry, name)), ...fresh]
    const withdrawn = name.endsWith('refused') ? 1 : 0
    return { name, closing, victims: victims.length + withdrawn }
  }

  /** The lease whose upgrade the step asked for, with its wish; the others as they are. */
  #asWished(entry: Entry, name: string): Entry {
    const isUpgrading = entry.kind === 'lease' && name.startsWith(`upgrade ${entry.id}`)
    return isUpgrading ? { ...entry, upgrading: true } : entry
  }

  async #act(who: string, entries: readonly Entry[]): Promise<string> {
    const own = entries.filter((entry) => entry.holder === who)
    const waits = own.filter((entry) => {
      return entry.state === 'pending' || (entry.kind === 'lease' && entry.upgrading)
    })
    if (waits.length > 0) return this.#goOn(who, this.#pick(waits))
    const held = own.filter((entry) => entry.state === 'active')
    const hasAll = freeOf(held).length === 0
    if (hasAll || (held.length > 0 && this.#random() < 0.25))
      return this.#give(who, this.#pick(held))
    return this.#ask(who, held)
  }

  async #goOn(who: string, waiting: Entry): Promise<string> {
    if (waiting.kind === 'lease') return this.#upgrade(who, waiting)
    if (waiting.group !== null || this.#random() < 0.2) {
      await this.#world.withdraw(who, waiting.resource)
      return `${who} gives up ${waiting.resource}`
    }
    await this.#world.claim(who, waiting.resource)
    return `${who} claims ${waiting.resource}`
  }

  async #give(who: string, held: Entry): Promise<string> {
    if (held.mode === 'shared' && this.#random() < 0.6) return this.#upgrade(who, held)
    await this.#world.release(who, held.resource)
    return `${who} releases ${held.resource}`
  }

  async #upgrade(who: string, lease: Entry): Promise<string> {
    const { kind } = await this.#world.upgrade(who, lease.resource)
    return `upgrade ${lease.id} of ${who}: ${kind === 'deadlock' ? 'refused' : kind}`
  }

  async #ask(who: string, held: readonly Entry[]): Promise<string> {
    const { resource, extent, slots } = this.#pick(freeOf(held))
    const shared = this.#random() < 0.4 ? ({ mode: 'shared' } as const) : {}
    const sharing: Wish = slots === undefined ? shared : { slots }
    const priority = this.#random() < 0.2 ? 1 : 0
    if (this.#random() < 0.15 && resource !== 'work:a' && resource !== 'pool:p') {
      const { kind } = await this.#world.waitAll(who, ['work:a', resource], { priority })
      return `${who} asks for work:a and ${resource}: ${kind}`
    }
    const { kind } = await this.#world.wait(who, resource, { extent, priority, ...sharing })
    return `${who} asks for ${resource}: ${kind}`
  }

  #pick<Item>(items: readonly Item[]): Item {
    const item = items[Math.floor(this.#random() * items.length)]
    if (item === undefined) throw new Error('nothing to pick from')
    return item
  }
}

function freeOf(held: readonly Entry[]): typeof PLACES {
  return PLACES.filter(({ resource }) => held.every((entry) => entry.resource !== resource))
}

function isVictim(entry: Entry | undefined): boolean {
  return entry?.kind === 'ticket' && entry.failure === 'deadlock'
}

function restored(entry: Entry): Entry {
  return isVictim(entry) ? ({ ...entry, state: 'pending', failure: null } as Entry) : entry
}
