/**
 * All sequences of up to so many commands of two or three holders in a world of two places: a directory and a file in it, or two
 * requests each for the slots of one resource, or for one that some may break. They come at three instants: the first, one at
 * which tickets have lapsed, and one at which leases have. Written out there are more than 10^10 of five by two, so
 * what is played is what differs:
 *
 *  - A command that changes nothing leaves what follows as it was without it.
 *  - Two beginnings that lead to the same state have the same future, so one of them goes on. States are compared by all
 *    that a decision can depend on: of what is live everything, but with the order of the queue in place of its ticks,
 *    and with which of the instants to come its deadlines will have passed in place of these; of what has ended, that
 *    its id cannot be used again. Fences are not compared: a new one is above all of them, whatever they are.
 *  - The holders are alike: of the states that differ only in who is who, one goes on.
 */
import type { Acquire } from '../../src/core/command.ts'
import { isLive, type Entry } from '../../src/core/lease.ts'
import type { Tick } from '../../src/core/time.ts'
import {
  acquire,
  adopt,
  claim,
  downgrade,
  file,
  id,
  release,
  renew,
  revoke,
  transfer,
  TTL_MS,
  upgrade,
  WAITING,
  WINDOW_MS,
  WORK,
  withdraw,
  withdrawUpgrade,
} from './builders.ts'
import { PromiseWatch } from './promises.ts'
import { TinyRealm, type AnyCommand } from './tiny-realm.ts'

const GRACE_MS = 100
const INSTANTS_MS = [0, WINDOW_MS + 1, TTL_MS + 1]
const HOLDERS = ['ann', 'bob', 'cyd']
const SESSIONS = HOLDERS.map((holder) => `session-of-${holder}`)

export type WorldName = 'tree' | 'slots' | 'breakable'

interface World {
  readonly places: readonly [Place, Place]
  readonly requests: readonly Partial<Acquire>[]
  /** Whether holders renew. Where they do not, all leases are over at the last instant. */
  readonly renews: boolean
}

type Place = Pick<Acquire, 'resource' | 'extent'>

const EXACT: Place = { resource: WORK, extent: 'exact' }

const WORLDS: Readonly<Record<WorldName, World>> = {
  tree: {
    places: [
      { resource: file('/s'), extent: 'subtree' },
      { resource: file('/s/a'), extent: 'exact' },
    ],
    requests: [{ mode: 'exclusive', lockDelayMs: 1 }, { mode: 'shared' }],
    renews: false,
  },
  slots: {
    places: [EXACT, EXACT],
    requests: [{ mode: 'exclusive' }, { mode: 'shared', slots: 2 }, { mode: 'shared', slots: 3 }],
    renews: true,
  },
  breakable: {
    places: [EXACT, EXACT],
    requests: [
      { mode: 'exclusive', breakable: true },
      { mode: 'exclusive', breakGraceMs: GRACE_MS },
      { mode: 'shared', breakable: true, lockDelayMs: 1 },
    ],
    renews: true,
  },
}

export interface State {
  readonly realm: TinyRealm
  readonly watch: PromiseWatch
  readonly instant: number
}

/** Whose commands, about which of the two places, among so many clients. */
interface Part {
  readonly who: number
  readonly where: 0 | 1
  readonly clients: number
}

/** All that one of them can do about one of the two; the ids are of what it asked for and of what it may be given. */
function commandsOf(world: World, { who, where, clients }: Part): readonly AnyCommand[] {
  const holder = HOLDERS[who] ?? ''
  const place = world.places[where]
  const session = SESSIONS[who] ?? ''
  const own = { ...place, leaseId: id(10 * who + where + 1), holder }
  const given = { ...place, leaseId: id(100 + 10 * who + where + 1), holder }
  const receivers = Array.from({ length: clients }, (_, other) => other).filter(
    (one) => one !== who,
  )
  return [
    ...world.requests.map((request) => acquire({ ...own, ...WAITING, ...request })),
    ...(world.renews ? [renew(own)] : []),
    claim({ ...own, session }),
    withdraw({ ...own, session }),
    release(own),
    upgrade(own),
    withdrawUpgrade(own),
    downgrade(own),
    ...receivers.map((receiver) => {
      const newLeaseId = id(100 + 10 * receiver + where + 1)
      return transfer({ ...own, to: HOLDERS[receiver] ?? '', newLeaseId })
    }),
    transfer({ ...own, to: null }),
    revoke({ ...own, graceMs: GRACE_MS }),
    adopt({ ...given, session }),
    release(given),
  ]
}

export function commandsFor(clients: number, name: WorldName = 'tree'): readonly AnyCommand[] {
  const parts = Array.from({ length: clients }, (_, who) => {
    return ([0, 1] as const).map((where) => ({ who, where, clients }))
  })
  return parts.flat().flatMap((part) => commandsOf(WORLDS[name], part))
}

/** Nobody has asked for anything. */
export function firstState(): State {
  const realm = new TinyRealm()
  return { realm, watch: new PromiseWatch(realm), instant: 0 }
}

