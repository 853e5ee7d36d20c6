/**
 * The smallest store there could be: entries, ledger, fences and requests in a few maps, around the real `decide` and
 * `commitOf`. It shows a command exactly what its read set allows and nothing more.
 */
import { mergeViews } from '../../src/core/acquire-all.ts'
import type { Command, SeveralCommand } from '../../src/core/command.ts'
import { commitOf, type Commit } from '../../src/core/commit.ts'
import {
  decide,
  decideSeveral,
  readSetOf,
  readSetsOf,
  viewOf,
  type OutcomeOf,
} from '../../src/core/decide.ts'
import type { AcquireAllOutcome } from '../../src/core/outcome.ts'
import type { LeaseEvent } from '../../src/core/event.ts'
import { isLive, type Entry, type LeaseId } from '../../src/core/lease.ts'
import type { Decision, ReadSet, PriorEffect, RealmView } from '../../src/core/realm.ts'
import { overlap, realmOf } from '../../src/core/resource.ts'
import { DEFAULT_SETTINGS, resolveSettings, type SettingRow } from '../../src/core/settings.ts'
import type { Now } from '../../src/core/time.ts'
import { DOMAIN, WALL_MS } from './builders.ts'

export type AnyCommand = Command | SeveralCommand

export type AnyOutcome<C extends AnyCommand> = C extends Command ? OutcomeOf<C> : AcquireAllOutcome

export interface Step<C extends AnyCommand> {
  readonly now: Now
  readonly view: RealmView
  readonly decision: Decision<AnyOutcome<C>>
  readonly commit: Commit
}

export class TinyRealm {
  readonly entries: Map<LeaseId, Entry>
  readonly ledger: LeaseEvent[]
  readonly settings: SettingRow[] = []
  readonly #requests: Map<string, PriorEffect>
  readonly #epochs = new Map<string, number>()
  readonly #fences: Map<string, number>
  #us = 0
  #domain = DOMAIN
  #domainSinceUs = 0
  #wallShiftMs = 0
  #lastWallMs = 0

  constructor(from?: TinyRealm) {
    this.entries = new Map(from?.entries)
    this.ledger = from === undefined ? [] : [...from.ledger]
    this.#requests = new Map(from === undefined ? [] : from.#requests)
    this.#fences = new Map(from === undefined ? [] : from.#fences)
  }

  /** Ticks grow strictly from one decision to the next, as every store promises. */
  run<C extends AnyCommand>(command: C): AnyOutcome<C> {
    return this.step(command).decision.outcome
  }

  step<C extends AnyCommand>(command: C): Step<C> {
    this.#us += 1
    const now = this.now()
    const { view, decision } = this.#decide(command, now)
    const commit = commitOf(view, decision)
    for (const { resource } of partsOf(command)) this.#raiseFence(resource, commit)
    this.#apply(commit)
    return { now, view, decision: decision as Decision<AnyOutcome<C>>, commit }
  }

  #decide(command: AnyCommand, now: Now): Pick<Step<AnyCommand>, 'view' | 'decision'> {
    if ('members' in command) {
      const views = command.members.map((member) => this.#view(readSetOf(member)))
      return { view: mergeViews(views), decision: decideSeveral(views, command, now) }
    }
    const view = viewOf(readSetsOf(command).map((readSet) => this.#view(readSet)))
    return { view, decision: decide(view, command, now) }
  }

  /** What a command would come to after so long, without its coming to it. */
  foresee<C extends AnyCommand>(command: C, afterMs: number): Decision<AnyOutcome<C>> {
    const { tick, ...rest } = this.now()
    const now = { ...rest, tick: { ...tick, us: tick.us + afterMs * 1000 + 1 } }
    return this.#decide(command, now).decision as Decision<AnyOutcome<C>>
  }

  /** Another realm that stands where this one does. */
  fork(): TinyRealm {
    const copy = new TinyRealm(this)
    copy.settings.push(...this.settings)
    copy.#us = this.#us
    copy.#domain = this.#domain
    copy.#domainSinceUs = this.#domainSinceUs
    copy.#wallShiftMs = this.#wallShiftMs
    copy.#lastWallMs = this.#lastWallMs
    return copy
  }

  now(): Now {
    const wallMs = WALL_MS + Math.floor(this.#us / 1000) + this.#wallShiftMs
    this.#lastWallMs = Math.max(this.#lastWallMs, wallMs)
    return {
      tick: { domain: this.#domain, us: this.#us },
      wallMs: this.#lastWallMs,
      domainSinceUs: this.#domainSinceUs,
      toleranceUs: 0,
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

  #view(readSet: ReadSet): RealmView {
    const { resource, leaseId, requestId, depth } = readSet
    const seen = [...this.entries.values()].filter((entry) => {
      return (
        entry.id === leaseId || (depth === 'claims' && isLive(entry) && overlap(entry, readSet))
      )
    })
    return {
      entries: new Map(seen.map((entry) => [entry.id, entry])),
      lastFence: this.#fences.get(realmOf(resource)) ?? 0,
      epoch: this.#epochs.get(resource) ?? 0,
      ticketCount: [...this.entries.values()].filter((entry) => {
        return entry.state === 'pending' && realmOf(entry.resource) === realmOf(resource)
      }).length,
      prior: requestId === null ? null : (this.#requests.get(requestId) ?? null),
      settings:
        this.settings.length === 0 ? DEFAULT_SETTINGS : resolveSettings(this.settings, resource),
    }
  }

  #raiseFence(resource: Command['resource'], { lastFence }: Commit): void {
    const realm = realmOf(resource)
    this.#fences.set(realm, Math.max(this.#fences.get(realm) ?? 0, lastFence))
  }

  #apply(commit: Commit): void {
    for (const { id, after } of commit.changes) {
      if (after === null) this.entries.delete(id)
      else this.entries.set(id, after)
    }
    this.ledger.push(...commit.events)
    for (const { resource, epoch } of commit.epochs) this.#epochs.set(resource, epoch)
    for (const { requestId, leaseId, type } of [...commit.events, ...commit.requests]) {
      if (requestId !== null) this.#requests.set(requestId, { leaseId, type })
    }
  }
}

function partsOf(command: AnyCommand): readonly Command[] {
  return 'members' in command ? command.members : [command]
}
