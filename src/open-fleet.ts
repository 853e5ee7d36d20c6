/** From a URL to the manager of one instance of a fleet: which layout, on which store. */
import { invalid } from './core/errors.ts'
import { refuseUnknown } from './core/input.ts'
import { requireText } from './core/text.ts'
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
import { hostName, processStartedAtMs } from './runtime/processes.ts'
import { systemRuntime } from './runtime/system-runtime.ts'
import { readAddress } from './store-address.ts'

export interface OpenManagerOptions extends LeaseManagerOptions {
  /** `poll`: the keys that polling services on Redis know. `lease`: leases as everywhere. Default: `poll` on Redis. */
  readonly layout?: LayoutName
  /** Of the keys on Redis, in the layout `poll`. Default `poll`. */
  readonly prefix?: string
  /** Of the store, in the layout `lease`. */
  readonly namespace?: string
}

const OPEN_OPTIONS = [...MANAGER_OPTIONS, 'layout', 'prefix', 'namespace'] as const

/** Opens nothing yet: `start` connects. */
export async function openLeaseManager(
  url: string,
  options: OpenManagerOptions = {},
): Promise<LeaseManager> {
  const { layout, settings } = await openLayout(url, options)
  return new FleetManager({ layout, settings, runtime: systemRuntime })
}

export interface OpenedLayout {
  readonly layout: FleetLayout
  readonly settings: FleetSettings
}

export async function openLayout(url: string, options: OpenManagerOptions): Promise<OpenedLayout> {
  refuseUnknown(options, OPEN_OPTIONS)
  const { layout: name, prefix, namespace, ...rest } = options
  const birth = { host: hostName(), startedAtMs: processStartedAtMs() }
  const settings = readSettings(rest, { runtime: systemRuntime, ...birth })
  if (readLayout(requireText('store', url), name) === 'poll') {
    if (namespace !== undefined)
      throw invalid('namespace', 'must not be given with poll', namespace)
    const { callMs } = settings
    const keys = new PollKeys(prefix ?? PREFIX_DEFAULT)
    const client = new PollClient({ url, runtime: systemRuntime, callMs })
    return { layout: new PollLayout({ client, keys, settings }), settings }
  }
  if (prefix !== undefined) throw invalid('prefix', 'must not be given with lease', prefix)
  const place = namespace === undefined ? {} : { namespace }
  readAddress(url, place)
  const layout = new LeaseLayout({
    ...{ settings, runtime: systemRuntime },
    openApi: () => openApi(url, place),
  })
  return { layout, settings }
}

function readLayout(url: string, name: unknown): LayoutName {
  const isRedis = /^rediss?:/.test(url)
  if (name === undefined) return isRedis ? 'poll' : 'lease'
  if (name !== 'poll' && name !== 'lease') throw invalid('layout', 'must be poll or lease', name)
  if (name === 'poll' && !isRedis) throw invalid('layout', 'must be lease on this store', name)
  return name
}
