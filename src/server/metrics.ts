/**
 * What Prometheus reads. Counters tell what this server did; gauges tell the store's state, kept from its ledger and never
 * read at a scrape. Labels are bounded: a kind, a code, a call, a route; never a resource, a holder or an id.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { LeaseEvent } from '../core/event.ts'
import { isLeaseError } from '../core/errors.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import { kindOf } from '../core/resource.ts'
import type { Fault } from '../runtime/diagnostics.ts'
import type { LiveIndex, LiveState } from './live-index.ts'
import { HttpError } from './problem.ts'
import type { ServedStore } from './served-store.ts'

const KINDS_MAX = 50
const SOURCES_MAX = 100
const OTHER = 'other'
/** Of a lease whose history is not kept nobody tells the end: those that were granted longest ago make room. */
const OWN_MAX = 250_000
const FAST_SECONDS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]
const LONG_SECONDS = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400]
const RATIOS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]

/** The first so many words that occur, and one for all others. */
class Words {
  readonly #known = new Set<string>()
  readonly #max: number

  constructor(max: number) {
    this.#max = max
  }

  of(word: string): string {
    if (this.#known.has(word)) return word
    if (this.#known.size >= this.#max) return OTHER
    this.#known.add(word)
    return word
  }
}

/** What a call of the store may have come to. */
interface Outcome {
  readonly kind?: string
  readonly lease?: LeaseInfo
  readonly leases?: readonly LeaseInfo[]
  readonly repeated?: boolean
}

/** A lease that this server granted, as far as its end and its renewals are measured. */
interface OwnLease {
  readonly grantedAtMs: number
  expiresAtMs: number
  ttlMs: number
}

const ENDS: Readonly<Partial<Record<LeaseEvent['type'], string>>> = {
  'lease.released': 'released',
  'lease.expired': 'expired',
  'lease.revoked': 'revoked',
  'lease.transferred': 'transferred',
}

export class ServerMetrics {
  readonly #registry = new Registry()
  readonly #kinds = new Words(KINDS_MAX)
  readonly #sources = new Words(SOURCES_MAX)
  readonly #indexes: LiveIndex[] = []
  /** Of all namespaces: ids are unique. */
  readonly #own = new Map<LeaseId, OwnLease>()
  readonly #grants: Counter
  readonly #ends: Counter<'kind' | 'how'>
  readonly #refusals: Counter<'code'>
  readonly #renewals: Counter
  readonly #deadlocks: Counter
  readonly #faults: Counter<'source'>
  readonly #waits: Histogram
  readonly #holds: Histogram
  readonly #timeLeft: Histogram
  readonly #calls: Histogram<'call'>
  readonly #requests: Histogram<'route' | 'status'>

  constructor() {
    const counter = <Label extends string = never>(
      name: string,
      help: string,
      labelNames: readonly Label[] = [],
    ): Counter<Label> => new Counter({ name, help, labelNames, registers: [this.#registry] })
    const histogram = <Label extends string = never>(
      name: string,
      help: string,
      { buckets, labelNames = [] }: { buckets: number[]; labelNames?: readonly Label[] },
    ): Histogram<Label> => {
      return new Histogram({ name, help, buckets, labelNames, registers: [this.#registry] })
    }
    this.#grants = counter('tenure_grants_total', 'Leases that this server granted.')
    this.#ends = counter(
      'tenure_ends_total',
      'Ends of leases that this server granted, by kind of resource and how they ended.',
      ['kind', 'how'],
    )
    this.#refusals = counter('tenure_refusals_total', 'Requests refused, by code.', ['code'])
    this.#renewals = counter('tenure_renewals_total', 'Renewals that this server made.')
    this.#deadlocks = counter('tenure_deadlocks_total', 'Waits refused because of a deadlock.')
    this.#faults = counter('tenure_faults_total', 'Failures in the background.', ['source'])
    this.#waits = histogram('tenure_wait_seconds', 'How long granted requests waited.', {
      buckets: LONG_SECONDS,
    })
    this.#holds = histogram('tenure_hold_seconds', 'How long leases of this server were held.', {
      buckets: LONG_SECONDS,
    })
    this.#timeLeft = histogram(
      'tenure_time_left_at_renewal_ratio',
      'What was left of the TTL when a lease of this server was renewed.',
      { buckets: RATIOS },
    )
    this.#calls = histogram('tenure_store_seconds', 'How long the store took, by call.', {
      ...{ buckets: FAST_SECONDS, labelNames: ['call'] as const },
    })
    this.#requests = histogram('tenure_http_request_seconds', 'How long requests took.', {
      ...{ buckets: FAST_SECONDS, labelNames: ['route', 'status'] as const },
    })
    this.#gauge('tenure_live_leases', 'Live leases in the store, by kind of resource.', 'active')
    this.#gauge('tenure_waiting', 'Requests that wait, by kind of resource.', 'pending')
    collectDefaultMetrics({ register: this.#registry })
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  text(): Promise<string> {
    return this.#registry.metrics()
  }

  answered(route: string, status: number, seconds: number): void {
    this.#requests.observe({ route, status }, seconds)
  }

  /** A call of the store has ended; `answer` is undefined where it failed. */
  called(call: string, seconds: number, answer: unknown): void {
    this.#calls.observe({ call }, seconds)
    const { kind, lease, leases, repeated } = (answer ?? {}) as Outcome
    if (kind === 'renewed') this.#renewals.inc()
    if (repeated === false) for (const one of leases ?? [lease]) if (one) this.granted(one)
  }

  refused(thrown: unknown): void {
    const error = thrown instanceof HttpError ? thrown.error : thrown
    const code = isLeaseError(error) ? error.code : 'unexpected'
    this.#refusals.inc({ code })
    if (code === 'DEADLOCK') this.#deadlocks.inc()
  }

  failed({ source }: Fault): void {
    this.#faults.inc({ source: this.#sources.of(source) })
  }

  /** Follows a namespace from now on. */
  follow({ live, feed }: ServedStore): void {
    this.#indexes.push(live)
    feed.onEvent((event) => this.#onEvent(event))
  }

  #onEvent(event: LeaseEvent): void {
    const { leaseId, atMs } = event
    const own = this.#own.get(leaseId)
    if (own === undefined) return
    if (event.type === 'lease.renewed') {
      this.#timeLeft.observe(Math.min(1, Math.max(0, (own.expiresAtMs - atMs) / own.ttlMs)))
      own.expiresAtMs = event.expiresAtMs
      own.ttlMs = event.ttlMs
    }
    const how = ENDS[event.type]
    if (how === undefined) return
    this.#own.delete(leaseId)
    this.#ends.inc({ kind: this.#kinds.of(kindOf(event.resource)), how })
    this.#holds.observe(Math.max(0, atMs - own.grantedAtMs) / 1_000)
  }

  /** A grant that went along with a release is told here only; one that is told twice counts once. */
  granted({ id, createdAtMs, grantedAtMs, expiresAtMs, ttlMs }: LeaseInfo): void {
    if (grantedAtMs === null || expiresAtMs === null || this.#own.has(id)) return
    if (this.#own.size >= OWN_MAX) this.#forgetOldest()
    this.#own.set(id, { grantedAtMs, expiresAtMs, ttlMs })
    this.#grants.inc()
    this.#waits.observe(Math.max(0, grantedAtMs - createdAtMs) / 1_000)
  }

  #forgetOldest(): void {
    const [oldest] = this.#own.keys()
    if (oldest !== undefined) this.#own.delete(oldest)
  }

  #gauge(name: string, help: string, state: LiveState): void {
    const indexes = this.#indexes
    const kinds = this.#kinds
    const gauge = new Gauge({
      ...{ name, help, labelNames: ['kind'], registers: [this.#registry] },
      collect: () => {
        gauge.reset()
        for (const index of indexes) {
          for (const [kind, count] of index.countsByKind(state)) {
            gauge.inc({ kind: kinds.of(kind) }, count)
          }
        }
      },
    })
  }
}