/** Checks every promise at every step, and gives all that a command came to. */
export function playAllSequences(longest: number): ReadonlySet<string> {
  const outcomes = new Set<string>()
  const commands = commandsFor(2)
  let states: readonly State[] = [firstState()]
  for (let length = 1; length <= longest; length += 1) {
    const reached = new Map<string, State>()
    for (const state of states) {
      for (const next of nextStates(state, outcomes, commands)) {
        const key = length === longest ? null : keyOf(next, 2)
        if (key === null || reached.has(key)) continue
        next.watch.checkLedger()
        reached.set(key, next)
      }
    }
    states = [...reached.values()]
  }
  return outcomes
}

/** A command at one of the instants. */
export interface Move {
  readonly instant: number
  readonly command: AnyCommand
}

/** What each command leads to at each instant, where it leads to anything. */
function* nextStates(
  state: State,
  outcomes: Set<string>,
  commands: readonly AnyCommand[],
): Iterable<State> {
  for (const move of movesFrom(state, outcomes, commands)) yield afterMove(state, move)
}

/** The commands that lead to anything, each at every instant at which it does. */
export function* movesFrom(
  state: State,
  outcomes: Set<string>,
  commands: readonly AnyCommand[],
): Iterable<Move> {
  for (let instant = state.instant; instant < INSTANTS_MS.length; instant += 1) {
    const afterMs = msUntil(instant, state)
    for (const command of commands) {
      if (isAboutNothing(command, state.realm)) continue
      const { outcome, events } = state.realm.foresee(command, afterMs)
      outcomes.add(`${command.kind} ${outcome.kind}`)
      if (events.length > 0) yield { instant, command }
    }
  }
}

/** Throws if the move breaks a promise. */
export function afterMove(state: State, { instant, command }: Move): State {
  const realm = state.realm.fork()
  realm.pass(msUntil(instant, state))
  const watch = state.watch.fork(realm)
  watch.run(command)
  return { realm, watch, instant }
}

function msUntil(instant: number, state: State): number {
  return (INSTANTS_MS[instant] ?? 0) - (INSTANTS_MS[state.instant] ?? 0)
}

/** Whoever names a lease that nobody asked for is refused, and that is all. */
function isAboutNothing(command: AnyCommand, realm: TinyRealm): boolean {
  if (command.kind === 'acquire' || 'members' in command) return false
  return !realm.entries.has(command.leaseId)
}

/** What the future of a state depends on, the same for states that differ only in who is who. */
export function keyOf({ realm, instant }: State, clients: number): string {
  const entries = [...realm.entries.values()]
  const places = entries
    .flatMap((entry) => (entry.kind === 'ticket' ? [entry.orderUs] : []))
    .toSorted((a, b) => a - b)
  const described = entries.map((entry) => describe(entry, places, instant))
  let first: string | null = null
  for (const order of EXCHANGES[clients] ?? []) {
    const text = described
      .map((one) => exchanged(one, order))
      .toSorted()
      .join('|')
    if (first === null || text < first) first = text
  }
  return `${instant}|${first ?? ''}`
}

/** An entry without the names in it, which stand beside: the client of its id, its holder, and whose session it has. */
interface Described {
  readonly id: string
  readonly text: string
  readonly holder: number
  readonly session: number
}

const NOBODY = -1
const OVER = { text: 'over', holder: NOBODY, session: NOBODY }

function describe(entry: Entry, places: readonly number[], instant: number): Described {
  const when = (tick: Tick | null): string => (tick === null ? '' : passedAt(tick.us, instant))
  const { state, mode, breakable } = entry
  const id = entry.id.slice(-3)
  if (!isLive(entry)) return { ...OVER, id: entry.kind === 'ticket' ? '' : id }
  const common = `${state} ${mode} ${entry.slots} ${breakable} ${when(entry.deadline)}`
  const holder = HOLDERS.indexOf(entry.holder)
  const session = SESSIONS.indexOf(entry.session ?? '')
  if (entry.kind === 'ticket') {
    const offer = when(entry.offer?.deadline ?? null)
    return { id, text: `${common} ${places.indexOf(entry.orderUs)} ${offer}`, holder, session }
  }
  const { upgrading, adopted, revoking, lockedUntil, lockDelayMs } = entry
  const text = `${common} ${upgrading} ${adopted} ${revoking !== null} ${when(lockedUntil)} ${lockDelayMs}`
  return { id, text, holder, session }
}

/** At which of the instants that may still come a tick will have passed; the few ticks of the commands do not count. */
function passedAt(us: number, instant: number): string {
  return INSTANTS_MS.slice(instant)
    .map((ms) => (us <= ms * 1000 + 50 ? 'x' : '-'))
    .join('')
}

/** Every way in which so many clients can stand in for each other. */
const EXCHANGES: Readonly<Record<number, readonly (readonly number[])[]>> = {
  1: [[0]],
  2: [
    [0, 1],
    [1, 0],
  ],
  3: [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
  ],
}

/** Each client in the place of another, in names as in ids. */
function exchanged({ id, text, holder, session }: Described, order: readonly number[]): string {
  if (id === '') return ''
  const [kind = '', who = '', where = ''] = id
  const other = (one: number): number => order[one] ?? NOBODY
  return `${kind}${other(Number(who))}${where} ${text} ${other(holder)} ${other(session)}`
}
