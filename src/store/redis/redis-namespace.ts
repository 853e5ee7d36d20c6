/**
 * A namespace on a server: its buckets, each with a prefix whose hash tag puts all its keys into one slot, and scripts run
 * in them. A script is sent by its digest; only a server that does not know it is sent the text.
 *
 * Every script compares the identity of the namespace: its layout, its number of buckets and a random id that is new
 * whenever the namespace is made, also after all data was lost. So a process that still means an earlier making, with
 * other buckets, writes nothing: it looks again, and goes on only if the namespace is divided as it knows it.
 */
import { invalid, LeaseError } from '../../core/errors.ts'
import { realmOf, type Resource } from '../../core/resource.ts'
import type { Argument, RedisCalls } from '../../drivers/redis-driver.ts'
import {
  ANOTHER,
  declaredKeys,
  FORMER_LAYOUT_VERSION,
  KEY_PREFIX,
  LAYOUT_VERSION,
  OLD_LAYOUT_VERSION,
  stateOf,
  newStateText,
  type BucketState,
  type Script,
} from './redis-layout.ts'
import { COMMIT_SCRIPT, VIEW_SCRIPT } from './redis-commit-script.ts'
import {
  LOOK_SCRIPT,
  MAKE_BUCKET_SCRIPT,
  MAKE_NAMESPACE_SCRIPT,
  WALK_SCRIPT,
} from './redis-scripts.ts'

export interface NamespaceOptions {
  readonly namespace: string
  /** How many, if the caller minds. */
  readonly buckets: number | undefined
  /** For tests that move the clock: microseconds to take for the server's. */
  readonly nowUs?: (() => number) | undefined
  /** Whether a namespace in the layout before this one is converted although leases are live there. */
  readonly isForced?: boolean
}

const CLUSTER_BUCKETS_DEFAULT = 64

/**
 * `conversion` is set while it is being converted from layout 4, also when the process that did so has ended. `converting` was set
 * by processes of layout 5, which would go on with whatever has it.
 */
const FACTS = ['version', 'buckets', 'incarnation', 'conversion', 'converting'] as const
type NamespaceFacts = Readonly<Record<(typeof FACTS)[number], string | null>>

function metaKey(namespace: string): string {
  return `${KEY_PREFIX}:{${namespace}}:meta`
}

function prefixesOf(namespace: string, buckets: number): readonly string[] {
  return Array.from({ length: buckets }, (_, bucket) => {
    return `${KEY_PREFIX}:{${buckets === 1 ? namespace : `${namespace}/${bucket}`}}`
  })
}

async function readFacts(calls: RedisCalls, namespace: string): Promise<NamespaceFacts> {
  return factsOf(await calls.send(['HMGET', metaKey(namespace), ...FACTS], 'reads'))
}

function factsOf(reply: unknown): NamespaceFacts {
  const values = reply as readonly (string | null)[]
  return Object.fromEntries(FACTS.map((name, at) => [name, values[at] ?? null])) as NamespaceFacts
}

export class RedisNamespace {
  readonly calls: RedisCalls
  readonly prefixes: readonly string[]
  readonly buckets: readonly number[]
  readonly #options: NamespaceOptions
  #identity: string
  #settling: Promise<void> | null = null

  /** Makes it if there is none yet. */
  static async open(calls: RedisCalls, options: NamespaceOptions): Promise<RedisNamespace> {
    await convertIfOld(calls, options)
    const facts = await settledFacts(calls, options)
    const buckets = Number(facts.buckets)
    if (options.buckets !== undefined && options.buckets !== buckets) {
      const expected = `must be ${buckets}, as the namespace was made with`
      throw invalid('buckets', expected, options.buckets)
    }
    const namespace = new RedisNamespace(calls, options, facts)
    await namespace.#makeBuckets()
    return namespace
  }

  private constructor(calls: RedisCalls, options: NamespaceOptions, facts: NamespaceFacts) {
    this.calls = calls
    this.#options = options
    this.prefixes = prefixesOf(options.namespace, Number(facts.buckets))
    this.buckets = [...this.prefixes.keys()]
    this.#identity = identityOf(facts)
  }

  /** What the server's clock says. */
  async timeUs(): Promise<number> {
    const { nowUs } = this.#options
    if (nowUs !== undefined) return nowUs()
    const [seconds, us] = (await this.calls.send(['TIME'], 'reads')) as readonly string[]
    return Number(seconds) * 1_000_000 + Number(us)
  }

  bucketOf(resource: Resource): number {
    if (this.prefixes.length === 1) return 0
    return hash(realmOf(resource)) % this.prefixes.length
  }

  /** Those in which something of a resource may be; all of them if none is named. */
  bucketsFor({ resource }: { readonly resource?: Resource }): readonly number[] {
    return resource === undefined ? this.buckets : [this.bucketOf(resource)]
  }

  /** Wakes come from any bucket, and a waiter listens in one place. */
  readonly channelOf = (session: string): string => {
    return `${KEY_PREFIX}:{${this.#options.namespace}}:w:${session}`
  }

  keyOf(bucket: number, name: string): string {
    return `${this.prefixes[bucket]}:${name}`
  }

