/**
 * The smallest store there could be: entries, ledger, fences and requests in a few maps, around the real `decide` and
 * `commitOf`. It shows a command exactly what its footprint allows and nothing more.
 */
import type { Command } from '../../src/core/command.ts'
import { commitOf, type Commit } from '../../src/core/commit.ts'
import { decide, footprintOf, type OutcomeOf } from '../../src/core/decide.ts'
import type { LeaseEvent } from '../../src/core/event.ts'
import { isLive, type Entry, type LeaseId } from '../../src/core/lease.ts'
import type { Decision, Footprint, PriorEffect, RealmView } from '../../src/core/realm.ts'
import { overlap, realmOf } from '../../src/core/resource.ts'
import { resolveSettings, type SettingRow } from '../../src/core/settings.ts'
import type { Now } from '../../src/core/time.ts'
import { DOMAIN, WALL_MS } from './builders.ts'

export interface Step<C extends Command> {
  readonly now: Now
  readonly view: RealmView
  readonly decision: Decision<OutcomeOf<C>>
  readonly commit: Commit
}

export class TinyRealm {
  readonly entries: Map<LeaseId, Entry> = new Map<LeaseId, Entry>()
  readonly ledger: LeaseEvent[] = []
  readonly settings: SettingRow[] = []
  readonly #requests = new Map<string, PriorEffect>()
  readonly #fences = new Map<string, number>()
  #us = 0
  #domain = DOMAIN
  #domainSinceUs = 0
  #wallShiftMs = 0
  #lastWallMs = 0

  /** Ticks grow strictly from one decision to the next, as every store promises. */
  run<C extends Command>(command: C): OutcomeOf<C> {
    return this.step(command).decision.outcome
  }

  step<C extends Command>(command: C): Step<C> {
    this.#us += 1
    const now = this.now()
    const view = this.#view(footprintOf(command))
    const decision = decide(view, command, now)
    const commit = commitOf(view, decision)
    this.#apply(command.resource, commit)
    return { now, view, decision, commit }
  }

  now(): Now {
    const wallMs = WALL_MS + Math.floor(this.#us / 1000) + this.#wallShiftMs
    this.#lastWallMs = Math.max(this.#lastWallMs, wallMs)
    return {
      tick: { domain: this.#domain, us: this.#us },
      wallMs: this.#lastWallMs,
      domainSinceUs: this.#domainSinceUs,
    }
  }

  pass(ms: number): void {
    this.#us += ms * 1000
  }

  setWallBy(ms: number): void {
    this.#wallShiftMs += ms
  }

  /** Another clock: its ticks start anywhere. */
  enterDomain(domain: string): void {
    this.#domain = domain
    this.#us = 5_000_000
    this.#domainSinceUs = this.#us
  }

  #view(footprint: Footprint): RealmView {
    const { resource, leaseId, requestId, depth } = footprint
    const seen = [...this.entries.values()].filter((entry) => {
      return (
        entry.id === leaseId || (depth === 'claims' && isLive(entry) && overlap(entry, footprint))
      )
    })
    return {
      entries: new Map(seen.map((entry) => [entry.id, entry])),
      lastFence: this.#fences.get(realmOf(resource)) ?? 0,
      ticketCount: [...this.entries.values()].filter((entry) => {
        return entry.state === 'pending' && realmOf(entry.resource) === realmOf(resource)
      }).length,
      prior: requestId === null ? null : (this.#requests.get(requestId) ?? null),
      settings: resolveSettings(this.settings, resource),
    }
  }

  #apply(resource: Command['resource'], commit: Commit): void {
    for (const { id, after } of commit.changes) {
      if (after === null) this.entries.delete(id)
      else this.entries.set(id, after)
    }
    this.ledger.push(...commit.events)
    for (const { requestId, leaseId, type } of [...commit.events, ...commit.requests]) {
      if (requestId !== null) this.#requests.set(requestId, { leaseId, type })
    }
    const realm = realmOf(resource)
    this.#fences.set(realm, Math.max(this.#fences.get(realm) ?? 0, commit.lastFence))
  }
}
