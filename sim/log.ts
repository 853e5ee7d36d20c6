/**
 * What was observed: by the processes, by the network, and by the fault injector. Every entry has the true time, which
 * no process of the world knows. The checkers read this and the ledger, and nothing else.
 */
import type { ErrorCode } from '../src/core/errors.ts'
import type { Extent, Mode, Resource } from '../src/core/resource.ts'
import type { HandleState } from '../src/client/contract.ts'
import type { StoreKind } from './store-host.ts'
import type { World } from './world.ts'

export const FAULT_KINDS = [
  'request_lost',
  'answer_lost',
  'outcome_unknown',
  'late_delivery',
  'request_repeated',
  'conflict',
  'slow_request',
  'slow_answer',
  'call_hangs',
  'wake_lost',
  'wake_delayed',
  'wake_repeated',
  'crash',
  'restart',
  'pause',
  'suspension',
  'wall_step',
  'drift',
  'store_reboot',
  'store_clock_change',
  'store_wall_step',
  'store_away',
  'store_back',
  'store_pause',
] as const

export type FaultKind = (typeof FAULT_KINDS)[number]

/** An embedded store has the clock of a host that can reboot; a server has a clock of its own that only stops. */
const ONLY_ON: Partial<Record<FaultKind, StoreKind>> = {
  store_reboot: 'memory',
  store_clock_change: 'memory',
  store_wall_step: 'memory',
  store_pause: 'optimistic',
}

export function canHappen(fault: FaultKind, store: StoreKind): boolean {
  return (ONLY_ON[fault] ?? store) === store
}

/** What a call of the client came to: the code of its error, or what it gave. */
export type CallOutcome =
  | ErrorCode
  | 'granted'
  | 'held'
  | 'done'
  /** Not a `LeaseError`: never right. */
  | 'foreign_error'

export type Operation =
  | 'acquire'
  | 'try_acquire'
  | 'with_lease'
  | 'acquire_all'
  | 'adopt'
  | 'renew'
  | 'upgrade'
  | 'downgrade'
  | 'transfer'
  | 'derive'
  | 'spend'
  | 'release'
  | 'revoke'
  | 'release_all'
  | 'is_held'
  | 'inspect'
  | 'cleanup'
  | 'close'

export type ApiMethod =
  | 'acquire'
  | 'claim'
  | 'acquire_all'
  | 'claim_all'
  | 'withdraw'
  | 'renew'
  | 'release'
  | 'revoke'
  | 'upgrade'
  | 'downgrade'
  | 'update'
  | 'transfer'
  | 'adopt'
  | 'derive'
  | 'spend'

/** A process incarnation, as far as the log is concerned. */
export interface Who {
  readonly process: string
  readonly session: string
}

export type Observation =
  | (Who & { readonly kind: 'started'; readonly holder: string })
  | (Who & { readonly kind: 'crashed' })
  | (Who & { readonly kind: 'closed'; readonly timersLeft: number })
  | { readonly kind: 'stopped'; readonly process: string; readonly how: 'pause' | 'suspension' }
  /** `busyUs`: for how long it runs what had waited. */
  | { readonly kind: 'resumed'; readonly process: string; readonly busyUs: number }
  | Fault
  | CallBegun
  | CallEnded
  | Believed
  | Lost
  | (Who & { readonly kind: 'let_go'; readonly leaseId: string })
  | Asked
  | Answered
  | (Who & WriteFacts & { readonly kind: 'write_sent' })
  | (WriteFacts & { readonly kind: 'write_arrived'; readonly accepted: boolean })
  | Looked
  | { readonly kind: 'unhandled'; readonly message: string }

/** A holder heard by its signal that its lease is over. */
export interface Lost extends Who {
  readonly kind: 'signal'
  readonly leaseId: string
  readonly code: ErrorCode | null
  /** The reason that its error names. */
  readonly reason: unknown
}

export interface Fault {
  readonly kind: 'fault'
  readonly fault: FaultKind
  /** Null: it affected the store. */
  readonly process: string | null
  /** The lease or ticket that a message was about, where it was a message that was lost or late. */
  readonly leaseId: string | null
}

export interface CallBegun extends Who {
  readonly kind: 'call'
  readonly call: number
  readonly operation: Operation
  readonly resource: string | null
  readonly leaseId: string | null
  /** By its own clock, how long the call may take before it must have been answered. */
  readonly boundMs: number
}

export interface CallEnded {
  readonly kind: 'ended'
  readonly call: number
  readonly outcome: CallOutcome
  readonly effect: 'none' | 'unknown'
}

/** A holder looked at its own lease: when it was given, when it was renewed, and before each act. */
export interface Believed extends Who {
  readonly kind: 'believed'
  readonly why: 'granted' | 'renewed' | 'uncertain' | 'recovered' | 'revoking' | 'look' | 'rate'
  readonly leaseId: string
  readonly resource: Resource
  readonly extent: Extent
  readonly mode: Mode
  readonly slots: number | null
  /** It knows that it is being revoked with a grace. */
  readonly isAsked: boolean
  readonly holder: string
  readonly fence: number
  readonly state: HandleState
  readonly renewals: number
  /** Its own deadline, in true time, as far as its own clock can tell. */
  readonly deadlineUs: number
}

/** A request that left the client for the service, before any network. */
export interface Asked extends Who {
  readonly kind: 'asked'
  readonly method: ApiMethod
  readonly leaseId: string
  readonly requestId: string | null
  readonly ttlMs: number | null
  readonly priority: number
  /** What several that are asked for together have in common. */
  readonly group: string | null
  /** Of a lease that is to be derived from another. */
  readonly parentId: string | null
}

export interface Answered extends Who {
  readonly kind: 'answered'
  readonly method: ApiMethod
  readonly leaseId: string
  readonly requestId: string | null
  /** The kind of the answer, or the code of the error. */
  readonly answer: string
  readonly sentUs: number
  readonly renewals: number | null
  /** Of the lease that was given, which is another than the one asked for if it was adopted. */
  readonly givenId: string | null
}

/** A write to one resource that the lease covers. */
export interface WriteFacts {
  readonly leaseId: string
  readonly resource: string
  readonly mode: Mode
  readonly fence: number
}

/** A call asked whether a resource is held; the answer was true at some moment since `sentUs`. */
export interface Looked extends Who {
  readonly kind: 'looked'
  readonly resource: Resource
  readonly held: boolean
  readonly sentUs: number
}

export type Logged = Observation & { readonly atUs: number }

export class Log {
  readonly entries: Logged[] = []
  readonly faults = new Map<FaultKind, number>()
  readonly outcomes = new Map<string, number>()
  readonly #world: World

  constructor(world: World) {
    this.#world = world
  }

  write(observation: Observation): void {
    this.entries.push({ atUs: this.#world.nowUs, ...observation })
  }

  /** `leaseIds`: what a message was about, each of which is late or lost with it. */
  fault(fault: FaultKind, process: string | null, leaseIds: readonly string[] = []): void {
    this.faults.set(fault, (this.faults.get(fault) ?? 0) + 1)
    const about = leaseIds.length === 0 ? [null] : leaseIds
    for (const leaseId of about) this.write({ kind: 'fault', fault, process, leaseId })
  }

  count(outcome: string): void {
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1)
  }
}