  async stateOf(bucket: number): Promise<BucketState> {
    const text = await this.calls.send(['HGET', this.keyOf(bucket, 'live'), 'state'], 'reads')
    return stateOf((text ?? '-') as string)
  }

  async run(bucket: number, script: Script, args: readonly Argument[]): Promise<unknown> {
    const reply = await this.#runOnce(bucket, script, args)
    if (reply !== ANOTHER) return reply
    this.#settling ??= this.#settle().finally(() => {
      this.#settling = null
    })
    await this.#settling
    const again = await this.#runOnce(bucket, script, args)
    if (again !== ANOTHER) return again
    throw new LeaseError('STORE_UNAVAILABLE', 'the namespace was made anew twice during one call')
  }

  #runOnce(bucket: number, { text, effect }: Script, args: readonly Argument[]): Promise<unknown> {
    const keys = declaredKeys(this.prefixes[bucket] ?? '')
    const clock = String(this.#options.nowUs?.() ?? '')
    const call = { script: text, keys, args: [this.#identity, clock, ...args] }
    return this.calls.run(call, effect)
  }

  async #settle(): Promise<void> {
    const buckets = this.prefixes.length
    const facts = await settledFacts(this.calls, { ...this.#options, buckets })
    if (Number(facts.buckets) !== buckets) {
      const message = `namespace ${this.#options.namespace} was made anew with ${facts.buckets} buckets, and this process opened it with ${buckets}: open it again`
      throw new LeaseError('STORE_SCHEMA', message)
    }
    this.#identity = identityOf(facts)
    await this.#makeBuckets()
  }

  /** A process that finds them made does not write: a server that cannot be written to may well be read. */
  async #makeBuckets(): Promise<void> {
    await Promise.all(this.buckets.map((bucket) => this.#makeBucket(bucket)))
  }

  async #makeBucket(bucket: number): Promise<void> {
    const identity = this.#identity
    if ((await this.stateOf(bucket)).identity === identity) return
    const found = await this.#runOnce(bucket, MAKE_BUCKET_SCRIPT, [newStateText({ identity })])
    if (found === identity) return
    const message = `bucket ${bucket} of namespace ${this.#options.namespace} belongs to one with another layout or number of buckets: expected ${identity}, got ${String(found)}`
    throw new LeaseError('STORE_SCHEMA', message)
  }

  /** So that the first command of each kind is not sent twice. */
  async load(): Promise<void> {
    const all = [COMMIT_SCRIPT, VIEW_SCRIPT, LOOK_SCRIPT, WALK_SCRIPT]
    await Promise.all(all.map(({ text }) => this.calls.send(['SCRIPT', 'LOAD', text], 'reads')))
  }
}

function identityOf({ version, buckets, incarnation }: NamespaceFacts): string {
  return `${version}/${buckets}/${incarnation}`
}

async function convertIfOld(calls: RedisCalls, options: NamespaceOptions): Promise<void> {
  const { namespace, isForced = false } = options
  const { version, buckets, conversion, converting } = await readFacts(calls, namespace)
  const isBegun = conversion !== null || converting !== null
  const layout = isBegun ? OLD_LAYOUT_VERSION : Number(version)
  const isOld = layout === OLD_LAYOUT_VERSION || layout === FORMER_LAYOUT_VERSION
  if (!isOld || Number(version) > LAYOUT_VERSION) return
  const { convertNamespace } = await import('./redis-conversion.ts')
  await convertNamespace(calls, {
    ...{ namespace, runtime: calls.facts.runtime, meta: metaKey(namespace), layout },
    prefixes: prefixesOf(namespace, Number(buckets)),
    // What was begun is ended: no process can use it as it is.
    force: isForced || isBegun,
  })
}

/** What holds of the namespace, which the process that used it first has said. */
async function settledFacts(
  calls: RedisCalls,
  { namespace, buckets }: NamespaceOptions,
): Promise<NamespaceFacts> {
  let facts = await readFacts(calls, namespace)
  if (facts.version === null || facts.incarnation === null) {
    requireLayout(facts.version)
    const first = buckets ?? (calls.driver.isCluster ? CLUSTER_BUCKETS_DEFAULT : 1)
    const args = [String(LAYOUT_VERSION), String(first), calls.facts.runtime.uuid()]
    const keys = [metaKey(namespace)]
    const call = { script: MAKE_NAMESPACE_SCRIPT, keys, args }
    facts = factsOf(await calls.run(call, 'writes'))
  }
  requireLayout(facts.version)
  if (facts.conversion === null) return facts
  throw new LeaseError('STORE_UNAVAILABLE', `namespace ${namespace} is being converted: try again`)
}

function requireLayout(version: string | null): void {
  if (version === null || Number(version) === LAYOUT_VERSION) return
  throw new LeaseError(
    'STORE_SCHEMA',
    `schema version must be ${LAYOUT_VERSION} for this version of Tenure, got ${version}`,
    { details: { supported: LAYOUT_VERSION, found: Number(version) } },
  )
}

/** FNV-1a, with a finish that mixes its low bits. */
function hash(text: string): number {
  let mixed = 0x811c9dc5
  for (const byte of Buffer.from(text)) mixed = Math.imul(mixed ^ byte, 0x01000193)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x45d9f3b)
  return (mixed ^ (mixed >>> 15)) >>> 0
}
