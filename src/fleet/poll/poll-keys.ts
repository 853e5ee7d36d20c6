/** The names of keys and channels in Redis. The braces in `fence` are a hash tag: the fence is in the slot of its lease. */
import { invalid } from '../../core/errors.ts'
import { requireShortText } from '../../core/text.ts'

export const PREFIX_DEFAULT = 'poll'
const PREFIX_BYTES_MAX = 64
/** Nothing that is special in a pattern of SCAN or in a hash tag. */
const PREFIX_PATTERN = /^[^*?[\]\\{}]+$/

export class PollKeys {
  readonly prefix: string

  constructor(prefix: unknown) {
    const text = requireShortText({ field: 'prefix', bytesMax: PREFIX_BYTES_MAX }, prefix)
    if (!PREFIX_PATTERN.test(text)) throw invalid('prefix', 'must be without *?[]\\{}', text)
    this.prefix = text
  }

  lease(sessionId: string): string {
    return `${this.prefix}:lease:${sessionId}`
  }

  fence(sessionId: string): string {
    return `${this.prefix}:fence:{${this.lease(sessionId)}}`
  }

  node(instanceId: string): string {
    return `${this.prefix}:node:${instanceId}`
  }

  weight(instanceId: string): string {
    return `${this.prefix}:weight:${instanceId}`
  }

  name(instanceId: string): string {
    return `${this.prefix}:name:${instanceId}`
  }

  /** The TTL of its leases, in ms. */
  ttl(instanceId: string): string {
    return `${this.prefix}:ttl:${instanceId}`
  }

  drain(instanceId: string): string {
    return `${this.prefix}:drain:${instanceId}`
  }

  /** The set of our own instances. */
  get nodes(): string {
    return `${this.prefix}:nodes`
  }

  /** The channel of an instance for sessions that are handed to it. */
  transfers(instanceId: string): string {
    return `${this.prefix}:given:${instanceId}`
  }

  /** The channel for all instances: an instance has joined or left. */
  get changed(): string {
    return `${this.prefix}:changed`
  }

  /** The run of the server to which the data belongs. */
  get run(): string {
    return `${this.prefix}:run`
  }

  /** Exists during the grace period after the server has lost data. */
  get lost(): string {
    return `${this.prefix}:lost`
  }

  /** The channel for data losses in one database: channels are shared by all databases of a server. */
  losses(database: string): string {
    return `${this.prefix}:known:${database}`
  }

  /** What comes after `{prefix}:{kind}:`. */
  idIn(kind: 'lease' | 'node' | 'drain', key: string): string {
    return key.slice(`${this.prefix}:${kind}:`.length)
  }

  pattern(kind: 'lease' | 'node' | 'drain'): string {
    return `${this.prefix}:${kind}:*`
  }
}
