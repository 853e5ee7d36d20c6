/** From a URL or a client to the manager of one instance of a fleet: which layout, on which store. */
import { invalid } from './core/errors.ts'
import { refuseUnknown } from './core/input.ts'
import { FleetManager } from './fleet/fleet-manager.ts'
import type { FleetLayout } from './fleet/fleet-layout.ts'
import {
  MANAGER_OPTIONS,
  readSettings,
  type FleetSettings,
  type LayoutName,
  type LeaseManagerOptions,
} from './fleet/fleet-options.ts'
import { LeaseLayout } from './fleet/lease-layout.ts'
import { PollClient } from './fleet/poll/poll-client.ts'
import { PollKeys, PREFIX_DEFAULT } from './fleet/poll/poll-keys.ts'
import { PollLayout } from './fleet/poll/poll-layout.ts'
import type { LeaseManager } from './fleet/contract.ts'
import { openApi } from './open.ts'
import { hostName, processStartedAtMs, systemRuntime } from './runtime/system-runtime.ts'
import type { LeaseApi } from './service/lease-api.ts'
import { readAddress, type StoreSource } from './store-address.ts'
import type { RedisClient } from './drivers/redis-driver.ts'

export interface OpenManagerOptions extends LeaseManagerOptions {
  /** `poll`: the keys that polling services on Redis know. `lease`: leases as everywhere. Default: `poll` on Redis. */
  readonly layout?: LayoutName
  /** How the keys on Redis begin, in the layout `poll`. Default `poll`. */
  readonly prefix?: string
  /** The namespace of the store, in the layout `lease`. Default `default`, on a server that of the token. */
  readonly namespace?: string
  /** A token of `tenure tokens` for a server of Tenure (`http://`), in the layout `lease`. Default: none. */
  readonly token?: string
}

const OPEN_OPTIONS = [...MANAGER_OPTIONS, 'layout', 'prefix', 'namespace', 'token'] as const

/** On a URL or on a connection that the program has. Opens nothing yet: `start` connects. */
export async function openLeaseManager(
  store: StoreSource,
  options: OpenManagerOptions = {},
): Promise<LeaseManager> {
  const { layout, settings } = await openLayout(store, options)
  return new FleetManager({ layout, settings, runtime: systemRuntime })
}

export interface OpenedLayout {
  readonly layout: FleetLayout
  readonly settings: FleetSettings
}

export async function openLayout(
  store: StoreSource,
  options: OpenManagerOptions,
): Promise<OpenedLayout> {
  refuseUnknown(options, OPEN_OPTIONS)
  const { layout: name, prefix, namespace, token, ...rest } = options
  const birth = { host: hostName(), startedAtMs: processStartedAtMs() }
  const settings = readSettings(rest, { runtime: systemRuntime, ...birth })
  const redis = redisOf(store)
  if (readLayout(redis !== null, name) === 'poll' && redis !== null) {
    const named = namespace ?? namespaceIn(redis)
    if (named !== undefined) throw invalid('namespace', 'must not be given with poll', named)
    const { callMs } = settings
    const keys = new PollKeys(prefix ?? PREFIX_DEFAULT)
    const client = new PollClient({ source: redis, runtime: systemRuntime, callMs })
    return { layout: new PollLayout({ client, keys, settings }), settings }
  }
  if (prefix !== undefined) throw invalid('prefix', 'must not be given with lease', prefix)
  const place = {
    ...(namespace === undefined ? {} : { namespace }),
    ...(token === undefined ? {} : { token }),
  }
  readAddress(store, place)
  const openStore = (): Promise<LeaseApi> => openApi(store, place)
  const layout = new LeaseLayout({ settings, runtime: systemRuntime, openApi: openStore })
  return { layout, settings }
}

/** The URL or the client, if it leads to Redis. */
function redisOf(store: StoreSource): string | RedisClient | null {
  if (typeof store === 'string') return /^rediss?:/.test(store) ? store : null
  return typeof store === 'object' && store !== null && 'redis' in store ? store.redis : null
}

/** A fleet that was thought to be apart would share its keys with another. */
function namespaceIn(redis: string | RedisClient): string | undefined {
  if (typeof redis !== 'string' || !URL.canParse(redis)) return undefined
  return new URL(redis).searchParams.get('namespace') ?? undefined
}

function readLayout(isRedis: boolean, name: unknown): LayoutName {
  if (name === undefined) return isRedis ? 'poll' : 'lease'
  if (name !== 'poll' && name !== 'lease') throw invalid('layout', 'must be poll or lease', name)
  if (name === 'poll' && !isRedis) throw invalid('layout', 'must be lease on this store', name)
  return name
}
